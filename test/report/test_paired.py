import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gump.report.paired import paired_difference


def test_difference_by_hand(runs: Any) -> None:
    found = paired_difference(runs([0.8, 0.9, 0.7]), runs([0.7, 0.7, 0.7]))
    assert found.indices == (0, 1, 2)
    assert found.difference.mean == pytest.approx(10)
    assert found.difference.std == pytest.approx(10)
    assert found.difference.corrected_error == pytest.approx(10 * math.sqrt(1 / 3 + 1 / 8))


def test_difference_agrees_with_the_paired_test_of_scipy(runs: Any) -> None:
    a, b = np.random.default_rng(0).random((2, 12))
    found, expected = paired_difference(runs(a), runs(b)), stats.ttest_rel(100 * a, 100 * b)
    low, high = expected.confidence_interval()
    assert found.difference.p_value == pytest.approx(expected.pvalue)
    assert found.difference.mean - found.difference.interval == pytest.approx(low)
    assert found.difference.mean + found.difference.interval == pytest.approx(high)
    assert found.difference.corrected_p_value > found.difference.p_value


def test_differences_that_are_equal_but_for_the_digits_of_records_are_equal(runs: Any) -> None:
    """One answer of nineteen more in every run: 0.05263158 or 0.0526316 by how many there were."""
    counts = [10, 13, 17]
    a, b = (runs([float(f"{(count + more) / 19:.7g}") for count in counts]) for more in (1, 0))
    found = paired_difference(a, b).difference
    assert (found.std, found.interval, math.isnan(found.p_value), math.isnan(found.corrected_p_value)) == (0, 0, True, True)
    assert found.mean == pytest.approx(100 / 19, rel=1e-6)
    same = paired_difference(a, [*runs([record.results["loss"]["test"] * (1 + 1e-8) for record in a])]).difference
    assert (same.mean, same.p_value) == (0, 1)
    b[0].results["loss"]["test"] += 1 / 19
    assert paired_difference(a, b).difference.p_value < 1


def test_runs_that_each_wins_are_counted_and_of_an_error_less_is_better(runs: Any) -> None:
    values = [0.8, 0.9, 0.7, 0.5], [0.7, 0.7, 0.7, 0.6]
    found = paired_difference(*map(runs, values))
    assert (found.runs_first, found.runs_second) == (2, 1), "and one is even"
    found = paired_difference(*(runs(v, metric="mae", higher_is_better=False) for v in values))
    assert (found.runs_first, found.runs_second) == (1, 2)


def test_validation_is_compared_without_the_test_set_if_that_is_asked_for(runs: Any) -> None:
    a, b = (with_answers(runs([0.9, 0.9, 0.9]), [[0, 1]] * 3, [[0, 1]] * 3) for _ in range(2))
    for records, values in ((a, [0.6, 0.7, 0.8]), (b, [0.5, 0.5, 0.5])):
        for record, value in zip(records, values, strict=True):
            record.results["loss"]["val"] = value
            record.settings["protocol"] = {"kind": "fresh", "train": 0.5, "val": 0.1}
    found = paired_difference(a, b, part="val")
    assert found.difference.mean == pytest.approx(20)
    assert found.difference.corrected_error == pytest.approx(10 * math.sqrt(1 / 3 + 1 / 5)), "a fifth of the training set"
    assert (found.num_answers, found.graphs_first) == (0, None)
    del a[0].results["loss"]["val"]
    assert paired_difference(a, b, part="val").indices == (1, 2)


def test_swapping_changes_only_the_sign(runs: Any) -> None:
    a, b = runs([0.8, 0.9, 0.7]), runs([0.7, 0.75, 0.72])
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert there.difference.mean == pytest.approx(-back.difference.mean)
    assert there.difference.corrected_p_value == pytest.approx(back.difference.corrected_p_value)
    assert (there.runs_first, there.runs_second) == (back.runs_second, back.runs_first)


def test_only_runs_with_equal_index_and_test_set_and_a_number_are_compared(runs: Any) -> None:
    a, b = runs([0.8, 0.9, 0.7, 0.6, 0.5]), runs([0.1, 0.2, 0.3, None])
    b[1].test_index = [7, 8]
    assert paired_difference(a[::-1], b).indices == (0, 2)


def test_rule_decides_which_numbers_are_compared(runs: Any) -> None:
    a, b = runs([0.8, 0.9]), runs([0.7, 0.7])
    a[0].results["metric"]["test"] = 0.9
    assert paired_difference(a, b, "metric").difference.mean == pytest.approx(20)


def test_each_system_is_compared_by_its_own_rule_unless_one_is_named(runs: Any) -> None:
    a, b = runs([0.8, 0.9], settings={"train": {"select": "metric"}}), runs([0.7, 0.7])
    for record in a:
        record.results["metric"]["test"] = 1.0
        record.predictions = {"loss": [0, 0], "metric": [1, 1], "target": [1, 1]}
    for record in b:
        record.predictions = {"loss": [0, 1], "metric": [1, 1], "target": [1, 1]}
    found = paired_difference(a, b)
    assert (found.difference.mean, found.num_different) == (pytest.approx(30), 2)
    assert paired_difference(a, b, "loss").difference.mean == pytest.approx(15)


def with_answers(records: Any, answers: list[list[Any]], targets: list[list[int]] | None = None) -> Any:
    for i, (record, answer) in enumerate(zip(records, answers, strict=True)):
        record.predictions = {"loss": answer} | ({"target": targets[i]} if targets else {})
    return records


def test_answers_by_hand(runs: Any) -> None:
    tests, targets = [[0, 1, 2], [2, 3, 4]], [[0, 1, 2], [2, 0, 1]]
    a, b = runs([0.9, 0.9]), runs([0.5, 0.5])
    for records in (a, b):
        for record, test in zip(records, tests, strict=True):
            record.test_index = test
    found = paired_difference(with_answers(a, [[0, 1, 2], [0, 0, 1]], targets), with_answers(b, [[1, 1, 0], [2, 0, 0]], targets))
    assert (found.num_answers, found.num_different) == (6, 4)
    assert (found.num_only_first, found.num_only_second) == (3, 1)  # graphs 0, 2 and 4; graph 2 in the other run
    assert (found.graphs_first, found.graphs_second) == (2, 0)  # graph 2 is even
    assert found.sign_p_value == pytest.approx(0.5)  # two heads or two tails


def test_answers_of_one_run_are_compared_as_mcnemar_does(runs: Any) -> None:
    rng = np.random.default_rng(3)
    y, x, z = rng.integers(0, 2, (3, 200)).tolist()
    a, b = (with_answers(runs([0.5], test_index=list(range(200))), [p], [y]) for p in (x, z))
    found = paired_difference(a, b)
    only = sum(p == t != q for p, q, t in zip(x, z, y, strict=True)), sum(q == t != p for p, q, t in zip(x, z, y, strict=True))
    assert (found.num_only_first, found.num_only_second) == (found.graphs_first, found.graphs_second) == only
    tail = sum(math.comb(sum(only), k) for k in range(min(only) + 1)) / 2 ** sum(only)
    assert found.sign_p_value == pytest.approx(min(1.0, 2 * tail))


def test_without_the_right_answers_only_disagreement_is_counted(runs: Any) -> None:
    found = paired_difference(with_answers(runs([0.5]), [[0, 1]]), with_answers(runs([0.5]), [[1, 1]]))
    assert (found.num_answers, found.num_different, found.num_only_first, found.graphs_first) == (2, 1, None, None)
    assert math.isnan(found.sign_p_value)


@pytest.mark.parametrize("answers", [[], [0.25, 0.75], [[0.1], [0.2]], [0]])
def test_answers_that_are_not_a_class_for_each_graph_are_left_alone(answers: list[Any], runs: Any) -> None:
    found = paired_difference(with_answers(runs([0.5]), [answers]), with_answers(runs([0.5]), [[1, 1]]))
    assert found.num_answers == 0


def test_equal_answers_differ_in_nothing(runs: Any) -> None:
    a, b = (with_answers(runs([0.5]), [[0, 1]], [[1, 1]]) for _ in range(2))
    assert paired_difference(a, b).sign_p_value == 1


def test_refusals(runs: Any) -> None:
    with pytest.raises(ValueError, match=r"share a run .* under 'last' \(got none; they have the runs \[0, 1\] and \[0\]"):
        paired_difference(runs([0.5, 0.5]), runs([0.5]), "last")
    with pytest.raises(ValueError, match="must have one measure"):
        paired_difference(runs([0.5]), runs([0.5], metric="mae"))
    with pytest.raises(ValueError, match=r"must be of the same data .got .* whose right answers differ in run 0"):
        paired_difference(with_answers(runs([0.5]), [[0, 1]], [[1, 1]]), with_answers(runs([0.5]), [[0, 1]], [[0, 1]]))
