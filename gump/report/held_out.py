"""What a number would be worth if one test set had been held out for all runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gump.record import Record
from gump.report.paired import TARGET, answers_at, has_classes
from gump.report.statistics import SELECTED, unit


@dataclass(frozen=True)
class HeldOut:
    r"""How much an accuracy depends on which graphs are tested on.

    A graph :math:`g` of :math:`N` is answered right with probability :math:`p_g`, over splits that test on it. Whoever holds out one test set of
    :math:`k` graphs and repeats everything else, however often, measures the mean of :math:`p_g` over those :math:`k`. Over draws of the test set
    it has the mean of all :math:`p_g`, and the standard deviation

    .. math::
        \sqrt{\frac{S^2}{k} \left( 1 - \frac{k}{N} \right)}, \qquad
        S^2 = \mathrm{Var}_g(\hat{p}_g) - \mathrm{mean}_g \frac{\hat{p}_g (1 - \hat{p}_g)}{n_g - 1},

    where :math:`\hat{p}_g` is the share of right answers among :math:`n_g`, and what is taken off is the noise of that share. More runs on the
    same test set do not make it smaller, and an interval over such runs does not show it.

    It speaks of one number by itself. Two systems that are tested on the same graphs share much of it, so it says little of their difference.

    Args:
        num_graphs: How many graphs were tested on, :math:`N`: all of the dataset's, if there are enough runs.
        num_tested: How many there are in a test set, :math:`k`.
        answers_per_graph: How often a graph was tested on, in the mean.
        std: Over draws of the test set, in the unit of the tables; NaN if no two graphs were tested on twice.
    """

    num_graphs: int
    num_tested: int
    answers_per_graph: float
    std: float


def held_out(records: Sequence[Record], rule: str = SELECTED) -> HeldOut | None:
    """Estimates from runs that were each tested on graphs of their own how an accuracy depends on the draw of one test set.

    Args:
        records: Runs of one configuration.
        rule: How the epoch that counts was chosen, by default as the configuration says.

    Returns:
        ``None`` if the measure is no accuracy, if the runs share one test set, or if one does not say what it answered.

    Example:
        >>> from gump.record import Record
        >>> right = {"target": [0, 0], "loss": [0, 0]}, {"target": [0, 0], "loss": [1, 1]}
        >>> runs = [Record("mine", i, {}, "accuracy", predictions=right[i % 2], test_index=[i % 2, 2 + i % 2]) for i in range(4)]
        >>> held_out(runs)  # two graphs of four are always right, and a test set has two
        HeldOut(num_graphs=4, num_tested=2, answers_per_graph=2.0, std=28.8...)
    """
    if not records or records[0].metric != "accuracy" or len({tuple(sorted(record.test_index)) for record in records}) < 2:
        return None
    if not all(has_classes(record, rule) and TARGET in record.predictions for record in records):
        return None
    right: dict[int, list[bool]] = {}
    for record in records:
        for graph, answer, target in zip(record.test_index, answers_at(record, rule), record.predictions[TARGET], strict=True):
            right.setdefault(graph, []).append(answer == target)
    num_tested = round(float(np.mean([len(record.test_index) for record in records])))
    repeated = [answers for answers in right.values() if len(answers) > 1]
    found = HeldOut(len(right), num_tested, float(np.mean([len(answers) for answers in right.values()])), math.nan)
    if len(repeated) < 2:
        return found
    share, count = (np.array([measure(answers) for answers in repeated]) for measure in (np.mean, len))
    variance = max(0.0, share.var(ddof=1) - float(np.mean(share * (1 - share) / (count - 1))))
    std = unit("accuracy") * math.sqrt(variance / num_tested * (1 - num_tested / len(right)))
    return HeldOut(found.num_graphs, num_tested, found.answers_per_graph, std)
