import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fake_configs import tiny_config, tiny_tables, write_toml

from gump.cli.run import _hint, _print_summary
from gump.record import RULES, Record, load_records

Call = Callable[..., Any]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, True),
        ({"model": {"kind": "GPS"}}, False),
        ({"train": {"precision": "64-true"}}, False),
    ],
)
def test_runs_that_a_gpu_would_train_one_by_one_are_pointed_to_replicas(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: bool
) -> None:
    configs = [tiny_config(**changes)]
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert ("--replicas 2 " in _hint(configs, None, "auto")) == said
    assert ("--replicas 1 " in _hint(configs, [1], "cuda")) == said
    assert not _hint(configs, None, "cpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert not _hint(configs, None, "auto")


def test_a_second_call_trains_nothing_and_says_the_same(gump: Call, config: Path) -> None:
    first = gump("run", config, "--device", "cpu", "--splits", "0")
    before = Path("records/fake/tiny/000.json").read_bytes()
    second = gump("run", config, "--device", "cpu", "--splits", "0")
    assert second.stdout == first.stdout
    assert "recorded before" not in first.stderr
    assert "1 of 1 runs were recorded before, in records, and are not trained again" in second.stderr
    assert Path("records/fake/tiny/000.json").read_bytes() == before


def test_settings_folders_of_configurations_and_of_records_can_be_named(gump: Call, config: Path) -> None:
    write_toml(config.parent / "other.toml", tiny_tables())
    arguments = ["--device", "cpu", "--splits", "1", "--records", "r", "--set", "train.epochs=1", "--set", "model.base=none"]
    result = gump("run", "configs", config, *arguments)  # the file is in the folder, and counts once
    assert result.exit_code == 0, result.output
    assert [line.split("\t")[0] for line in result.stdout.splitlines()[1:]] == ["fake/other", "fake/tiny"]
    record = Record.load("r/fake/tiny/model.base=none,train.epochs=1/001.json")
    assert (record.settings["train"]["epochs"], record.settings["model"]["base"], len(record.history["val"])) == (1, None, 1)


def test_other_settings_are_refused_then_overwritten(gump: Call, config: Path) -> None:
    arguments = ["run", config, "--device", "cpu", "--splits", "0"]
    assert gump(*arguments).exit_code == 0
    write_toml(config, tiny_tables(train={"epochs": 1}))
    refused = gump(*arguments)
    assert refused.exit_code == 1
    assert "was made with other settings (train.epochs was 3, is 1); pass --overwrite to replace it" in refused.stderr
    assert gump(*arguments, "--overwrite").exit_code == 0
    assert len(Record.load("records/fake/tiny/000.json").history["val"]) == 1


def test_a_run_that_diverges_has_an_exit_code_of_its_own_and_is_told_with_the_reason(gump: Call, config: Path) -> None:
    settings = ["train.lr=1e30", "model.norm=none", "model.base_norm=none", "dataset.task=regression"]
    result = gump("run", config, "--device", "cpu", "--splits", "0", *(word for text in settings for word in ("--set", text)))
    assert result.exit_code == 3, result.output
    assert result.stdout.splitlines()[1].split("\t")[3] == "mae"
    assert re.search(r"^1 of 1 runs diverged; fake/tiny \[.*\] 0: epoch \d+, .*the loss is", result.stderr, re.MULTILINE)


def test_an_interruption_is_said_in_one_line(gump: Call, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gump.experiment.workshop.Trainer.fit", interrupt)
    result = gump("run", config, "--device", "cpu")
    assert result.exit_code == 130
    assert result.stderr.splitlines() == ["interrupted; runs that are finished are kept, and the same command goes on from them"]


def test_a_missing_package_is_said_in_one_line(gump: Call, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = gump("run", config, "--device", "cpu", "--tensorboard", "logs")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: '--tensorboard' needs the package tensorboard; install it with: pip install tensorboard\n",
    )


@pytest.mark.slow
def test_two_processes_share_every_batch_and_one_speaks(config: Path, tmp_path: Path) -> None:
    arguments = [
        sys.executable,
        "-m",
        "gump.cli",
        "run",
        str(config),
        "--device",
        "cpu",
        "--records",
        str(tmp_path / "r"),
        "--devices",
        "2",
    ]
    environment = {**os.environ, "GUMP_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    assert len(result.stdout.splitlines()) == 2
    records = load_records(tmp_path / "r")
    assert [(record.index, record.status, len(record.history["train_loss"])) for record in records] == [
        (0, "finished", 3),
        (1, "finished", 3),
    ]


def test_a_grid_is_trained_side_by_side_and_every_point_is_a_row_with_validation_alone(gump: Call, tmp_path: Path) -> None:
    grid = {'"train.lr"': [0.01, 0.05], '"train.base_lr"': [0.001, 0.01]}
    path = write_toml(tmp_path / "configs/grid.toml", tiny_tables(grid=grid))
    made = gump("run", path, "--device", "cpu", "--replicas", "8", "--set", "train.epochs=1")
    assert made.exit_code == 0, made.output
    columns, *rows = (line.split("\t") for line in made.stdout.splitlines())
    points = [f"train.lr={lr},train.base_lr={base_lr},train.epochs=1" for lr in (0.01, 0.05) for base_lr in (0.001, 0.01)]
    assert sorted((row[0], row[1], row[2]) for row in rows) == [("grid", point, "2") for point in points]
    assert columns[4:] == ["validation accuracy", "validation loss"]
    assert made.stdout == gump("best", "records/grid").stdout, "in the same order, from the best"
    records = load_records("records")
    page = gump("report", "records", "--out", "page")
    assert page.exit_code == 1
    assert page.stderr.startswith("error: 'records' must hold results (got searches alone)"), "no test set has a say in a choice"
    assert {record.provenance["program"] for record in records} == {"replicas"}
    assert all(len(record.provenance["and_with"]) == 3 for record in records)
    one = gump("run", path, "--device", "cpu", "--set", "train.epochs=1", "--set", "train.lr=0.05", "--set", "train.base_lr=0.01")
    assert one.stdout.splitlines()[1:] == [line for line in made.stdout.splitlines() if points[-1] in line]


def test_the_bar_names_the_configuration_with_its_variant(
    gump: Call, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, real = StringIO(), sys.modules["gump.cli.run"].Console
    monkeypatch.setattr(sys.modules["gump.cli.run"], "Console", lambda **_: real(file=shown, force_terminal=True, width=150))
    assert gump("run", config, "--device", "cpu", "--set", "train.epochs=2").exit_code == 0
    assert "fake/tiny [train.epochs=2] 1" in shown.getvalue()
    write_toml(config, tiny_tables(grid={'"train.lr"': [0.01, 0.02, 0.03]}))
    assert gump("run", config, "--device", "cpu", "--replicas", "6").exit_code == 0
    assert "fake/tiny [train.lr=0.01 and 2 more] 0" in shown.getvalue()


def test_the_log_of_a_job_has_a_line_now_and_then(gump: Call, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gump("run", config, "--device", "cpu", "--splits", "0").stderr == "", "a short run has nothing to say"
    monkeypatch.setattr(sys.modules["gump.cli.run"], "LINE_S", 0.0)
    lines = gump("run", config, "--device", "cpu").stderr.splitlines()
    assert lines[0] == "1 of 2 runs", "which was there"
    assert re.fullmatch(r"1 of 2 runs; fake/tiny 1, epoch 1 of \d+  train_loss \S+  val_loss \S+  val \S+", lines[1])
    assert "2 of 2 runs" in lines


def test_piped_output_of_the_command_is_plain_and_stays_apart_from_what_is_said(config: Path, tmp_path: Path) -> None:
    arguments = [
        sys.executable,
        "-m",
        "gump.cli",
        "run",
        str(config),
        "--device",
        "cpu",
        "--splits",
        "0",
        "--records",
        str(tmp_path / "r"),
    ]
    environment = {**os.environ, "GUMP_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    assert len(result.stdout.splitlines()) == 2
    assert "\x1b" not in result.stdout + result.stderr
    assert result.stderr == ""
    assert json.loads((tmp_path / "r/fake/tiny/000.json").read_text())["status"] == "finished"


def test_a_mean_over_fewer_runs_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"dataset": {"kind": "smiles"}, "train": {"select": "last"}}
    scores = [{"epoch": 1, "test": value} for value in (0.25, None, None)]  # two test sets have one class only
    _print_summary([Record("mine", i, settings, "auroc", results=dict.fromkeys(RULES, score)) for i, score in enumerate(scores)])
    said = capsys.readouterr()
    assert "mine\t\t1 of 3\tauroc\tlast\t25.00" in said.out
    assert said.err.startswith("mine: 2 of 3 runs have no number: what is known of their test sets is of one class")
    errors = {rule: {"epoch": 1, "test": 1.23456e-7} for rule in RULES}
    _print_summary([Record("mine", 0, settings, "mae", higher_is_better=False, results=errors)])
    assert "mine\t\t1\tmae\tlast\t1.2346e-07" in capsys.readouterr().out
