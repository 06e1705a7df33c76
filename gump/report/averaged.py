"""What several runs that were tested on the same answer together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit
from scipy.stats import rankdata

from gump.record import Record
from gump.report.compact import method_of, ours
from gump.report.layout import head, markdown, measured, published_number
from gump.report.paired import TARGET, answers_at
from gump.report.statistics import SELECTED, unit
from gump.report.table import group_records

Array = npt.NDArray[np.float64]

HEADING = "Several seeds together"
REMARK = (
    "Where all runs of a configuration are tested on the same, the mean of their answers can be judged like the answers of one, which is what "
    "`gump predict` gives for the weights of several: probabilities are averaged, or numbers. It is one number, of all seeds at once, so it has no "
    "interval; published numbers are of single networks, and stand here to be seen beside *one at a time* alone."
)


def averaged(records: Sequence[Record], rule: str = SELECTED) -> float | None:
    """Judges the mean answers of runs that share a test set by the measure of each.

    Args:
        records: Runs of one configuration.
        rule: How the epoch that counts was chosen, by default as the configuration says.

    Returns:
        The measure in the unit of the tables; ``None`` for a single run, for test sets or right answers that differ, and where records do not hold
        answers, or hold classes instead of numbers.

    Example:
        >>> from gump.record import Record
        >>> logits = [0.0, 3.0, 2.0], [2.0, 3.0, 0.0]  # each puts another negative above a half
        >>> runs = [Record("mine", i, {}, "auroc", predictions={"target": [0, 1, 0], "loss": own}) for i, own in enumerate(logits)]
        >>> averaged(runs)
        100.0
    """
    if len(records) < 2 or records[0].metric not in MEASURES:
        return None
    tests = [(record.test_index, record.predictions.get(TARGET)) for record in records]
    if not tests[0][1] or any(test != tests[0] for test in tests) or not all(answers_at(record, rule) for record in records):
        return None
    answers = np.array([answers_at(record, rule) for record in records], dtype=float)
    metric, target = records[0].metric, np.array(tests[0][1], dtype=float)
    mean = (answers if metric == "mae" else expit(answers)).mean(0)
    return unit(metric) * MEASURES[metric](mean, target)


def _ranking(score: Array, target: Array) -> float:
    """The share of pairs of a positive and a negative of which the positive is put first; a tie is half a pair."""
    positive = target == 1
    most, pairs = positive.sum(), positive.sum() * (~positive).sum()
    return float((rankdata(score)[positive].sum() - most * (most + 1) / 2) / pairs)


def _precision(score: Array, target: Array) -> float:
    """The mean over positives of the precision among all that are scored as high."""
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))  # of those that are scored alike
    found = np.cumsum(target[order] == 1)[last]
    return float((np.diff(found, prepend=0) / found[-1] * found / (last + 1)).sum())


def _over_labels(judge: Callable[[Array, Array], float]) -> Callable[[Array, Array], float]:
    """The mean of a measure over labels, of which those count that have a positive and a negative, and of these the answers that are known."""

    def judged(score: Array, target: Array) -> float:
        columns = zip(score.reshape(len(score), -1).T, target.reshape(len(target), -1).T, strict=True)
        known = [(s[~np.isnan(t)], t[~np.isnan(t)]) for s, t in columns]
        values = [judge(s, t) for s, t in known if (t == 1).any() and (t == 0).any()]
        return float(np.mean(values)) if values else float("nan")

    return judged


MEASURES: dict[str, Callable[[Array, Array], float]] = {
    "ap": _over_labels(_precision),
    "auroc": _over_labels(_ranking),
    "mae": lambda mean, target: float(np.nanmean(np.abs(mean - target))),
}
"""The measures of answers that can be averaged, by their names in records."""


def together(records: Sequence[Record], frame: pd.DataFrame) -> Iterator[str]:
    """The part of the summary that has the mean answers of several seeds.

    Args:
        records: The runs.
        frame: The rows of :func:`gump.report.table.table` for them.
    """
    groups, rows = group_records(records), []
    for _, row in frame.sort_values(["dataset", "table", "method"], kind="stable").iterrows():
        value = averaged(groups[row["name"], row["variant"]])
        if value is not None:
            rows.append(
                {
                    "Dataset": row["dataset"],
                    "Method": method_of(row),
                    "Runs": row["num_runs"],
                    "Measure": head(frame, row["dataset"]),
                    "One at a time": ours(row),
                    "Together": measured(value, row["metric"]),
                    "Published": published_number(row),
                }
            )
    if rows:
        yield f"## {HEADING}"
        yield REMARK
        yield markdown(pd.DataFrame(rows))
