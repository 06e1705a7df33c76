"""What ``gump compare`` prints, for records of this repository and for some made by hand."""

import re
import shlex
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gump.cli import app
from gump.record import Record, load_records
from gump.report import Summary, paired_difference

ROOT = Path(__file__).parents[2]
FIRST, SECOND = "records/best/mutag_gin_gump_long", "records/best/mutag_gin_long"


def gump(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def tables(text: str) -> list[list[dict[str, str]]]:
    """Reads what is piped: a table begins where its header does."""
    found: list[list[dict[str, str]]] = []
    for cells in (line.split("\t") for line in text.splitlines()):
        if cells[0] == "configuration":
            header = cells
            found.append([])
        else:
            found[-1].append(dict(zip(header, cells, strict=True)))
    return found


def save(folder: Path, name: str, values: list[float], **fields: Any) -> Path:
    settings = {"dataset": {"kind": "tu", "name": "MUTAG"}, "protocol": {"kind": "fresh", "train": 0.8, "val": 0.1, "seed": 0}}
    settings |= fields.pop("settings", {})
    for i, value in enumerate(values):
        results = {"loss": {"epoch": 1, "val": value, "test": value}}
        record = Record(name, i, settings, "accuracy", results=results, **{"test_index": [2 * i, 2 * i + 1], **fields})
        record.save(folder)
    return folder / name / fields.get("variant", "")


def test_the_command_of_the_readme_says_what_the_report_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    [line] = re.findall(r"^ {4}gump compare (.*)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert shlex.split(line, comments=True) == [FIRST, SECOND]
    result = gump(FIRST, SECOND)
    assert result.exit_code == 0, result.output
    means, differences, answers = tables(result.stdout)
    first, second = load_records(FIRST), load_records(SECOND)
    for row, records in zip(means, (first, second), strict=True):
        found = Summary.of(records).estimates["selected"]
        assert (row["configuration"], row["runs"], row["selected by"]) == (records[0].name, "100", "last")
        assert row["test accuracy"] == f"{found.mean:.2f} ± {found.interval:.2f} [{found.corrected_interval:.2f}]"
    pair = paired_difference(second, first)
    less, [row] = pair.difference, differences
    assert (row["configuration"], row["splits"]) == ("best/mutag_gin_long", "100")
    assert row["less the first"] == f"{less.mean:.2f} ± {less.interval:.2f} [{less.corrected_interval:.2f}]"
    assert row["p, corrected"] == f"{less.corrected_p_value:.3f}"
    assert (int(row["won"]), int(row["lost"])) == (pair.runs_first, pair.runs_second)
    assert sum(int(row[name]) for name in ("won", "tied", "lost")) == 100
    [row] = answers
    assert row["answers that differ"] == f"{pair.num_different} of 2000"
    assert (int(row["only it right"]), int(row["only the first right"])) == (pair.num_only_first, pair.num_only_second)
    assert (int(row["graphs won"]), int(row["graphs lost"])) == (pair.graphs_first, pair.graphs_second)
    assert float(row["p, graphs"]) == pytest.approx(pair.sign_p_value, abs=5e-4)


def test_a_rule_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    means, [row], _ = tables(gump(FIRST, SECOND, "--select", "loss").stdout)
    assert [row["selected by"] for row in means] == ["loss", "loss"]
    expected = paired_difference(load_records(SECOND), load_records(FIRST), "loss").difference
    assert row["less the first"].startswith(f"{expected.mean:.2f} ± ")


def test_points_of_a_search_are_compared_on_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    points = sorted(Path("records/search/mutag_gin_long").iterdir())[:3]
    result = gump(*points)
    assert result.exit_code == 0, result.output
    means, differences = tables(result.stdout)
    assert [row["set"] for row in means] == [point.name for point in points]
    assert [row["set"] for row in differences] == [point.name for point in points[1:]]
    assert "test" not in result.stdout
    values = [100 * record.results[record.select]["val"] for record in load_records(points[0])]
    assert means[0]["validation accuracy"].startswith(f"{sum(values) / len(values):.2f} ± ")


def test_where_all_runs_share_a_test_set_there_is_no_corrected_number(tmp_path: Path) -> None:
    folders = [
        save(tmp_path, f"tu/mutag_{name}", values, test_index=[1, 2]) for name, values in (("a", [0.5, 0.7]), ("b", [0.6, 0.6]))
    ]
    means, [row] = tables(gump(*folders).stdout)
    assert [row["test accuracy"] for row in means] == ["60.00 ± 127.06", "60.00 ± 0.00"]
    assert (row["less the first"], row["p"], row["p, corrected"]) == ("0.00 ± 127.06", "1.000", "–")
    assert (row["won"], row["tied"], row["lost"]) == ("1", "0", "1")


def test_runs_that_left_no_number_are_told(tmp_path: Path) -> None:
    a, b = save(tmp_path, "tu/mutag_a", [0.5, 0.7, float("nan")]), save(tmp_path, "tu/mutag_b", [0.6, 0.6, 0.6])
    means, [row] = tables(gump(a, b).stdout)
    assert (means[0]["runs"], means[0]["test accuracy"].split(", ")[1]) == ("3", "2 runs")
    assert row["splits"] == "2"


def test_a_terminal_has_a_table_with_its_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, real = StringIO(), sys.modules["gump.cli.console"].Console
    monkeypatch.setattr(sys.modules["gump.cli.console"], "Console", lambda: real(file=shown, force_terminal=True, width=120))
    a, b = save(tmp_path, "tu/mutag_a", [0.5, 0.7]), save(tmp_path, "tu/mutag_b", [0.6, 0.7])
    assert gump(a, b).exit_code == 0
    corrected = paired_difference(load_records(b), load_records(a)).difference.corrected_interval
    assert f"[{corrected:.2f}]" in shown.getvalue()
    assert "split by split" in shown.getvalue()


def test_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("r"), "tu/mutag_a", [0.5, 0.7])
    save(Path("r"), "tu/mutag_b", [0.5])
    save(Path("r"), "tu/nci1_a", [0.5, 0.7], settings={"dataset": {"kind": "tu", "name": "NCI1"}})
    save(Path("r"), "search/mutag_a", [0.5, 0.7], settings={"protocol": {"kind": "fresh", "train": 0.8, "val": 0.1, "seed": 1}})
    Path("empty").mkdir()
    for arguments, message in (
        (["r/tu/mutag_a"], "'records' must be two folders or more (got 1); the others are compared with the first"),
        (["r/tu/mutag_a", "nowhere"], "'records' must be a folder of records (got 'nowhere', which is none)"),
        (["empty", "r/tu/mutag_a"], "'records' must hold at least one record (got none in 'empty'); `gump run CONFIG` makes them"),
        (["r/tu", "r/tu/mutag_a"], "(got 'r/tu', with 3 below it); name one, such as r/tu/mutag_a"),
        (["r/tu/mutag_a", "r/tu/nci1_a"], "(got dataset.name 'MUTAG' in tu/mutag_a and 'NCI1' in tu/nci1_a)"),
        (["r/tu/mutag_a", "r/search/mutag_a"], "have the same splits (got protocol.seed 0 in tu/mutag_a and 1 in search/mutag_a)"),
        (["r/tu/mutag_a", "r/tu/mutag_b"], "must share two splits or more"),
        (["r/tu/mutag_a", "r/tu/mutag_a", "--select", "best"], "'--select' must be one of loss, metric, last (got 'best')"),
    ):
        result = gump(*arguments)
        assert result.exit_code == 1, arguments
        assert result.stdout == ""
        [line] = result.stderr.splitlines()
        assert line.startswith("error: ")
        assert message in line
