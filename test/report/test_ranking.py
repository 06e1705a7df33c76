import math

import pytest

from gump.record import Record
from gump.report.ranking import rank


def run(variant, index, val, val_loss=1.0, test=0.0, metric="accuracy", higher=True, name="search/x"):
    results = {} if val is None else {"loss": {"val": val, "val_loss": val_loss, "test": test}}
    status = "diverged" if val is None else "finished"
    return Record(name, index, {}, metric, variant, higher, results=results, status=status)


def test_points_come_by_their_mean_on_validation_whatever_they_reach_on_test():
    records = [run("a", 0, 0.7, test=1.0), run("a", 1, 0.8, test=1.0), run("b", 0, 0.9), run("b", 1, 0.8)]
    first, second = rank(records)
    assert (first.variant, second.variant) == ("b", "a")
    assert first.measure.mean == pytest.approx(85)
    assert (first.num_runs, first.num_diverged) == (2, 0)


def test_less_is_better_for_errors_and_the_loss_decides_between_equals():
    errors = [run("a", 0, 0.7, metric="mae", higher=False), run("b", 0, 0.6, metric="mae", higher=False)]
    assert [c.variant for c in rank(errors)] == ["b", "a"]
    assert [c.variant for c in rank([run("a", 0, 0.7, 2.0), run("b", 0, 0.7, 1.0)])] == ["b", "a"]


def test_the_loss_decides_between_equals_that_records_have_rounded():
    shares = {"a": [31, 33], "b": [32, 32]}  # of 60
    losses = {"a": 1.0, "b": 0.5}
    records = [run(name, i, round(n / 60, 7), losses[name]) for name, right in shares.items() for i, n in enumerate(right)]
    assert [candidate.variant for candidate in rank(records)] == ["b", "a"]


def test_a_point_does_not_win_by_losing_its_bad_runs():
    records = [run("a", 0, 0.9), run("a", 1, None), run("b", 0, 0.8), run("b", 1, 0.8), run("c", 0, 0.1)]
    ranked = rank(records)
    assert [c.variant for c in ranked] == ["b", "a", "c"]
    assert ranked[1].measure.mean == pytest.approx(50)
    assert ranked[1].num_diverged == 1


def test_a_point_does_not_win_by_runs_that_it_has_not_made():
    lucky, half, whole = [run("a", 0, 1.0)], [run("b", i, 0.9) for i in range(2)], [run("c", i, 0.8) for i in range(3)]
    bad = [run("d", i, 0.1) for i in range(3)]
    assert [(c.variant, c.num_runs) for c in rank([*lucky, *half, *whole, *bad])] == [("c", 3), ("d", 3), ("b", 2), ("a", 1)]


@pytest.mark.parametrize(
    "results", [{}, {"loss": {"val": None, "val_loss": None}}, {"loss": {"val": math.nan, "val_loss": math.nan}}]
)
@pytest.mark.parametrize("higher", [True, False])
def test_a_point_that_left_no_number_is_the_last(results, higher):
    lost = [run("a", i, None, higher=higher) for i in range(2)]
    for record in lost:
        record.results = results
    worst = [run("b", i, 0.5, higher=higher) for i in range(2)]
    assert [c.variant for c in rank([*lost, *worst, run("c", 0, 0.5, higher=higher)])] == ["b", "c", "a"]
    assert [c.variant for c in rank([run("e", 0, None), run("a", 0, None), run("c", 0, None)])] == ["a", "c", "e"]


def test_it_looks_at_the_epoch_that_the_configuration_selects():
    record = run("a", 0, 0.7)
    record.settings["train"] = {"select": "metric"}
    record.results["metric"] = {"val": 0.9, "val_loss": 1.0}
    assert rank([record])[0].measure.mean == pytest.approx(90)


def test_nothing_two_searches_and_two_measures_are_refused():
    with pytest.raises(ValueError, match=r"'records' must hold at least one record \(got none\)"):
        rank([])
    with pytest.raises(ValueError, match=r"'records' must be of one search \(got search/x, search/y\); rank them one by one"):
        rank([run("a", 0, 0.7, name="search/y"), run("a", 0, 0.7, metric="mae")])
    with pytest.raises(ValueError, match=r"'records' must agree in 'metric' \(got accuracy, mae\)"):
        rank([run("a", 0, 0.7), run("b", 0, 0.7, metric="mae")])
