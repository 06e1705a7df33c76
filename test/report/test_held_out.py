from collections.abc import Sequence

import numpy as np
import pytest

from gump.record import Record
from gump.report.held_out import held_out


def runs_on(tests: Sequence[Sequence[int]], right: Sequence[Sequence[bool]], **fields: object) -> list[Record]:
    """Runs that test on some graphs and have some of them right; the right class is 1."""
    return [
        Record(
            name="tu/mutag_gin",
            index=i,
            settings={},
            metric="accuracy",
            **{
                "test_index": list(graphs),
                "predictions": {"target": [1] * len(graphs), "loss": [int(answer) for answer in answers]},
                **fields,
            },
        )
        for i, (graphs, answers) in enumerate(zip(tests, right, strict=True))
    ]


def drawn(share: np.ndarray, num_tested: int, num_runs: int, rng: np.random.Generator) -> list[Record]:
    """Runs on fresh test sets, each graph right with its own probability."""
    tests = [rng.permutation(len(share))[:num_tested].tolist() for _ in range(num_runs)]
    return runs_on(tests, [(rng.random(num_tested) < share[test]).tolist() for test in tests])


def test_by_hand() -> None:
    found = held_out(runs_on([[0, 1], [2, 3]] * 2, [[True, False], [True, False]] * 2))
    assert found is not None
    assert (found.num_graphs, found.num_tested, found.answers_per_graph) == (4, 2, 2.0)
    assert found.std == pytest.approx(100 * (1 / 3 / 2 * (1 - 2 / 4)) ** 0.5), "of 1, 0, 1, 0 the variance is a third"


def test_it_is_the_deviation_over_draws_of_a_test_set() -> None:
    rng = np.random.default_rng(0)
    share = rng.beta(0.6, 0.2, size=300)
    means = [100 * share[rng.permutation(300)[:30]].mean() for _ in range(20_000)]
    found = [held_out(drawn(share, 30, 100, rng)) for _ in range(20)]
    assert np.mean([each.std for each in found if each]) == pytest.approx(np.std(means), rel=0.03)


def test_chance_alone_is_taken_off() -> None:
    rng = np.random.default_rng(0)
    found = [held_out(drawn(np.full(200, 0.7), 20, 100, rng)) for _ in range(20)]
    assert np.mean([each.std for each in found if each]) < 2, "where it is 10.2 if every graph were always right or always wrong"


def test_a_test_set_of_everything_is_not_drawn() -> None:
    found = held_out(runs_on([[0, 1], [1, 0]] * 2, [[True, False], [False, True]] * 2))
    assert found is None, "these runs share one test set"


def test_it_is_not_a_number_where_no_graph_was_tested_on_twice() -> None:
    found = held_out(runs_on([[0, 1], [2, 3]], [[True, False], [True, False]]))
    assert found is not None
    assert np.isnan(found.std)


@pytest.mark.parametrize(
    "fields", [{"metric": "mae"}, {"predictions": {}}, {"predictions": {"loss": [1, 1]}}, {"test_index": [0, 1]}], ids=str
)
def test_runs_that_do_not_tell_have_none(fields: dict[str, object]) -> None:
    records = runs_on([[0, 1], [2, 3]], [[True, False], [True, False]])
    assert held_out(records) is not None
    for record in records:
        for name, value in fields.items():
            setattr(record, name, value)
    assert held_out(records) is None


def test_the_rule_is_the_one_that_is_asked_for() -> None:
    records = runs_on([[0, 1], [2, 3]] * 2, [[True, False]] * 4)
    for record in records:
        record.predictions["last"] = record.predictions["target"]
    assert getattr(held_out(records, "last"), "std", None) == 0
    assert getattr(held_out(records), "std", 0) > 0
