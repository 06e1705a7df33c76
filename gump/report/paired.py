"""Two systems on the same splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from gump.record import Record
from gump.report.statistics import SELECTED, TEST, Estimate, resolve, split_ratio, value_at

TARGET = "target"
"""Where the right answers stand among the predictions of a record."""

ROUNDING = 4e-7
"""By how much of the values differences may differ and be equal: records keep seven digits."""


@dataclass(frozen=True)
class PairedDifference:
    r"""How much more one system reaches than another on the same splits, in the unit of the tables.

    Per run :math:`i` the difference :math:`d_i = a_i - b_i` is taken, so that what makes a split easy or hard for both drops out; mean, intervals
    and p-values are those of :class:`Estimate` for :math:`d_1 \ldots d_n`. For a measure of which less is better, a negative mean speaks
    for the first system.

    The answers themselves, where records hold them, tell more: how many differ and, if the right ones are known too, on how many graphs one
    system is right more often than the other. Each graph counts once however many test sets it is in, and the p-value is that of the
    exact sign test, which for a single run is McNemar's. It treats graphs as independent and says nothing about training again.

    Args:
        rule: How the epoch was chosen.
        indices: The runs compared: those that both have, with the same test set and a number.
        difference: Of the measure.
        runs_first: The number of runs in which the first system is better.
        runs_second: The number of runs in which the second system is better; in the others they are equal.
        num_answers: How many answers could be compared, over all runs; zero if the records hold none.
        num_different: How many of them differ.
        num_only_first: How many only the first system has right; ``None``, as all below, if the right answers are unknown.
        num_only_second: How many only the second system has right.
        graphs_first: The number of graphs that the first system has right more often.
        graphs_second: The number of graphs that the second system has right more often.
        sign_p_value: Two-sided, for the hypothesis that neither is more often the better one.
    """

    rule: str
    indices: tuple[int, ...]
    difference: Estimate
    runs_first: int
    runs_second: int
    num_answers: int = 0
    num_different: int = 0
    num_only_first: int | None = None
    num_only_second: int | None = None
    graphs_first: int | None = None
    graphs_second: int | None = None
    sign_p_value: float = math.nan


def paired_difference(
    records_a: Sequence[Record],
    records_b: Sequence[Record],
    rule: str = SELECTED,
    ratio: float | None = None,
    part: str = TEST,
) -> PairedDifference:
    """Compares two systems run by run.

    Args:
        records_a: Runs of the first system.
        records_b: Runs of the second.
        rule: How the epoch that counts was chosen: ``"loss"``, ``"metric"``, ``"last"``, or ``"selected"`` for the rule of each system's own
            configuration.
        ratio: Answers in the test set for each one in the training set, for the corrected interval; by default that of
            :func:`gump.report.statistics.split_ratio`.
        part: Where the measure is taken, ``"test"`` or ``"val"``; answers are those on the test set, and left alone for the second.
    """
    metrics = sorted({record.metric for record in (*records_a, *records_b)})
    if len(metrics) > 1:
        raise ValueError(f"'records_a' and 'records_b' must have one measure (got {', '.join(map(repr, metrics))})")
    pairs = common_runs(records_a, records_b, rule, part)
    if not pairs:
        raise ValueError(
            f"'records_a' and 'records_b' must share a run with the same test set and a number under '{rule}' (got none; they have "
            f"the runs {sorted(record.index for record in records_a)} and {sorted(record.index for record in records_b)})"
        )
    differences = _differences([(value_at(a, rule, part) or 0.0, value_at(b, rule, part) or 0.0) for a, b in pairs])
    ratio = split_ratio([a for a, _ in pairs], part) if ratio is None else ratio
    indices = tuple(a.index for a, _ in pairs)
    more, less = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    better = (more, less) if records_a[0].higher_is_better else (less, more)
    answers = _compare_answers(pairs, rule) if part == TEST else {}
    return PairedDifference(rule, indices, Estimate.of(differences, ratio), *better, **answers)


def _differences(values: Sequence[tuple[float, float]]) -> list[float]:
    """How much more the first is of every pair; equal ones are so to the bit, so that no test takes their rounding for a spread."""
    found, largest = [a - b for a, b in values], max(max(abs(a), abs(b)) for a, b in values)
    if max(found) - min(found) > ROUNDING * largest:
        return found
    return [0.0 if abs(found[0]) <= ROUNDING * largest else found[0]] * len(found)


def common_runs(
    records_a: Sequence[Record], records_b: Sequence[Record], rule: str, part: str = TEST
) -> list[tuple[Record, Record]]:
    """The runs that two systems have in common: with the same index, the same test set, and a number under the rule."""
    second = {record.index: record for record in records_b if value_at(record, rule, part) is not None}
    found = [(a, second[a.index]) for a in records_a if a.index in second and value_at(a, rule, part) is not None]
    return sorted(((a, b) for a, b in found if a.test_index == b.test_index), key=lambda pair: pair[0].index)


def _compare_answers(pairs: Sequence[tuple[Record, Record]], rule: str) -> dict[str, Any]:
    """The counts of a comparison answer by answer; none unless every run of both systems holds a class for every graph of its test set."""
    if any(not has_classes(record, rule) for pair in pairs for record in pair):
        return {}
    rows = [
        (graph, x, y, target)
        for a, b in pairs
        for graph, x, y, target in zip(a.test_index, answers_at(a, rule), answers_at(b, rule), _targets(a, b), strict=True)
    ]
    counts: dict[str, Any] = {"num_answers": len(rows), "num_different": sum(x != y for _, x, y, _ in rows)}
    if any(target is None for *_, target in rows):
        return counts
    balance: Counter[int] = Counter()
    for graph, x, y, target in rows:
        balance[graph] += (x == target) - (y == target)
    first, last = sum(v > 0 for v in balance.values()), sum(v < 0 for v in balance.values())
    return counts | {
        "num_only_first": sum(x == target != y for _, x, y, target in rows),
        "num_only_second": sum(y == target != x for _, x, y, target in rows),
        "graphs_first": first,
        "graphs_second": last,
        "sign_p_value": float(stats.binomtest(first, first + last).pvalue) if first + last else 1.0,
    }


def has_classes(record: Record, rule: str) -> bool:
    """Whether a record holds a class for every graph of its test set."""
    answers = answers_at(record, rule)
    return bool(answers) and len(answers) == len(record.test_index) and all(isinstance(answer, int) for answer in answers)


def answers_at(record: Record, rule: str) -> list[Any]:
    """What a record answers under a rule; nothing if it does not say."""
    return record.predictions.get(resolve(record, rule), [])


def _targets(a: Record, b: Record) -> list[int | None]:
    found = [record.predictions[TARGET] for record in (a, b) if TARGET in record.predictions]
    if len(found) == 2 and found[0] != found[1]:
        raise ValueError(
            f"'records_a' and 'records_b' must be of the same data (got {a.name} and {b.name}, whose right answers differ in run {a.index})"
        )
    return list(found[0]) if found and len(found[0]) == len(a.test_index) else [None] * len(a.test_index)
