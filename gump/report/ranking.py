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
    point cannot win by losing its bad runs; a point of which no run left a number is the last. Nor can a point win by runs that it has not
    made, as in a search that was interrupted: a point with fewer runs comes after all that have more, whatever it reached. Runs are counted;
    whether points of equally many have the same splits is not looked at.

    Args:
        records: The runs of all points of one search, of one measure.
    """
    if not records:
        raise ValueError("'records' must hold at least one record (got none)")
    if len(names := sorted({record.name for record in records})) > 1:
        raise ValueError(f"'records' must be of one search (got {', '.join(names)}); rank them one by one")
    if len(metrics := sorted({record.metric for record in records})) > 1:
        raise ValueError(f"'records' must agree in 'metric' (got {', '.join(metrics)}); rank them one by one")
    sign = 1.0 if records[0].higher_is_better else -1.0
    points: dict[str, list[Record]] = {}
    for record in records:
        points.setdefault(record.variant, []).append(record)
    found = {variant: [pair for record in runs if (pair := _reached(record))] for variant, runs in points.items()}
    known = [pair for pairs in found.values() for pair in pairs]
    worst = sign * min((sign * value for value, _ in known), default=math.nan), max((loss for _, loss in known), default=math.nan)
    candidates = []
    for variant, runs in points.items():
        pairs = found[variant] + [worst] * (len(runs) - len(found[variant]))
        measure, loss = Estimate.of([unit(metrics[0]) * value for value, _ in pairs]), Estimate.of([loss for _, loss in pairs])
        num_diverged = sum(record.status == "diverged" for record in runs)
        candidates.append(Candidate(names[0], variant, metrics[0], len(runs), num_diverged, measure, loss))

    def place(point: Candidate) -> tuple[object, ...]:
        if not found[point.variant]:
            return True, -point.num_runs, point.variant
        mean = float(f"{point.measure.mean:.5g}")  # records keep seven digits, so that equals differ by their rounding
        return False, -point.num_runs, -sign * mean, point.loss.mean, point.variant

    return sorted(candidates, key=place)


def _reached(record: Record) -> tuple[float, float] | None:
    """Measure and loss on validation, or ``None`` if the run left no number."""
    results = results_at(record, SELECTED)
    value, loss = results.get("val"), results.get("val_loss")
    return (value, loss) if value is not None and loss is not None and math.isfinite(value) and math.isfinite(loss) else None
