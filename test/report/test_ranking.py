import pytest

from gump.record import Record
from gump.report.ranking import rank


def run(variant, index, val, val_loss=1.0, test=0.0, metric="accuracy", higher=True):
    results = {} if val is None else {"loss": {"val": val, "val_loss": val_loss, "test": test}}
    status = "diverged" if val is None else "finished"
    return Record("search/x", index, {}, metric, variant, higher, results=results, status=status)


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


def test_a_point_does_not_win_by_losing_its_bad_runs():
    records = [run("a", 0, 0.9), run("a", 1, None), run("b", 0, 0.8), run("b", 1, 0.8), run("c", 0, 0.1)]
    ranked = rank(records)
    assert [c.variant for c in ranked] == ["b", "a", "c"]
    assert ranked[1].measure.mean == pytest.approx(50)
    assert ranked[1].num_diverged == 1


def test_it_looks_at_the_epoch_that_the_configuration_selects():
    record = run("a", 0, 0.7)
    record.settings["train"] = {"select": "metric"}
    record.results["metric"] = {"val": 0.9, "val_loss": 1.0}
    assert rank([record])[0].measure.mean == pytest.approx(90)


def test_nothing_and_two_measures_are_refused():
    with pytest.raises(ValueError, match=r"'records' must hold at least one record \(got none\)"):
        rank([])
    with pytest.raises(ValueError, match=r"'records' must agree in 'metric' \(got accuracy, mae\)"):
        rank([run("a", 0, 0.7), run("b", 0, 0.7, metric="mae")])
