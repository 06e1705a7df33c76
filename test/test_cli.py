import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fake_configs import tiny_config, tiny_tables, write_toml
from typer.testing import CliRunner

from gump.cli import app
from gump.cli.run import _hint
from gump.experiment.find_graphs import BENCHMARKS
from gump.experiment.listing import TABLES
from gump.record import Record, load_records

Call = Callable[..., Any]


@pytest.fixture
def gump(own_folder: Path) -> Call:
    """Calls the command in a folder of its own."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_toml(tmp_path / "configs/fake/tiny.toml", tiny_tables(published={"value": 86.72, "interval": 1.53}))


@pytest.mark.parametrize(
    "command", [[], ["list"], ["run"], ["predict"], ["report"], ["best"], ["compare"], ["diagnose"], ["explore"], ["figure"]]
)
def test_help_fits_a_screen_and_has_an_example(gump: Call, command: list[str]) -> None:
    result = gump(*command, "--help")
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(line.strip().startswith("Example: gump ") for line in lines)
    assert "..." not in re.sub(r"\[ARGS\]\.\.\.|\{?(configs|records|weights)\}?\.\.\.", "", result.output)


def test_the_best_of_a_search_is_a_point_with_all_its_runs(gump: Call, tmp_path: Path) -> None:
    for name, variant, index, val in [("x", "a", 0, 0.9), ("x", "b", 0, 0.8), ("x", "b", 1, 0.7), ("y", "a", 0, 0.5)]:
        results = {"loss": {"val": val, "val_loss": 1.0}}
        Record(f"search/{name}", index, {}, "accuracy", variant, results=results).save(tmp_path)
    result = gump("best", "search/x")
    assert result.exit_code == 0, result.output
    header, *rows = (line.split("\t") for line in result.stdout.splitlines())
    assert header[:3] == ["configuration", "set", "runs"]
    assert [row[1:3] for row in rows] == [["b", "2"], ["a", "1"]]
    assert rows[0][4] == "75 ± 64"
    assert rows[1][4] == "90", "a single run has no spread"
    result = gump("best", "search")
    assert result.exit_code == 1
    assert result.stderr == "error: 'records' must be of one search (got search/x, search/y); rank them one by one\n"


def test_configurations_become_records_and_records_a_page(gump: Call, config: Path, tmp_path: Path) -> None:
    result = gump("run", config, "--device", "cpu")
    assert result.exit_code == 0, result.output
    header, row = (line.split("\t") for line in result.stdout.splitlines())
    columns = ["configuration", "set", "runs", "measure", "selected by", "test", "by loss", "by metric", "last", "published"]
    assert header == columns
    assert (row[:4], row[-1]) == (["fake/tiny", "", "2", "accuracy"], "86.72")
    records = load_records("records")
    assert [record.index for record in records] == [0, 1]
    means = [100 * sum(record.results[rule]["test"] for record in records) / 2 for rule in ("loss", "metric", "last")]
    assert row[4] == "loss"
    assert [float(cell) for cell in row[5:9]] == pytest.approx([means[0], *means], abs=1e-2), "in percent"
    page = gump("report", "records", "--out", "page")
    assert page.exit_code == 0, page.output
    [markdown] = Path("page").glob("*.md")
    assert markdown.read_text().strip() in page.stdout
    assert "86.72 ± 1.53" in page.stdout
    assert f"written to {markdown}" in page.stderr


def test_a_summary_of_all_records_names_what_was_not_run(gump: Call, config: Path, tmp_path: Path) -> None:
    assert gump("run", config, "--device", "cpu").exit_code == 0
    write_toml(config.parent / "left.toml", tiny_tables(published={"value": 50.0}, sweep={'"model.num_layers"': [1, 2]}))
    made = gump("report", "records", "--out", "results", "--summary", "RESULTS.md", "--configs", config.parents[1])
    assert made.exit_code == 0, made.output
    text = Path("RESULTS.md").read_text()
    assert text.strip() in made.stdout
    assert "(results/fake/REPORT.md)" in text
    assert Path("results/fake/REPORT.md").is_file()
    assert "86.72 ± 1.53" in text
    assert re.search(r"Not run yet: \*left\* on \w+\.", text)
    refused = gump("report", "records", "--summary", "RESULTS.md", "--configs", "nowhere")
    assert refused.exit_code == 1
    assert "'--configs' must be a folder of configurations (got 'nowhere', which is none)" in refused.output


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


def test_a_run_that_diverges_has_an_exit_code_of_its_own(gump: Call, config: Path) -> None:
    settings = ["train.lr=1e30", "model.norm=none", "model.base_norm=none", "dataset.task=regression"]
    result = gump("run", config, "--device", "cpu", "--splits", "0", *(word for text in settings for word in ("--set", text)))
    assert result.exit_code == 3, result.output
    assert result.stdout.splitlines()[1].split("\t")[3] == "mae"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.toml"], "none.toml does not exist; it should be a configuration such as"),
        (["run", "EMPTY"], "there is no configuration in "),
        (["run", "CONFIG", "--set", "train.epoch=1"], "'train.epoch' is not a setting (did you mean 'train.epochs'?)"),
        (["run", "CONFIG", "--set", "train.epochs"], "'--set' must be KEY=VALUE (got 'train.epochs')"),
        (["run", "CONFIG", "--set", "train.epochs=many"], "'train.epochs' must be a whole number (got 'many')"),
        (["run", "CONFIG", "--set", "title.x=1"], "'title.x' is not a setting"),
        (["run", "CONFIG", "--set", "train=3"], "'train' is not a setting; settings are called TABLE.NAME, such as train.epochs"),
        (
            ["run", "CONFIG", "--splits", "0-99999999999"],
            "'--splits' must be below the protocol's number of runs, 2 (got 99999999999)",
        ),
        (["run", "CONFIG", "--set", "model.edge_dim=3"], "'model.edge_dim' must be the number of edge features of fake, on arcs"),
        (["run", "CONFIG", "--set", "model.conv=gat"], "'conv' must be one of"),
        (
            ["run", "CONFIG", "--set", "train.precision=foo", "--set", "model.kind=MPNN"],
            "'train.precision' must be one that Lightning Fabric knows (got 'foo')",
        ),
        (["run", "CONFIG", "--records", "CONFIG"], "'--records' must be a folder (got "),
        (["run", "CONFIG", "--set", "head.num_layers=-1"], "'num_layers' must be at least 0 (got -1)"),
        (
            ["list", "configs", "--configs", "nowhere"],
            "'--configs' must be a folder of configurations (got 'nowhere', which is none)",
        ),
        (["run", "CONFIG", "--set", "train.precision=7"], "'train.precision' must be a string (got 7)"),
        (["run", "CONFIG", "--splits", "3-1"], "'--splits' must be numbers and ranges such as 0-9,12 (got '3-1')"),
        (["run", "CONFIG", "--device", "abacus"], "abacus"),
        (["run", "CONFIG", "--tensorboard", "t", "--jobs", "2"], "'--tensorboard' cannot follow several runs at a time"),
        (["run", "CONFIG", "--devices", "2", "--jobs", "2"], "'--devices' and '--jobs' exclude each other"),
        (["run", "CONFIG", "--replicas", "2", "--jobs", "2"], "'--replicas' and '--jobs' exclude each other"),
        (["run", "CONFIG", "--set", "train.select=best"], "'train.select' must be one of ('loss', 'metric', 'last') (got 'best')"),
        (["run", "BROKEN"], "broken.toml is not valid TOML: "),
        (["run", "CONFIG", "--set", "dataset.kind=tu", "--set", "dataset.name=MUTAG"], "'dataset.num_graphs' is not a setting"),
        (["list", "weather"], "'what' must be one of datasets, models, transforms, protocols, configs or all (got 'weather')"),
        (["report", "nowhere"], "'records' must be a folder of records (got 'nowhere', which is none)"),
        (["report", "configs"], "'records' must hold at least one record"),
    ],
)
def test_errors_are_one_line(gump: Call, config: Path, arguments: list[str], message: str) -> None:
    broken = config.parents[2] / "broken.toml"
    empty = config.parents[2] / "empty"
    empty.mkdir()
    names = {"CONFIG": config, "BROKEN": broken, "EMPTY": empty}
    if "BROKEN" in arguments:
        broken.write_text("[train")
    result = gump(
        *(names.get(argument, argument) for argument in arguments),
        *(["--device", "cpu"] * (arguments[0] == "run" and "--device" not in arguments)),
    )
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "arguments", [["--nonsense"], ["run"], ["dance"], ["run", "x.toml", "--jobs", "0"], ["run", "x.toml", "--devices", "0"]]
)
def test_a_wrong_command_line_has_an_exit_code_of_its_own(gump: Call, arguments: list[str]) -> None:
    assert gump(*arguments).exit_code == 2


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


@pytest.mark.parametrize("what", [name for name in TABLES if name != "datasets"])
def test_lists_are_tables_of_plain_text(gump: Call, config: Path, what: str) -> None:
    result = gump("list", what)
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert {len(row) for row in rows} == {2}
    assert "\x1b" not in result.stdout
    names = {row[0] for row in rows}
    some = {"models": "GUMP", "transforms": "AddLineGraph", "protocols": "fresh", "configs": "configs/fake/tiny.toml"}
    assert some[what] in names
    assert all(row[1] for row in rows)


def test_a_dataset_that_is_not_here_is_a_row_that_says_how_to_get_it_and_one_that_is_damaged_what_is_wrong(
    gump: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data/PROTEINS/raw").mkdir(parents=True)
    (tmp_path / "data/PROTEINS/raw/PROTEINS_A.txt").write_text("1, 2")
    monkeypatch.setenv("GUMP_DATA", str(tmp_path / "data"))
    asked: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *address, **_: asked.append(address))
    result = gump("list")
    assert result.exit_code == 0, result.output
    assert not asked, "a list downloads nothing"
    header, *rows = (line.split("\t") for line in result.stdout.splitlines() if line.count("\t") > 5)
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert set(table) == set(BENCHMARKS)
    for name, row in table.items():
        assert row["num_graphs"] == ""
        assert (row["not here"] == "", row["what is wrong"] == "") == ((True, False) if name == "PROTEINS" else (False, True)), name
    where = tmp_path / "data/MUTAG/raw"
    assert table["MUTAG"]["not here"].startswith(
        f"'MUTAG' is not in {tmp_path / 'data'}; put its raw files under {where}; `gump run`"
    )
    assert "graph_indicator.txt is missing" in table["PROTEINS"]["what is wrong"]
    assert all(f"\n{word}\t" in result.stdout for word in ("GUMP", "AddLineGraph", "fresh"))


def test_statistics_are_those_of_the_data(gump: Call, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gump.experiment import listing

    monkeypatch.setattr(listing, "BENCHMARKS", {"MUTAG": listing.BENCHMARKS["MUTAG"]})
    header, row = (line.split("\t") for line in gump("list", "datasets").stdout.splitlines())
    table = dict(zip(header, row, strict=True))
    assert (table["dataset"], table["num_graphs"], table["avg_nodes"], table["num_targets"]) == ("MUTAG", "188", "17.93", "2")
    assert (table["not here"], table["what is wrong"]) == ("", "")


def test_a_list_says_which_dataset_it_reads(gump: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUMP_DATA", str(tmp_path / "nothing"))
    console = sys.modules["gump.cli.console"]
    quick = gump("list", "datasets")
    assert quick.stderr == "", "what takes no time is not told"
    monkeypatch.setattr(console, "TRACKED_S", 0.0)
    told = gump("list", "datasets")
    assert told.stdout == quick.stdout
    assert told.stderr.splitlines() == [f"{i} of {len(BENCHMARKS)} datasets; {name}" for i, name in enumerate(BENCHMARKS)]
    shown, real = StringIO(), console.Console
    monkeypatch.setattr(
        console, "Console", lambda stderr=False: real(file=shown, force_terminal=True, width=200) if stderr else real()
    )
    assert gump("list", "datasets").stdout == quick.stdout
    assert all(name in shown.getvalue() for name in BENCHMARKS)
    assert f"3/{len(BENCHMARKS)}" in shown.getvalue()


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


BLOCKED = ("matplotlib", "rdkit", "sklearn", "ogb", "tensorboard")
WITHOUT = """
import importlib.metadata, sys
blocked, real = sys.argv.pop(1).split(), importlib.metadata.distribution

def found(name):
    if name in blocked:
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)

class Finder:
    def __init__(self, real):
        self.real = real
    def __getattr__(self, name):
        return getattr(self.real, name)
    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in blocked else self.real.find_spec(name, *rest)

importlib.metadata.distribution = found
sys.meta_path[:] = map(Finder, sys.meta_path)
from gump.cli import app
from gump.cli.run import _hint
try:
    app()
finally:
    assert not [name for name in sys.modules if name.partition(".")[0] in blocked], "imported all the same"
"""


def test_from_configuration_to_record_only_what_a_plain_machine_has_is_imported(config: Path, tmp_path: Path) -> None:
    arguments = [
        "run",
        str(config),
        "--device",
        "cpu",
        "--splits",
        "0",
        "--set",
        "train.epochs=1",
        "--records",
        str(tmp_path / "r"),
    ]
    environment = {**os.environ, "GUMP_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WITHOUT, " ".join(BLOCKED), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert len(load_records(tmp_path / "r")) == 1


@pytest.mark.slow
def test_five_splits_of_mutag_stand_beside_the_published_number(gump: Call, data_root: Path) -> None:
    path = Path(__file__).parents[1] / "configs/tu/mutag_gin_gump.toml"
    made = gump("run", path, "--splits", "0-4", "--device", "cpu", "--set", "train.epochs=2")
    assert made.exit_code == 0, made.output
    assert [(record.index, len(record.test_index)) for record in load_records("records")] == [(i, 20) for i in range(5)]
    page = gump("report")
    assert page.exit_code == 0, page.output
    row = next(line for line in page.stdout.split("### Every number")[1].splitlines() if line.startswith("| MUTAG"))
    cells = [cell.strip() for cell in row.split("|")]
    assert (cells[1], cells[2].partition("[")[0], *cells[3:5]) == ("MUTAG", "GIN-GUMP", "train.epochs=2", "5")
    assert "86.72 ± 1.53" in cells


def test_the_command_of_the_report_runs_the_row_again(gump: Call, tmp_path: Path) -> None:
    path = write_toml(tmp_path / "my files/tiny.toml", tiny_tables(protocol={"num_runs": 5}, model={"dropout": 0.2}))
    settings = ["--set", f"train.lr={0.01 / 3}", "--set", "model.norm=none", "--set", "train.epochs=2"]
    first = gump("run", path, "--device", "cpu", "--splits", "3,0,1", "--replicas", "2", *settings)
    assert first.exit_code == 0, first.output
    page = gump("report", "records", "--out", "page")
    commands = [shlex.split(line) for line in page.stdout.splitlines() if line.startswith("gump run ")]
    assert len(commands) == 2, "one for the group of two and one for the run alone"
    for command in commands:
        again = gump(*command[1:])
        assert again.exit_code == 0, again.output
    pair = [{path.relative_to(root): result(path) for path in Path(root).rglob("*.json")} for root in ("records", "out/again")]
    assert pair[0] == pair[1]
    assert len(pair[0]) == 3


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


def result(path: Path) -> tuple[Any, ...]:
    """What must repeat of a record."""
    record = Record.load(path)
    return record.settings, record.history, record.predictions, record.provenance["side_by_side_with"]


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
