"""What an answer is worth: the loss that is learned from and the measure that is reported."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, l1_loss
from torchmetrics.functional import mean_absolute_error
from torchmetrics.functional.classification import binary_auroc, binary_average_precision


class Task(NamedTuple):
    """How the answers to one kind of question are judged.

    Args:
        measure: Its name.
        higher_is_better: Whether more of it is better.
        loss: The mean loss of predictions against targets; of numbers in units of a spread, if that is given as a third argument.
        judge: The measure of all predictions against all targets.
        answer: What to write down for each prediction.
        truth: What to write down for each target, in the same terms.
        expected: What predictions say about targets: the probability of each class or label, or the numbers as they are.
    """

    measure: str
    higher_is_better: bool
    loss: Callable[..., Tensor]
    judge: Callable[[Tensor, Tensor], Tensor]
    answer: Callable[[Tensor], list[Any]]
    truth: Callable[[Tensor], list[Any]]
    expected: Callable[[Tensor], Tensor]

    def judge_each(self, out: Tensor, y: Tensor) -> Tensor:
        """The measure of each of several models, whose predictions and targets are stacked."""
        if self.judge is _accuracy:
            return _accuracy(out, y)
        return torch.stack([self.judge(*pair) for pair in zip(out, y, strict=True)])

    def better(self, new: float, old: float) -> bool:
        """Whether a value of the measure is better than another; any number is better than NaN."""
        return (old != old and new == new) or (new > old if self.higher_is_better else new < old)


def _classes(out: Tensor, y: Tensor, _: Tensor | None = None) -> Tensor:
    return cross_entropy(out, y.view(-1))


def _accuracy(out: Tensor, y: Tensor) -> Tensor:
    """In double precision, in which an equal number of right answers is an equal number; of several models at once if they are stacked."""
    return (out.argmax(-1) == y.view(out.shape[:-1])).sum(-1).cpu().double() / out.size(-2)


def _over_known(loss: Callable[..., Tensor], out: Tensor, y: Tensor) -> Tensor:
    """The mean of a loss over the targets that are known; those that are missing (NaN) count for nothing."""
    y = y.view_as(out).to(out.dtype)
    known = ~y.isnan()
    each = loss(out, torch.where(known, y, 0), reduction="none")
    return torch.where(known, each, 0).sum() / known.sum().clamp_min(1)


def _labels(out: Tensor, y: Tensor, _: Tensor | None = None) -> Tensor:
    return _over_known(binary_cross_entropy_with_logits, out, y)


def _numbers(out: Tensor, y: Tensor, spread: Tensor | None = None) -> Tensor:
    return _over_known(l1_loss, out, y) if spread is None else _over_known(l1_loss, out / spread, y.view_as(out) / spread)


def _scores(out: Tensor) -> Tensor:
    """Places from zero to one, equal only for equal predictions; a sigmoid would round large ones to ties."""
    values, place = torch.unique(out, return_inverse=True)
    return place / values.numel()


def _auroc(out: Tensor, y: Tensor) -> Tensor:
    known = ~y.view(-1).isnan()
    if (y.view(-1)[known] == 1).all() or (y.view(-1)[known] == 0).all():  # there is nothing to tell apart
        return out.new_tensor(torch.nan)
    return binary_auroc(_scores(out).view(-1)[known], y.view(-1)[known].long())


def _average_precision(out: Tensor, y: Tensor) -> Tensor:
    """The mean over labels, as in the Long Range Graph Benchmark; a label that has no positive or no negative counts for nothing."""
    parts = [
        (score[known], label[known])
        for score, label in zip(_scores(out).T, y.view_as(out).T, strict=True)
        for known in [~label.isnan()]
    ]
    values = [binary_average_precision(score, label.long()) for score, label in parts if (label == 1).any() and (label == 0).any()]
    return torch.stack(values).mean() if values else out.new_tensor(torch.nan)


def _mean_absolute_error(out: Tensor, y: Tensor) -> Tensor:
    y = y.view_as(out).to(out.dtype)
    known = ~y.isnan()
    return mean_absolute_error(out[known], y[known]) if known.any() else out.new_tensor(torch.nan)


def _largest(out: Tensor) -> list[Any]:
    return out.argmax(-1).tolist()


def _listed(y: Tensor) -> list[Any]:
    return y.view(-1).tolist()


def _rounded(out: Tensor, digits: int = 5) -> list[Any]:
    rows = [[float(f"{value:.{digits}g}") for value in row] for row in out.tolist()]
    return [row[0] for row in rows] if out.size(1) == 1 else rows


def _written(out: Tensor) -> list[Any]:
    """With the seven digits of single precision: of numbers far from zero the first ones say little."""
    return _rounded(out, digits=7)


TASKS = {
    "multiclass": Task("accuracy", True, _classes, _accuracy, _largest, _listed, partial(torch.softmax, dim=-1)),
    "binary": Task("auroc", True, _labels, _auroc, _rounded, _listed, torch.sigmoid),
    "multilabel": Task("ap", True, _labels, _average_precision, _rounded, _rounded, torch.sigmoid),
    "regression": Task("mae", False, _numbers, _mean_absolute_error, _written, _written, lambda out: out),
}
"""By the names of :data:`gump.datasets.dataset.TASKS`."""
