"""What a run has reached: its history, its best epochs, and whether it is done."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from gump.experiment.provenance import source
from gump.experiment.task import Task
from gump.experiment.training import Training


class Evaluation(NamedTuple):
    """What a model answered, and how good that was."""

    loss: float
    measure: float
    prediction: Tensor
    target: Tensor


@dataclass
class Progress:
    """What has been reached so far; plain numbers and words, so that a checkpoint holds it as it is."""

    epoch: int = 0
    history: dict[str, list[float]] = field(default_factory=dict)
    best: dict[str, dict[str, float]] = field(default_factory=dict)
    predictions: dict[str, list[Any]] = field(default_factory=dict)
    reference: float = math.nan
    num_idle: int = 0
    num_good: int = 0
    times_s: list[float] = field(default_factory=list)
    commits: dict[str, int] = field(default_factory=dict)  # of the library, and the first epoch that each has made
    diverged: str = ""

    def finished(self, training: Training) -> bool:
        """Whether there is nothing left to do."""
        return (
            self.epoch >= training.epochs
            or bool(self.diverged)
            or (training.patience is not None and self.num_idle > training.patience)
            or (training.stop_at is not None and self.num_good >= training.stop_after)
        )

    def advance(
        self, training: Training, task: Task, train_loss: float, val_loss: float, val: float, test: Callable[[], Evaluation]
    ) -> None:
        """Adds an epoch. The test set is looked at only where this epoch may be the one that counts."""
        self.epoch += 1
        self.commits.setdefault(source()["commit"] or "", self.epoch)
        now = {"train_loss": train_loss, "val_loss": val_loss, "val": val}
        for key, value in now.items():
            self.history.setdefault(key, []).append(value)
        self._count(training, task, val_loss, val)
        rules = {
            "loss": val_loss < self.best.get("loss", {}).get("val_loss", math.inf),
            "metric": self._is_best(task, val, val_loss),
            "last": self.finished(training),
        }
        if any(rules.values()):
            result = test()
            self.predictions["target"] = task.truth(result.target)
            for rule in (rule for rule, holds in rules.items() if holds):
                self.best[rule] = {"epoch": self.epoch, **now, "test_loss": result.loss, "test": result.measure}
                self.predictions[rule] = task.answer(result.prediction)

    def counts(self, rule: str) -> bool:
        """Whether the last epoch is the one that counts so far by a rule."""
        return self.best.get(rule, {}).get("epoch") == self.epoch

    def _is_best(self, task: Task, val: float, val_loss: float) -> bool:
        """Whether the validation measure is the best so far; small validation sets make ties, in which the lower loss counts."""
        best = self.best.get("metric", {"val": math.nan, "val_loss": math.inf})
        return task.better(val, best["val"]) or (not task.better(best["val"], val) and val_loss < best["val_loss"])

    def _count(self, training: Training, task: Task, val_loss: float, val: float) -> None:
        """Counts the epochs without progress, and those that are good enough."""
        falls = training.monitor == "loss" or not task.higher_is_better
        value = val_loss if training.monitor == "loss" else val
        better = value * training.threshold < self.reference if falls else value > self.reference * training.threshold
        if better or (math.isnan(self.reference) and not math.isnan(value)):
            self.num_idle, self.reference = 0, value
        else:
            self.num_idle += 1
        if training.stop_at is not None:
            self.num_good = 0 if task.better(training.stop_at, val) else self.num_good + 1
