from collections.abc import Callable
from pathlib import Path
from typing import Any

from gump.record import Record

Call = Callable[..., Any]


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
