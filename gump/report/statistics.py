"""The numbers of a group of runs: mean, spread and two intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import stats

from gump.record import RULES, Record

SELECTED = "selected"
"""The rule that the configuration itself names, which is the headline; beside the three rules that every record holds."""

COLUMNS = (SELECTED, *RULES)
"""The rules of a table, the headline first."""

PERCENT = frozenset({"accuracy", "auroc"})
"""The measures that tables give in percent. All others stand as they are: the published tables have ``"ap"`` and ``"mae"`` so."""

PARTS = ("train", "val", "test")
TEST, VALIDATION = "test", "val"
"""The parts of a split on which results are measured; among the points of a search, the second alone."""

FIXED = ("official", "scaffold")
"""Protocols under which all runs have one validation set."""

RATIO = 1 / 8
"""Answers tested for each one trained on where a record does not say: the 80/10/10 splits of the TU protocol."""


def unit(metric: str) -> float:
    """What a measure is multiplied by before it stands in a table.

    Example:
        >>> unit("accuracy"), unit("mae")
        (100.0, 1.0)
    """
    return 100.0 if metric in PERCENT else 1.0


@dataclass(frozen=True)
class Estimate:
    r"""A mean over runs, and how far it may be off.

    For values :math:`x_1 \ldots x_n` with sample standard deviation :math:`s` and the 97.5 % quantile :math:`t` of Student's distribution
    with :math:`n - 1` degrees of freedom, half the width of the 95 % interval is

    .. math::
        t \, s \sqrt{1 / n} \quad\text{(plain)}, \qquad t \, s \sqrt{1 / n + n_{test} / n_{train}} \quad\text{(corrected).}

    The plain one takes runs for independent. Splits of one dataset overlap, so it is too narrow for what another sample of graphs would
    give; the correction of Nadeau and Bengio (`Inference for the Generalization Error
    <https://doi.org/10.1023/A:1024068626366>`_) allows for that and does not shrink to nothing as splits are added.

    Args:
        num_runs: How many values there are.
        mean: Their mean; NaN if there are none.
        std: Their sample standard deviation; NaN for fewer than two, like everything below.
        error: The standard error of the plain interval.
        corrected_error: The standard error of the corrected interval; NaN without a ratio.
    """

    num_runs: int
    mean: float
    std: float
    error: float
    corrected_error: float

    @classmethod
    def of(cls, values: Sequence[float], ratio: float = math.nan) -> Self:
        """Estimates from values.

        Args:
            values: One for each run.
            ratio: Answers in the test set for each one in the training set; NaN for no correction.

        Example:
            >>> Estimate.of([1.0, 2.0, 3.0], ratio=1 / 8)
            Estimate(num_runs=3, mean=2.0, std=1.0, error=0.577..., corrected_error=0.677...)
        """
        num_runs = len(values)
        if num_runs < 2:
            return cls(num_runs, float(values[0]) if num_runs else math.nan, math.nan, math.nan, math.nan)
        std = float(np.std(values, ddof=1))
        return cls(num_runs, float(np.mean(values)), std, std * math.sqrt(1 / num_runs), std * math.sqrt(1 / num_runs + ratio))

    @property
    def interval(self) -> float:
        """Half the width of the plain 95 % interval."""
        return self._quantile * self.error

    @property
    def corrected_interval(self) -> float:
        """Half the width of the corrected 95 % interval."""
        return self._quantile * self.corrected_error

    @property
    def p_value(self) -> float:
        """Two-sided, for the hypothesis that the mean is zero, with the plain error."""
        return self._p_value(self.error)

    @property
    def corrected_p_value(self) -> float:
        """The same with the corrected error."""
        return self._p_value(self.corrected_error)

    @property
    def _quantile(self) -> float:
        return float(stats.t.ppf(0.975, self.num_runs - 1)) if self.num_runs > 1 else math.nan

    def _p_value(self, error: float) -> float:
        if error == 0:  # all values are equal: a test has nothing to go by
            return math.nan if self.mean else 1.0
        return float(2 * stats.t.sf(abs(self.mean) / error, self.num_runs - 1)) if self.num_runs > 1 else math.nan


@dataclass(frozen=True)
class Summary:
    """What the runs of one configuration came to, in the unit of the tables.

    A run counts under a rule if it left a number there, whether it ended well or diverged later; ``num_diverged`` says how many did.

    Args:
        name: The configuration.
        variant: What was set otherwise than in its file.
        metric: The name of the measure.
        higher_is_better: Whether more of it is better.
        num_runs: How many runs there are.
        num_diverged: How many of them diverged.
        estimates: By rule, of those under which a run left a number, the measure on the test set, or on what was asked for.
        epochs: By rule, the median of the epoch that counted.
        time_s: Of all runs together; NaN if a run does not say.
    """

    name: str
    variant: str
    metric: str
    higher_is_better: bool
    num_runs: int
    num_diverged: int
    estimates: Mapping[str, Estimate]
    epochs: Mapping[str, float]
    time_s: float

    @classmethod
    def of(cls, records: Sequence[Record], ratio: float | None = None, part: str = TEST) -> Self:
        """Summarizes runs of one configuration.

        Args:
            records: Its runs: one name, one variant, one measure, and every index once.
            ratio: Answers in the test set for each one in the training set; by default what :func:`split_ratio` reads from the runs.
            part: Where the measure is taken, ``"test"`` or ``"val"``.
        """
        if not records:
            raise ValueError("'records' must hold at least one record (got none)")
        for what in ("name", "variant", "metric", "higher_is_better"):
            found = sorted({str(getattr(record, what)) for record in records})
            if len(found) > 1:
                raise ValueError(f"'records' must agree in '{what}' (got {', '.join(map(repr, found))} in {records[0].name!r})")
        indices = [record.index for record in records]
        if len(set(indices)) < len(indices):
            twice = sorted({i for i in indices if indices.count(i) > 1})
            raise ValueError(
                f"'records' must hold each run once (got {records[0].name!r} twice at index {', '.join(map(str, twice))})"
            )
        first = records[0]
        ratio = split_ratio(records, part) if ratio is None else ratio
        values = {rule: [v for record in records if (v := value_at(record, rule, part)) is not None] for rule in COLUMNS}
        epochs = {rule: [e for record in records if (e := results_at(record, rule).get("epoch")) is not None] for rule in COLUMNS}
        return cls(
            name=first.name,
            variant=first.variant,
            metric=first.metric,
            higher_is_better=first.higher_is_better,
            num_runs=len(records),
            num_diverged=sum(record.status == "diverged" for record in records),
            estimates={rule: Estimate.of(found, ratio) for rule, found in values.items() if found},
            epochs={rule: float(np.median(found)) for rule, found in epochs.items() if found},
            time_s=sum(t if (t := record.cost.get("time_s")) is not None else math.nan for record in records),
        )


def value_at(record: Record, rule: str, part: str = TEST) -> float | None:
    """The measure on a part of the split in the unit of the tables, or ``None`` if the run left no number under the rule."""
    value = results_at(record, rule).get(part)
    return None if value is None or not math.isfinite(value) else unit(record.metric) * value


def without_measure(records: Sequence[Record]) -> str:
    """Why runs of one configuration have no number on their test sets although they are finished; empty if all have one.

    Example:
        >>> from gump.record import Record
        >>> runs = [Record("mine", i, {}, "auroc", results={"loss": {"epoch": 1, "test": test}}) for i, test in enumerate((0.9, None))]
        >>> without_measure(runs)
        '1 of 2 runs has no number: what is known of its test set is of one class, or nothing'
    """
    finished = [record for record in records if record.status == "finished" and results_at(record, SELECTED)]
    if not (count := sum(value_at(record, SELECTED) is None for record in finished)):
        return ""
    whose = "has no number: what is known of its test set" if count == 1 else "have no number: what is known of their test sets"
    return f"{count} of {len(records)} runs {whose} is {'of one class, or nothing' if records[0].metric != 'mae' else 'nothing'}"


def results_at(record: Record, rule: str) -> dict[str, float]:
    """What a record holds under a rule; nothing if the run left nothing there."""
    return record.results.get(resolve(record, rule), {})


def resolve(record: Record, rule: str) -> str:
    """One of the three rules of a record, that of its own configuration for ``"selected"``."""
    if rule not in COLUMNS:
        raise ValueError(f"'rule' must be one of {', '.join(map(repr, COLUMNS))} (got {rule!r})")
    return record.select if rule == SELECTED else rule


def split_ratio(records: Sequence[Record], part: str = TEST) -> float:
    """Answers in the test set, or the validation set, for each one in the training set, for the correction of Nadeau and Bengio.

    The correction is for test sets drawn anew in each run. Where all runs share one test set (an official split, a test set held out
    beforehand), or do not say which they had, it does not apply, and the ratio is NaN: the interval then speaks of seeds and training
    sets, and is silent about the choice of the test set. Of validation sets only the protocol tells whether they are drawn anew.

    The shares are read from ``settings["protocol"]``: ``train``, ``val`` and ``test`` sum to one, and the one that is missing is the rest. One of
    ``num_folds`` folds is tested on. Links that carry messages in training count as trained on, like those that are asked about. If the protocol
    does not say, the ratio is 1/8, that of the 80/10/10 splits of TU.

    Example:
        >>> from gump.record import Record
        >>> settings = {"protocol": {"kind": "fresh", "train": 0.5, "val": 0.25}}
        >>> split_ratio([Record("tu/mutag_gin", i, settings, "accuracy", test_index=[i]) for i in range(2)])
        0.5
    """
    protocol = records[0].settings.get("protocol")
    protocol = protocol if isinstance(protocol, dict) else {}
    tests = {tuple(sorted(record.test_index)) for record in records}
    drawn = protocol.get("kind") not in FIXED if part == VALIDATION else len(tests) > 1 and () not in tests
    if not drawn:
        return math.nan
    share = {part: v for part, v in protocol.items() if part in PARTS and _is_share(v)}
    if isinstance(num_folds := protocol.get("num_folds"), int) and num_folds > 1:
        share[TEST] = 1 / num_folds
    if len(share) < 2 or sum(share.values()) > 1:
        return RATIO
    rest = 1 - sum(share.values())
    train, measured = share.get("train", rest), share.get(part, rest)
    return measured / train if train > 0 else RATIO


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1
