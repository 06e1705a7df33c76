from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from gump.record import Record
from gump.report.averaged import HEADING, averaged, together
from gump.report.summary import write_summary
from gump.report.table import table

Runs = Callable[..., list[Record]]


def answering(metric: str, answers: Any, target: Any, **fields: Any) -> list[Record]:
    """A run for each row of answers, all tested on the same."""
    index = list(range(len(target)))
    return [
        Record("ogb/molhiv_gin", i, {}, metric, test_index=index, predictions={"target": list(target), "loss": list(own)}, **fields)
        for i, own in enumerate(answers)
    ]


def shares(logits: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-logits))).mean(0)


@pytest.mark.parametrize("decimals", [0, 6])
def test_probabilities_are_averaged_and_judged_as_scikit_learn_does(decimals: int) -> None:
    rng = np.random.default_rng(0)
    target = (rng.random((200, 3)) < 0.2).astype(float)
    logits = (2 * target + 2 * rng.standard_normal((4, 200, 3))).round(decimals)  # whole numbers are often equal
    ranking = averaged(answering("auroc", logits[..., 0].tolist(), target[:, 0].tolist()))
    assert ranking == pytest.approx(100 * roc_auc_score(target[:, 0], shares(logits[..., 0])))
    precision = averaged(answering("ap", logits.tolist(), target.tolist()))
    assert precision == pytest.approx(average_precision_score(target, shares(logits), average="macro"))


def test_numbers_are_averaged_as_they_are() -> None:
    assert averaged(answering("mae", [[1.0, 5.0], [3.0, 5.0]], [2.0, 4.0])) == 0.5, "the means are 2 and 5"


def test_answers_that_are_not_known_count_for_nothing() -> None:
    assert averaged(answering("mae", [[1.0, 9.0], [3.0, 9.0]], [3.0, None])) == 1.0
    known = answering("ap", [[[1.0, 0.0], [2.0, 0.0]]] * 2, [[0.0, 1.0], [1.0, None]])
    assert averaged(known) == 1.0, "the second label has no negative, the first one is put in order"


@pytest.mark.parametrize(
    "change",
    [
        lambda records: records[:1],
        lambda records: [*records, *answering("auroc", [[1.0, 2.0]], [0, 1])],
        lambda records: answering("accuracy", [[0, 1]] * 2, [0, 1]),
        lambda records: [*records[:1], Record("ogb/molhiv_gin", 9, {}, "auroc", test_index=records[0].test_index)],
        lambda records: [*records, *answering("auroc", [[-1.0, 0.0, 1.0]], [1, 0, 0])],
    ],
    ids=["one run", "other test sets", "classes", "no answers", "other right answers"],
)
def test_there_are_none_where_answers_cannot_be_averaged(change: Callable[[list[Record]], list[Record]]) -> None:
    records = answering("auroc", [[-1.0, 0.0, 1.0]] * 2, [0, 0, 1])
    assert averaged(records) == 100.0
    assert averaged(change(records)) is None


def test_the_rule_is_the_one_that_is_asked_for() -> None:
    records = answering("auroc", [[-1.0, 1.0]] * 2, [0, 1])
    for record in records:
        record.predictions["last"] = [1.0, -1.0]
    assert (averaged(records), averaged(records, "last")) == (100.0, 0.0)


def test_the_summary_has_them_beside_single_runs(runs: Runs, tmp_path: Path) -> None:
    records = runs([0.5, 0.7], metric="auroc", settings={"title": "GIN"}, published={"value": 77.0, "source": "here"})
    assert not list(together(records, table(records))), "without answers"
    for record, logits in zip(records, [[0.0, 3.0, 2.0], [2.0, 3.0, 0.0]], strict=True):
        record.test_index, record.predictions = [0, 1, 2], {"target": [0, 1, 0], "loss": logits}
    heading, _, rows = together(records, table(records))
    assert heading == f"## {HEADING}"
    assert [cell.strip() for cell in rows.splitlines()[-1].strip("| ").split("|")][-2:] == ["100.00", "77"]
    assert f"\n## {HEADING}\n" in write_summary(records, tmp_path / "results", tmp_path / "RESULTS.md").read_text()
