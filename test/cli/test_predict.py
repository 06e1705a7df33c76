"""``gump predict``: a table of answers, to a file or to whoever reads."""

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_configs import tiny_config
from typer.testing import CliRunner

from gump.cli import app
from gump.datasets import fake_dataset
from gump.experiment.predicting import Prediction
from gump.experiment.run import Runner
from gump.experiment.trained import load_trained

Call = Callable[..., Any]


@pytest.fixture
def gump(own_folder: Path) -> Call:
    """Calls the command in a folder of its own, in which weights of two runs are."""
    list(Runner(Path("records"), keep_weights=True).run(tiny_config(train={"epochs": 1})))
    return lambda *arguments: CliRunner().invoke(app, ["predict", *arguments, "--device", "cpu"])


def test_answers_are_printed_or_written_to_a_file(gump: Call) -> None:
    printed = gump("records/test/tiny/000.pt", "fake")
    assert (printed.exit_code, printed.stderr) == (0, "")
    written = gump("records/test/tiny/000.pt", "fake", "--out", "new/answers.csv")
    assert (written.exit_code, written.stdout, written.stderr) == (0, "", "written to new/answers.csv\n")
    assert Path("new/answers.csv").read_text() == printed.stdout
    assert gump("records/test/tiny", "fake", "--out", "new/answers.csv").exit_code == 0, "a file is replaced"
    with Path("new/answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    models = [load_trained(path) for path in sorted(Path("records/test/tiny").glob("*.pt"))]
    each = np.stack([model(list(fake_dataset())).softmax(1).numpy() for model in models])
    assert len(models) == 2
    for k in range(3):
        np.testing.assert_allclose([float(row[f"probability_{k}"]) for row in rows], each.mean(0)[:, k], rtol=1e-4)
        np.testing.assert_allclose([float(row[f"spread_{k}"]) for row in rows], each.std(0, ddof=1)[:, k], rtol=1e-2, atol=1e-6)


def test_where_there_is_no_terminal_a_line_now_and_then_says_how_far_it_is(gump: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["gump.cli.predict"], "LINE_S", 0)
    parts = iter([[["0"], ["1"]], [["2"]]])
    monkeypatch.setattr("gump.experiment.predicting.predict_data", lambda *_: Prediction(["graph"], 3, parts))
    found = gump("records/test/tiny", "fake")
    assert (found.stdout, found.stderr) == ("graph\n0\n1\n2\n", "2 of 3 answers\n3 of 3 answers\n")


def test_an_interruption_leaves_no_file_and_promises_nothing(gump: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts() -> Iterator[list[list[str]]]:
        yield [["0"]]
        raise KeyboardInterrupt

    monkeypatch.setattr("gump.experiment.predicting.predict_data", lambda *_: Prediction(["graph"], 3, parts()))
    found = gump("records/test/tiny", "fake", "--out", "answers.csv")
    assert (found.exit_code, found.stderr) == (130, "interrupted\n")
    assert not Path("answers.csv").exists()


def test_a_package_that_a_transform_lacks_ends_it_in_one_line(gump: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(*_: Any) -> None:
        raise ModuleNotFoundError("No module named 'roots'")

    monkeypatch.setattr("gump.experiment.preprocess._transformed", lack)
    found = gump("records/test/tiny", "fake", "--out", "answers.csv")
    assert (found.exit_code, found.stderr) == (1, "error: No module named 'roots'\n")
    assert not Path("answers.csv").exists()


def test_on_a_terminal_a_bar_says_so_and_is_gone_at_the_end(gump: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    found = gump("records/test/tiny", "fake", "--out", "answers.csv")
    assert "32/32" in found.stderr
    assert found.stderr.endswith("\x1b[2Kwritten to answers.csv\n"), "where the bar was erased"


def test_bad_input_is_refused_in_one_line_and_nothing_is_printed_or_written(gump: Call) -> None:
    np.savez("own.npz", edge_index=np.array([[0], [1]]), x=np.ones((2, 3)))
    Path("fake.csv").write_text("smiles\nCCO\n")
    for arguments, message in [
        (
            ["records/test/tiny/007.pt", "fake"],
            "'path' must be a file of weights (got records/test/tiny/007.pt); `gump run --keep-weights`",
        ),
        (
            ["records", "fake"],
            "'weights' must be files of weights, or folders of them (got 'records', in which there are none); some are in records/test/tiny",
        ),
        (["records/test/tiny/000.json", "fake"], "'path' must be a file of weights that `gump run --keep-weights` has left"),
        (["records/test/tiny", "Rng-20"], "did you mean Ring-20?"),
        (["records/test/tiny", "own.npz"], "graph 0 must have 4 columns in 'x' after transforms, as those of fake have"),
        (["records/test/tiny", "fake.csv"], "'data' must be graphs like those of fake, which the weights were trained on"),
        (["records/test/tiny", "fake", "--out", "answers.xlsx"], "'--out' must end in .csv (got 'answers.xlsx')"),
        (["records/test/tiny", "fake", "--out", "records"], "such as records/answers.csv"),
        (
            ["records/test/tiny", "fake", "--out", "fake.csv/a.csv"],
            "'--out' must be below a folder (got 'fake.csv/a.csv', and 'fake.csv'",
        ),
        (
            ["records/test/tiny", "fake.csv", "--out", "fake.csv"],
            "'--out' must be another file than the data (got 'fake.csv' for both)",
        ),
    ]:
        result = gump(*arguments)
        assert (result.exit_code, result.stdout) == (1, ""), result.output
        assert message in result.stderr
        assert result.stderr.startswith("error: ")
        assert len(result.stderr.splitlines()) == 1
    assert Path("fake.csv").read_text() == "smiles\nCCO\n"
    assert not list(Path().glob("answers*"))
