"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from gump.experiment.checkpoint import SAVE_EVERY_S, read_checkpoint, write_checkpoint
from gump.experiment.device import fabric_on
from gump.experiment.feed import Feed
from gump.experiment.model import parts_with_rates, penalty, predict
from gump.experiment.progress import Evaluation, Progress
from gump.experiment.protocol import run_seed
from gump.experiment.running_average import RunningAverage
from gump.experiment.task import Task
from gump.experiment.training import Training, cosine
from gump.experiment.units import spread_of
from gump.experiment.watch import EpochWatch


class Trainer:
    """Trains one model and keeps what it reached.

    Every epoch starts from a seed of its own, so a run that was stopped goes on from its checkpoint as if nothing had happened. A loss that is
    not finite ends the run with the weights from before that epoch.

    Args:
        model: A predictor; trained in place, left with the weights of the last epoch.
        feed: Its batches.
        task: How its answers are judged.
        training: The settings.
        seed: Of all runs.
        index: The number of this run.
        fabric: Where and in what precision to compute.
        save_every_s: Seconds between checkpoints.
        keep_weights: Whether to keep the weights of the epoch that counts, as ``kept``.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        feed: Feed,
        task: Task,
        training: Training,
        seed: int = 0,
        index: int = 0,
        fabric: Fabric | None = None,
        save_every_s: float = SAVE_EVERY_S,
        keep_weights: bool = False,
    ) -> None:
        self.feed, self.task, self.training, self.seed, self.index = feed, task, training, seed, index
        self.save_every_s = save_every_s
        self.fabric = fabric or fabric_on("cpu", precision=training.precision)
        optimizer = _optimizer(model, training)
        self.schedule = _schedule(optimizer, training)
        self.module, self.optimizer = self.fabric.setup(model, optimizer)
        self.average = RunningAverage([*self.module.parameters(), *self.module.buffers()], training.average)
        self.progress = Progress()
        self.keep_weights = keep_weights
        self.kept: dict[str, Tensor] = {}

    def fit(self, checkpoint: Path | None = None, identity: str = "", watch: EpochWatch | None = None) -> Progress:
        """Trains to the end.

        Args:
            checkpoint: The file to save to now and then, and to go on from if it is there.
            identity: Of the run; a checkpoint of another is not used.
            watch: Called after every epoch with its number and its results.
        """
        if checkpoint is not None and (found := read_checkpoint(checkpoint, identity)):
            self.load_state_dict(found)
        saved = time.monotonic()
        while not self.progress.finished(self.training):
            start = time.perf_counter()
            before = deepcopy(self._learned())
            train_loss = self._train_epoch()
            if math.isfinite(train_loss) and self._evaluate_epoch(train_loss):
                self._step_schedule()
                self.progress.times_s.append(time.perf_counter() - start)
                if watch:
                    watch(self.progress.epoch, {key: values[-1] for key, values in self.progress.history.items()})
            else:
                self._load_learned(deepcopy(before))
                failure = self._first_failure()
                self._load_learned(before)
                self.progress.diverged = failure
            if checkpoint is not None and time.monotonic() - saved >= self.save_every_s and self.fabric.is_global_zero:
                self.save(checkpoint, identity)
                saved = time.monotonic()
        return self.progress

    def _train_epoch(self, each: Callable[[int, Tensor], None] | None = None) -> float:
        """Goes once through the training set; returns the mean loss, a penalty of the model's own included. Nothing waits for the device."""
        stream = run_seed(self.seed, self.index, self.progress.epoch + 1)
        torch.manual_seed(stream)
        self.module.train()
        total, count, spread = torch.zeros((), device=self.fabric.device), 0, spread_of(self.module)
        for step, batch in enumerate(self.feed.train_batches(torch.Generator().manual_seed(stream))):
            self.optimizer.zero_grad()
            loss = self.task.loss(predict(self.module, batch), batch.y, spread)
            if (extra := penalty(self.module.module)) is not None:
                loss = loss + extra
            self.fabric.backward(loss)
            if each:
                each(step, loss)
            if self.training.clip is not None:
                self.fabric.clip_gradients(self.module, self.optimizer, max_norm=self.training.clip, error_if_nonfinite=False)
            self.optimizer.step()
            self.average.update()
            size = batch.y.size(0)
            total, count = total + size * loss.detach().float(), count + size
        sums: Any = self.fabric.all_reduce(torch.stack([total, total.new_tensor(count)]), reduce_op="sum")  # over all processes
        total_loss, num_answers = sums.tolist()
        return total_loss / max(num_answers, 1)

    def _evaluate_epoch(self, train_loss: float) -> bool:
        """Adds an epoch to the progress, if its validation loss is finite; returns whether it is."""
        with self.average.shown():
            val_loss, val, *_ = evaluate(self.module, self.feed, "val", self.task)
            if not math.isfinite(val_loss):
                return False
            self.progress.advance(
                self.training, self.task, train_loss, val_loss, val, lambda: evaluate(self.module, self.feed, "test", self.task)
            )
            if self.keep_weights and self.progress.counts(self.training.select):
                self.kept = {key: value.detach().cpu().clone() for key, value in self.module.state_dict().items()}
        return True

    def _step_schedule(self) -> None:
        if isinstance(self.schedule, ReduceLROnPlateau):
            series = "train_loss" if self.training.schedule == "plateau_train" else "val_loss"
            self.schedule.step(self.progress.history[series][-1])
        elif self.schedule is not None:
            self.schedule.step()

    def _first_failure(self) -> str:
        """Runs an epoch again, now step by step, and tells where the loss or a gradient is first not finite."""
        failures: list[str] = []

        def check(step: int, loss: Tensor) -> None:
            if failures:
                return
            sizes = {name: float(p.grad.abs().max()) for name, p in self.module.module.named_parameters() if p.grad is not None}
            name = max(sizes, key=lambda n: math.inf if math.isnan(sizes[n]) else sizes[n], default="")
            if not (bool(loss.isfinite()) and math.isfinite(sizes.get(name, 0))):
                failures.append(
                    f"step {step + 1}: the loss is {float(loss.detach()):.6g}; the largest gradient, {sizes.get(name, 0):.3g}, is that of '{name}'"
                )

        self._train_epoch(check)
        return f"epoch {self.progress.epoch + 1}, {failures[0] if failures else 'after the last step: the loss is not finite'}"

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next epoch depends on."""
        return {
            **self._learned(),
            "schedule": self.schedule.state_dict() if self.schedule else {},
            "progress": asdict(self.progress),
            "kept": self.kept,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back, or on, to a state."""
        self._load_learned(state)
        if self.schedule:
            self.schedule.load_state_dict(state["schedule"])
        self.progress, self.kept = Progress(**state["progress"]), state["kept"]

    def _learned(self) -> dict[str, Any]:
        """What an epoch of training changes, whether or not it ends well."""
        return {
            "model": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.state_dict(),
        }

    def _load_learned(self, learned: dict[str, Any]) -> None:
        """Goes back, or on, to that."""
        self.module.load_state_dict(learned["model"])
        self.optimizer.load_state_dict(learned["optimizer"])
        self.average.load_state_dict(learned.get("average", self.average.state_dict()))  # older checkpoints have none

    def save(self, checkpoint: Path, identity: str = "") -> None:
        """Writes the state to a file."""
        write_checkpoint(checkpoint, identity, self.state_dict())


@torch.no_grad()
def evaluate(module: torch.nn.Module, feed: Feed, part: str, task: Task) -> Evaluation:
    """Judges a model on one part of a feed."""
    module.eval()
    pairs = [(predict(module, batch).float(), batch.y) for batch in feed.batches(part)]
    out, y = torch.cat([o for o, _ in pairs]), torch.cat([y for _, y in pairs])
    return Evaluation(float(task.loss(out, y, spread_of(module))), float(task.judge(out, y)), out, y)


def _optimizer(model: torch.nn.Module, training: Training) -> torch.optim.Optimizer:
    """A group for each part of the model that may have a rate of its own."""
    groups: list[dict[str, Any]] = []
    for part, parameters in parts_with_rates(model).items():
        lr, weight_decay = training.rates(part)
        groups.append({"params": parameters, "lr": lr, "weight_decay": weight_decay})
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[training.optimizer]
    return kind(groups)


def _schedule(optimizer: torch.optim.Optimizer, training: Training) -> LambdaLR | ReduceLROnPlateau | None:
    if training.schedule is None:
        return None
    if training.schedule != "cosine":
        return ReduceLROnPlateau(optimizer, factor=training.plateau_factor, patience=training.plateau_patience)

    return LambdaLR(optimizer, lambda epoch: cosine(training, epoch))
