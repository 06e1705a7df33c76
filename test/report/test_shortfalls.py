from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gump.record import Record
from gump.report.held_out import held_out
from gump.report.shortfalls import HEADING, shortfalls
from gump.report.summary import write_summary
from gump.report.table import table


@pytest.fixture
def records(runs: Any) -> list[Record]:
    """Sixty runs of 80 % or so, where 90 and 70 are published."""
    rng = np.random.default_rng(0)
    published = {"value": 90.0, "interval": 1.0, "source": "here", "others": [{"value": 70.0, "source": "there"}]}
    found: list[Record] = runs([0.0] * 60, published=published, settings={"title": "GIN-GUMP"})
    share = rng.beta(0.8, 0.2, size=100)
    for record in found:
        test = rng.permutation(100)[:10]
        right = rng.random(10) < share[test]
        record.test_index, record.predictions = test.tolist(), {"target": [1] * 10, "loss": right.astype(int).tolist()}
        record.results["loss"]["test"] = float(right.mean())
    return found


def test_a_number_below_a_published_one_has_its_distance_in_deviations(records: list[Record]) -> None:
    frame, found = table(records), held_out(records)
    heading, _, rows, _ = shortfalls(records, frame)
    assert heading == f"## {HEADING}"
    assert found is not None
    mean = frame["selected_mean"].iloc[0]
    assert f"90 ± 1 ({(90 - mean) / found.std:+.1f}); 70 ({(70 - mean) / found.std:+.1f})" in rows
    assert f"10 of {found.num_graphs}" in rows
    assert f"{found.std:.2f}" in rows


def test_what_is_above_or_was_hardly_tested_is_left_out(records: list[Record]) -> None:
    for record in records:
        record.published = {"value": 50.0}
    assert not list(shortfalls(records, table(records)))
    for record in records:
        record.published = {"value": 90.0}
    assert list(shortfalls(records, table(records)))
    assert not list(shortfalls(records[:20], table(records[:20]))), "a graph is tested on twice in the mean"


def test_the_summary_has_it(records: list[Record], tmp_path: Path) -> None:
    assert f"\n## {HEADING}\n" in write_summary(records, tmp_path / "results", tmp_path / "RESULTS.md").read_text()
