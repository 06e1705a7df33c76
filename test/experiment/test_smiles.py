"""From a table of SMILES to records."""

from pathlib import Path
from typing import Any

import pytest
from fake_configs import TINY, write_toml
from typer.testing import CliRunner

from gump.cli import app
from gump.datasets import load_smiles, read_smiles
from gump.experiment.config import make_configs
from gump.experiment.run import Runner
from gump.experiment.trained import load_trained
from gump.record import Record

pytest.importorskip("rdkit")

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "c1ccoc1"]
SMILES = [f"{'C' * (1 + i % 4)}{RINGS[i % 5]}" for i in range(16)] + ["[Na+]", "CC", "CCO", "CCN"]
PARTS = (["train"] * 3 + ["valid", "test"]) * 4
SHARES = {"train": 0.5, "val": 0.25}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twenty molecules, with a number, a label that is sometimes missing, and a part for each."""
    rows = [f"{s},{len(s) / 2},{'' if i % 7 == 3 else i % 2},{PARTS[i]}" for i, s in enumerate(SMILES)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["smiles,length,odd,split", *rows]) + "\n")
    return path


def tables(dataset: dict[str, Any], protocol: dict[str, Any]) -> dict[str, Any]:
    changes = {"dataset": {"kind": "smiles"} | dataset, "protocol": {"num_runs": 1} | protocol}
    return TINY | changes | {"train": {"epochs": 2, "batch_size": 8, "lr": 0.01}}


def test_the_command_trains_on_a_path_from_the_present_folder_and_the_weights_answer(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = {"path": table.name, "targets": "length", "split": "none"}
    write_toml(tmp_path / "mine.toml", tables(dataset, {"kind": "fresh"} | SHARES))
    done = CliRunner().invoke(app, ["run", "mine.toml", "--records", "out", "--device", "cpu", "--keep-weights"])
    assert done.exit_code == 0, done.output
    record = Record.load(tmp_path / "out/mine/000.json")
    assert (record.status, record.metric, len(record.history["train_loss"])) == ("finished", "mae", 2)
    trained = load_trained(tmp_path / "out/mine/000.pt")
    assert trained([read_smiles("CCN"), read_smiles("[Na+]")]).isfinite().all()


@pytest.mark.parametrize(
    ("dataset", "protocol", "metric"),
    [
        ({"targets": "odd"}, {"kind": "official"}, "auroc"),
        ({"targets": ["odd"], "task": "multilabel"}, {"kind": "scaffold"} | SHARES, "ap"),
        ({"targets": "length", "task": "regression"}, {"kind": "fixed_test"}, "mae"),
    ],
)
def test_tasks_and_protocols(table: Path, tmp_path: Path, dataset: dict[str, Any], protocol: dict[str, Any], metric: str) -> None:
    [config] = make_configs("mine", tables(dataset | {"path": str(table)}, protocol))
    [record] = Runner(tmp_path / "r").run(config)
    assert (record.status, record.metric) == ("finished", metric)
    if protocol["kind"] == "official":
        assert record.test_index == [i for i, part in enumerate(PARTS) if part == "test"]


def test_the_command_says_once_that_molecules_stand_in_several_lines_and_so_do_the_records(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table.write_text(table.read_text() + "OCC,7,1,test\n")
    dataset = {"path": table.name, "targets": "length"}
    write_toml(tmp_path / "mine.toml", tables(dataset, {"kind": "fresh", "num_runs": 2} | SHARES))
    done = CliRunner().invoke(app, ["run", "mine.toml", "--records", "out", "--device", "cpu"])
    note = "1 of 20 molecules stand in several lines, 1 of them with targets that differ"
    assert done.stderr.splitlines()[0].startswith(f"warning: mine.csv: {note} (again in line 22); a random split may")
    assert done.stderr.count("several lines") == 1
    assert Record.load(tmp_path / "out/mine/001.json").note == note
    first = ["--set", "dataset.duplicates=first", "--set", "protocol.num_runs=1", "--records", "out", "--device", "cpu"]
    assert CliRunner().invoke(app, ["run", "mine.toml", *first]).exit_code == 0
    [record] = (Record.load(path) for path in (tmp_path / "out/mine").glob("dataset*/000.json"))
    assert (record.note, max(record.test_index) < 20) == (f"{note}; of each the first was kept", True)


def test_answers_can_be_set_beside_their_lines_where_molecules_were_left_out(table: Path, tmp_path: Path) -> None:
    lines = table.read_text().splitlines()
    lines[3:3] = ["X,9,1,train", "", "C(C,8,0,test"]
    table.write_text("\n".join(lines))
    settings: Any = {"path": str(table), "targets": "length", "skip_invalid": True}
    [config] = make_configs("mine", tables(settings, {"kind": "official"}))
    with pytest.warns(UserWarning, match=r"2 of 22 molecules were left out, .* \(lines 4, 6\)"):
        [record] = Runner(tmp_path / "r").run(config)
    with pytest.warns(UserWarning, match="2 of 22"):
        asked = load_smiles(**settings).lines[record.test_index].tolist()
    assert asked == [number for number, line in enumerate(lines, 1) if line.endswith(",test") and not line.startswith("C(C")]
    assert record.predictions["target"] == [float(lines[number - 1].split(",")[1]) for number in asked]


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        (
            "smiles,y\nC,0.5\nX,1\n",
            "",
            "error: broken.toml: broken.csv must have molecules that RDKit understands in its column 'smiles' (got 'X' in line 3, of 2)",
        ),
        ("smiles,y\nC,2\nN,3\n", "", "error: broken.toml: 'task' must be given for 'y'"),
        (
            "smiles,y\nC,0.5\n",
            "target = 'y'",
            "error: broken.toml: 'dataset.target' is not a setting (did you mean 'dataset.targets'?)",
        ),
        ("smiles,y\nC,0.5\n", "targets = 3", "error: broken.toml: 'dataset.targets' must be a string or list or 'none' (got 3)"),
    ],
)
def test_the_command_says_in_a_line_what_is_wrong(
    columns: str, settings: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.csv").write_text(columns)
    file = write_toml(Path("broken.toml"), tables({"path": "broken.csv"}, {"kind": "fresh"}))
    file.write_text(file.read_text().replace("[dataset]", f"[dataset]\n{settings}"))
    done = CliRunner().invoke(app, ["run", "broken.toml", "--device", "cpu"])
    assert done.exit_code == 1
    assert message in done.stderr.replace(f"{tmp_path}/", "")
    assert done.stderr.count("\n") == 1
