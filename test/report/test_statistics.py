import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gump.report.statistics import Estimate, Summary, split_ratio, unit, value_at


def test_estimate_by_hand() -> None:
    found = Estimate.of([80.0, 90.0, 85.0, 85.0], ratio=1 / 8)
    assert found.mean == 85
    assert found.std == pytest.approx(math.sqrt(50 / 3))
    assert found.interval == pytest.approx(3.182446 * math.sqrt(50 / 3) / 2)  # t(0.975, 3) from a printed table
    assert found.corrected_interval == pytest.approx(3.182446 * math.sqrt(50 / 3) * math.sqrt(3 / 8))


def test_hundred_splits_of_eight_to_one_have_the_error_of_the_literature() -> None:
    found = Estimate.of(list(np.random.default_rng(0).normal(size=100)), ratio=1 / 8)
    assert found.corrected_error / found.std == pytest.approx(0.3674, abs=1e-4)
    assert found.error / found.std == pytest.approx(0.1)


def test_intervals_and_p_values_agree_with_scipy() -> None:
    values = np.random.default_rng(1).normal(0.4, size=17)
    found, expected = Estimate.of(list(values)), stats.ttest_1samp(values, 0)
    low, high = expected.confidence_interval()
    assert found.mean - found.interval == pytest.approx(low)
    assert found.mean + found.interval == pytest.approx(high)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert math.isnan(found.corrected_interval)
    assert math.isnan(found.corrected_p_value)


def test_corrected_p_value_is_zero_point_zero_five_at_the_edge_of_the_corrected_interval() -> None:
    values = np.random.default_rng(2).normal(size=9)
    width = Estimate.of(list(values), ratio=0.2).corrected_interval
    edge = Estimate.of(list(values - values.mean() + width), ratio=0.2)
    assert edge.corrected_p_value == pytest.approx(0.05)
    assert edge.p_value < 0.05


@pytest.mark.parametrize(("values", "mean"), [([], math.nan), ([3.0], 3.0)])
def test_fewer_than_two_values_have_no_spread(values: list[float], mean: float) -> None:
    found = Estimate.of(values, ratio=1 / 8)
    assert found.mean == pytest.approx(mean, nan_ok=True)
    assert all(math.isnan(v) for v in (found.std, found.interval, found.corrected_interval, found.p_value, found.corrected_p_value))


@pytest.mark.parametrize(("value", "p"), [(2.0, math.nan), (0.0, 1.0)])
def test_equal_values_give_a_test_nothing_to_go_by(value: float, p: float) -> None:
    found = Estimate.of([value] * 3, ratio=1 / 8)
    assert found.interval == 0
    assert [found.p_value, found.corrected_p_value] == pytest.approx([p, p], nan_ok=True)


@pytest.mark.parametrize(("metric", "factor"), [("accuracy", 100), ("auroc", 100), ("ap", 1), ("mae", 1), ("anything", 1)])
def test_unit_is_that_of_the_published_tables(metric: str, factor: float, runs: Any) -> None:
    assert unit(metric) == factor
    assert Summary.of(runs([0.5, 0.7], metric=metric)).estimates["loss"].mean == pytest.approx(0.6 * factor)


def test_summary_by_hand(runs: Any) -> None:
    records = runs([0.8, 0.9, 0.85])
    records[1].results["metric"] = {"epoch": 7, "test": 0.95}
    records[2].status = "diverged"
    found = Summary.of(records)
    assert (found.name, found.variant, found.metric, found.num_runs, found.num_diverged) == (
        "tu/mutag_gin_gump",
        "",
        "accuracy",
        3,
        1,
    )
    assert found.estimates["loss"].mean == pytest.approx(85)
    assert found.estimates["metric"].mean == pytest.approx(260 / 3)
    assert found.estimates["selected"] == found.estimates["loss"], "where the settings do not say otherwise"
    assert found.epochs == {"selected": 20, "loss": 20, "metric": 10}
    assert found.time_s == 30
    assert "last" not in found.estimates
    assert found.estimates["loss"].corrected_error == pytest.approx(5 * math.sqrt(1 / 3 + 1 / 8))


def test_runs_without_a_number_do_not_count_and_numbers_of_diverged_ones_do(runs: Any) -> None:
    records = runs([0.8, 0.9, 0.1, None])
    records[2].results["loss"]["test"] = None  # what a record holds for NaN
    records[1].status = records[3].status = "diverged"
    found = Summary.of(records)
    assert (found.num_runs, found.num_diverged) == (4, 2)
    assert (found.estimates["loss"].num_runs, found.estimates["loss"].mean) == (2, pytest.approx(85))
    assert value_at(records[2], "loss") is None


def test_time_of_a_run_that_does_not_say_makes_the_total_unknown(runs: Any) -> None:
    records = runs([0.8, 0.9])
    records[1].cost = {}
    assert math.isnan(Summary.of(records).time_s)


@pytest.mark.parametrize(
    ("protocol", "ratio"),
    [
        ({"kind": "fresh", "train": 0.8, "val": 0.1}, 1 / 8),
        ({"kind": "fresh", "train": 0.5, "val": 0.25}, 1 / 2),
        ({"kind": "links", "val": 0.05, "test": 0.1, "supervision": 0.3}, 0.1 / 0.85),
        ({"kind": "folds", "num_folds": 10, "val": 0.1}, 1 / 8),
        ({"kind": "folds", "num_folds": 5, "val": 0.2}, 1 / 3),
        ({"train": 0.6, "test": 0.3, "val": 0.1}, 1 / 2),
        ({"train": 0.6}, 1 / 8),
        ({"train": True, "val": "x"}, 1 / 8),
        (None, 1 / 8),
    ],
)
def test_ratio_is_read_from_the_protocol(protocol: Any, ratio: float, runs: Any) -> None:
    assert split_ratio(runs([0.5, 0.5], settings={"protocol": protocol})) == pytest.approx(ratio)


def test_validation_has_its_own_values_and_share(runs: Any) -> None:
    records = runs([0.5, 0.7], settings={"protocol": {"kind": "fresh", "train": 0.5, "val": 0.1}})
    for record, value in zip(records, (0.2, 0.4), strict=True):
        record.results["loss"]["val"] = value
    assert (split_ratio(records), split_ratio(records, "val")) == pytest.approx((4 / 5, 1 / 5))
    found = Summary.of(records, part="val").estimates
    assert found["loss"].mean == pytest.approx(30)
    assert found["loss"].corrected_error == pytest.approx(20 / math.sqrt(2) * math.sqrt(1 / 2 + 1 / 5))
    assert "metric" not in found, "no run left a number there"


def test_validation_sets_of_folds_are_drawn_anew(runs: Any) -> None:
    records = runs([0.5, 0.7], settings={"protocol": {"kind": "folds", "num_folds": 5, "val": 0.2}})
    assert split_ratio(records, "val") == pytest.approx(0.2 / 0.6)


@pytest.mark.parametrize("test_index", [[3, 4, 5], []])
def test_there_is_no_correction_where_test_sets_are_shared_or_unknown(test_index: list[int], runs: Any) -> None:
    records = runs([0.5, 0.6, 0.7], test_index=test_index)
    assert math.isnan(split_ratio(records))
    assert math.isnan(Summary.of(records).estimates["loss"].corrected_interval)
    assert Summary.of(records).estimates["loss"].interval > 0
    assert Summary.of(records, ratio=1 / 8).estimates["loss"].corrected_interval > 0


def test_refusals(runs: Any) -> None:
    with pytest.raises(ValueError, match="at least one record"):
        Summary.of([])
    with pytest.raises(ValueError, match=r"agree in 'metric' \(got 'accuracy', 'mae'"):
        Summary.of(runs([0.5]) + runs([0.5], metric="mae"))
    with pytest.raises(ValueError, match="agree in 'variant'"):
        Summary.of(runs([0.5]) + runs([0.5], variant="train.epochs=2"))
    with pytest.raises(ValueError, match=r"each run once .* at index 0"):
        Summary.of(runs([0.5, 0.4]) + runs([0.5]))
    with pytest.raises(ValueError, match="'rule' must be one of 'selected', 'loss', 'metric', 'last'"):
        value_at(runs([0.5])[0], "best")
