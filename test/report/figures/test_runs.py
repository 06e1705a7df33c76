from typing import Any

import pytest

from gump.report.figures.runs import Wanted, find_lines, find_runs
from gump.report.statistics import Estimate

LINE = Wanted("depth/nci1_gcn", "GCN", ("model.num_layers",), (2, 4, 10))
PLANNED = {"settings": {"protocol": {"kind": "fresh", "num_runs": 3}}}


def test_a_line_has_the_means_of_its_runs_in_percent_and_their_interval(runs: Any) -> None:
    records = runs([0.6, 0.7, 0.8], LINE.config, variant="model.num_layers=10") + runs(
        [0.5, 0.7], LINE.config, variant="model.num_layers=2"
    )
    low, high = find_runs(records, LINE).points
    assert [low["x"], high["x"]] == [2, 10], "in the order of the axis, not of the text"
    assert (low["mean"], low["runs"], high["mean"], high["runs"]) == (pytest.approx(60), 2, pytest.approx(70), 3)
    half = Estimate.of([60.0, 70.0, 80.0]).interval
    assert (high["low"], high["high"]) == (pytest.approx(70 - half), pytest.approx(70 + half))
    assert find_runs(records, LINE, whole_range=True).points[1]["low"] == pytest.approx(60)
    assert find_runs(records, LINE, whole_range=True).points[1]["high"] == pytest.approx(80)


def test_runs_of_others_and_with_other_settings_are_no_part_of_it(runs: Any) -> None:
    records = runs([0.9], LINE.config, variant="model.num_layers=2,train.epochs=1") + runs([0.9], LINE.config)
    records += runs([0.9], "depth/nci1_gcn_fosr", variant="model.num_layers=2")
    assert find_runs(records, LINE) == ([], "no record")


def test_what_is_missing_is_said(runs: Any) -> None:
    records = runs([0.6, 0.7], LINE.config, variant="model.num_layers=4", **PLANNED)
    assert find_runs(records, LINE).missing == "model.num_layers=4: 2 of 3 runs; model.num_layers=2,10: no record"
    records += [r for x in (2, 10) for r in runs([0.6, 0.7, 0.8], LINE.config, variant=f"model.num_layers={x}", **PLANNED)]
    assert find_runs(records, LINE).missing == "model.num_layers=4: 2 of 3 runs"
    records += runs([0.6, 0.7, 0.8], LINE.config, variant="model.num_layers=4", **PLANNED)[2:]
    assert find_runs(records, LINE).missing == ""
    bar = Wanted("ablation/nci1_full", "GUMP")
    assert find_runs([], bar) == ([], "no record")
    assert find_runs(runs([None, None, None], bar.config, **PLANNED), bar) == ([], "all runs diverged")


def test_lines_without_a_run_are_left_out(runs: Any) -> None:
    other = LINE._replace(config="depth/nci1_gcn_fosr", name="FoSR")
    records = [r for x in LINE.values for r in runs([0.6, 0.7], LINE.config, variant=f"model.num_layers={x}")]
    lines, missing = find_lines(records, [LINE, other])
    assert [line["name"] for line in lines] == ["GCN"]
    assert lines[0]["x"] == [2, 4, 10]
    assert missing == {"depth/nci1_gcn_fosr": "no record"}
