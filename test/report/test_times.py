import json
from pathlib import Path
from typing import Any

import pytest

from gump.report import write_summary
from gump.report.times import times

ROW = {
    "batch": 16.0,
    "GCN": 8.0,
    "Kiani et al.": 80.0,
    "GUMP": 32.0,
    "matched batch": 7.0,
    "GUMP, matched batch": 90.0,
    "matched batch, as printed": 3.0,
    "GUMP, matched batch, as printed": 180.4,
    "GCN, one program": 2.0,
    "GUMP, one program": 3.0,
    "literal": 93.23,
}


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    path = tmp_path / "epochs.txt"
    path.write_text(
        f"torch 1.2.3, A GPU; seconds for the training of 100 epochs\nMUTAG: batch 16\n{json.dumps({'MUTAG': ROW, 'OWN': ROW})}\n"
    )
    return path


def cells(printed: Path) -> list[dict[str, str]]:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in list(times(printed))[2].splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def test_ours_stand_beside_the_published_ones(printed: Path) -> None:
    mutag, own = cells(printed)
    assert mutag["GUMP, step by step"] == "32 (4.00 of GCN)"
    assert mutag["GUMP, one program"] == "3 (1.50 of GCN)"
    assert mutag["GUMP, published"] == "7.21 (1.64 of GCN)"
    assert mutag["GUMP, matched as printed, step by step"] == "180 (batch 3)"
    assert mutag["GUMP, matched, published"] == "37.9 (batch 3)"
    assert (own["GCN, published"], own["GUMP, published"], own["GUMP, matched, published"]) == ("–", "–", "–")
    assert list(times(printed))[-1].startswith("All rows: torch 1.2.3, A GPU.")


def test_the_summary_has_them_where_they_are_given(printed: Path, tmp_path: Path, runs: Any) -> None:
    found = runs([0.9], name="tu/mutag_gcn")
    with_times = write_summary(found, tmp_path / "results", tmp_path / "RESULTS.md", timed=printed).read_text()
    without = write_summary(found, tmp_path / "results", tmp_path / "RESULTS.md").read_text()
    assert "## Time of a hundred epochs" in with_times
    assert "## Time of a hundred epochs" not in without


@pytest.mark.parametrize("text", ["", "no JSON", '{"MUTAG": {}}', "[1]", '{"MUTAG": 3}'])
def test_what_is_no_such_table_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text(text)
    with pytest.raises(ValueError, match="must be what benchmarks/epochs"):
        list(times(tmp_path / "other.txt"))
