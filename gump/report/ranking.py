"""Which point of a search is best, by validation alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gump.record import Record
from gump.report.statistics import SELECTED, Estimate, results_at, unit


@dataclass(frozen=True)
class Candidate:
    """A point of a search and what its runs reached on their validation sets, at the epochs that its own rule selects.

    Args:
        name: The configuration.
        variant: The point.
        metric: The name of the measure.
        num_runs: How many runs there are.
        num_diverged: How many of them diverged.
        measure: The measure on validation, in the unit of the tables.
        loss: The loss on validation.
    """

    name: str
    variant: str
    metric: str
    num_runs: int
    num_diverged: int
    measure: Estimate
    loss: Estimate


def rank(records: Sequence[Record]) -> list[Candidate]:
    """Orders the points of a search from the best, by the mean of the measure on validation; no number of a test set is looked at.

    Between equal means the lower loss decides. A run that diverged before it left a number counts as the worst that any run left, so that a
    point cannot win by losing its bad runs.

    Args:
        records: The runs of all points, of one measure.
    """
    if not records:
        raise ValueError("'records' must hold at least one record (got none)")
    if len(metrics := sorted({record.metric for record in records})) > 1:
        raise ValueError(f"'records' must agree in 'metric' (got {', '.join(metrics)}); rank the searches one by one")
    sign = 1.0 if records[0].higher_is_better else -1.0
    found = [(results_at(record, SELECTED).get("val"), results_at(record, SELECTED).get("val_loss")) for record in records]
    known = [(value, loss) for value, loss in found if value is not None and loss is not None]
    worst = sign * min((sign * value for value, _ in known), default=math.nan), max((loss for _, loss in known), default=math.nan)
    groups: dict[tuple[str, str], list[tuple[Record, float, float]]] = {}
    for record, (value, loss) in zip(records, found, strict=True):
        pair = worst if value is None or loss is None else (value, loss)
        groups.setdefault((record.name, record.variant), []).append((record, *pair))
    candidates = [
        Candidate(
            name,
            variant,
            metrics[0],
            len(runs),
            sum(record.status == "diverged" for record, _, _ in runs),
            Estimate.of([unit(metrics[0]) * value for _, value, _ in runs]),
            Estimate.of([loss for _, _, loss in runs]),
        )
        for (name, variant), runs in groups.items()
    ]
    return sorted(candidates, key=lambda c: (-sign * c.measure.mean, c.loss.mean, c.name, c.variant))
