"""Trains many models of one kind side by side, as one program."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gump.experiment.checkpoint import SAVE_EVERY_S, read_checkpoint, write_checkpoint
from gump.experiment.feed import join_single
from gump.experiment.model import parts_with_rates
from gump.experiment.padded import Layout
from gump.experiment.progress import Evaluation, Progress
from gump.experiment.protocol import Split, run_seed
from gump.experiment.recorded_steps import RecordedSteps, ReplicaStore, Step, can_be_recorded
from gump.experiment.replicas import Replicas
from gump.experiment.running_average import RunningAverage
from gump.experiment.stacked_adam import StackedAdam
from gump.experiment.task import Task
from gump.experiment.training import PER_REPLICA, Training, cosine, shared
from gump.experiment.watch import EpochWatch

EVALUATED_AT_ONCE = 64
"""Graphs of every replica in a batch when nothing is learned."""

SAVING = 0.03
"""The share of the time that may go into checkpoints."""

AHEAD = 100
"""How many epochs the first layouts are made for."""

NARROWED_AT = 0.5
"""At which share of runs that are not finished these go on without the others. At a half, finished runs take no more than half of the work, but for
the last few, and a hundred runs have their steps recorded anew four times at most."""

NARROWEST = 8
"""Up to how many runs side by side stay together to the end. Steps of fewer small graphs should be no faster, since they wait for launches; this was
not measured."""


class ReplicaTrainer:
    """Trains many runs side by side, each as :class:`gump.experiment.trainer.Trainer` would train it alone.

    Every replica has its own weights, batches, learning rate, early stopping and progress. On a GPU a step is recorded once and then
    replayed; batches are assembled there. Once few enough are left, by ``NARROWED_AT``, they go on without those that are finished. Only what
    dropout drops is drawn for all that are side by side at the time together, so with dropout a run is another, equally good, draw in another
    group; the records name the group. Where a module has to limit itself side by side, its ``SIDE_BY_SIDE`` says how, and so does the record of a
    run that diverged. A module with ``waits_for_device``, which looks at numbers to decide what to do, cannot be recorded: then steps run as they
    are.

    Args:
        models: One predictor per run, on their device.
        store: The graphs, or the one graph, on the same device.
        splits: One per run, with parts of equal sizes.
        task: How answers are judged.
        training: The settings, of all runs or of each; those of one run may differ from another's in what ``PER_REPLICA`` names.
        seed: Of all runs.
        indices: The number of each run; runs of one number differ in their settings.
        save_every_s: Seconds between checkpoints.
        record_steps: Whether to record and replay steps; by default on a GPU, if nothing in the model waits for it.
        keep_weights: Whether to keep the weights of the epochs that count, as ``kept``.
    """

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        store: ReplicaStore,
        splits: Sequence[Split],
        task: Task,
        training: Training | Sequence[Training],
        seed: int,
        indices: Sequence[int],
        save_every_s: float = SAVE_EVERY_S,
        record_steps: bool | None = None,
        keep_weights: bool = False,
    ) -> None:
        if len({tuple(part.numel() for part in split) for split in splits}) > 1:
            raise ValueError("'splits' must have parts of equal sizes to be trained side by side")
        self.store, self.task, self.seed, self.indices, self.save_every_s = store, task, seed, list(indices), save_every_s
        self.trainings = [training] * len(self.indices) if isinstance(training, Training) else list(training)
        self.training = self.trainings[0]  # for what all share
        if any(shared(asdict(each)) != shared(asdict(self.training)) for each in self.trainings):
            raise ValueError(f"'training' must differ in {', '.join(PER_REPLICA)} alone, for runs to be trained side by side")
        self.parts = {part: torch.stack([getattr(split, part) for split in splits]) for part in Split._fields}
        part_of = {p: part for part, parameters in parts_with_rates(models[0]).items() for p in parameters}
        self._part_of = {name: part_of[p] for name, p in models[0].named_parameters()}
        self.carried = list(range(len(self.indices)))  # the runs that are side by side now; lists of runs are of all of them
        self.replicas = Replicas(models)
        self.optimizer = self._optimizer()
        self.average = RunningAverage(self._averaged(), self.training.average)
        self.progress = [Progress() for _ in indices]
        self.keep_weights = keep_weights
        self.kept: list[dict[str, Tensor]] = [{} for _ in indices]
        self.rate = torch.ones(len(self.indices), dtype=torch.float64)
        self.plateau = [[math.inf, 0] for _ in indices]
        if record_steps is None:
            record_steps = store.device.type == "cuda" and can_be_recorded(models[0])
        self.steps = RecordedSteps(self._steps(), store, record_steps)

    def _steps(self) -> dict[str, Step]:
        learn = functools.partial(_learn, self.replicas, self.optimizer, self.average, self.store, self.task)
        changes = [*self.optimizer.tensors(), *self.average.tensors(), *self.replicas.buffers.values()]
        return {"train": Step(learn, changes), "eval": Step(functools.partial(_answer, self.replicas, self.store))}

    def _optimizer(self) -> StackedAdam:
        each, parts = [self.trainings[r] for r in self.carried], dict.fromkeys(self._part_of.values())
        groups: list[dict[str, Any]] = []
        for part in parts:
            lr, weight_decay = zip(*(t.rates(part) for t in each), strict=True)
            params = [p for name, p in self.replicas.parameters.items() if self._part_of[name] == part]
            groups.append({"params": params, "lr": lr, "weight_decay": weight_decay})
        t = self.training
        return StackedAdam(groups, t.optimizer == "adamw", t.clip)

    def _averaged(self) -> list[Tensor]:
        """Weights as the optimizer has laid them out, and buffers."""
        return [*self.replicas.parameters.values(), *self.replicas.buffers.values()]

    def fit(self, checkpoint: Path | None = None, identity: str = "", watch: EpochWatch | None = None) -> list[Progress]:
        """Trains all runs to their ends.

        Args:
            checkpoint: The file to save to now and then, and to go on from if it is there.
            identity: Of the runs; a checkpoint of others is not used.
            watch: Called after every epoch with its number and the mean results of the runs that are not finished.
        """
        if checkpoint is not None and (found := read_checkpoint(checkpoint, identity)):
            self._resume(found)
        self._make_room_to_evaluate()
        saved, pause = time.monotonic(), self.save_every_s
        while active := [r for r in self.carried if not self._finished(r)]:
            start = time.perf_counter()
            if len(self.carried) > NARROWEST and len(active) <= NARROWED_AT * len(self.carried):
                self._narrow(active)
            train_loss = self._train_epoch()
            with self.average.shown():
                self._advance(train_loss, self._evaluate("val"))
            share = (time.perf_counter() - start) / len(active)
            for r in active:
                self.progress[r].times_s.append(share)
            if watch:
                histories = [self.progress[r].history for r in active if self.progress[r].history]
                last = [{key: values[-1] for key, values in history.items()} for history in histories]
                watch(self.epoch, {key: sum(r[key] for r in last) / len(last) for key in last[0]} if last else {})
            if checkpoint is not None and (now := time.monotonic()) - saved >= pause:
                self.save(checkpoint, identity)
                saved = time.monotonic()
                pause = self.save_every_s and max(self.save_every_s, (saved - now) / SAVING)
        return self.progress

    @property
    def epoch(self) -> int:
        """How many epochs are behind the replica that is furthest."""
        return max(progress.epoch for progress in self.progress)

    def _finished(self, replica: int) -> bool:
        """Whether a replica has nothing left to do."""
        return self.progress[replica].finished(self.trainings[replica])

    def _narrow(self, carried: Sequence[int]) -> None:
        """Goes on with some of those that are side by side alone, in the layouts that there are."""
        self.steps.forget()  # before what follows, which needs memory
        rows = torch.tensor([self.carried.index(r) for r in carried], device=self.store.device)
        before, self.carried = self.optimizer, list(carried)
        self.replicas = self.replicas.only(rows)
        self.optimizer = self._optimizer()
        self.optimizer.take_over(before, rows)
        self.average = self.average.only(rows, self._averaged())
        self.steps.steps = self._steps()

    def _train_epoch(self) -> Tensor:
        """Goes once through the training sets; returns the mean loss of every replica."""
        epoch = self.epoch
        torch.manual_seed(run_seed(self.seed, self.indices[0], epoch + 1))
        self.replicas.model.train()
        scale = self.rate[self.carried] * torch.tensor([not self._finished(r) for r in self.carried])
        self.optimizer.set_scale(scale * cosine(self.training, epoch))
        total, count = torch.zeros(len(self.carried), device=self.store.device), 0
        chunks = self._chunks(epoch)
        if not self.steps.has_room("train"):
            ahead = range(epoch, min(epoch + AHEAD, self.training.epochs))
            self.steps.make_room("train", (chunk for later in ahead for chunk in self._chunks(later)))
        self.steps.make_room("train", chunks)
        for index in chunks:
            total += index.size(1) * self.steps("train", index)
            count += index.size(1)
        return (total / max(count, 1)).cpu()

    def _chunks(self, epoch: int) -> list[Tensor]:
        """The batches of an epoch, for every replica those that a feed of its own would have."""
        generators = [torch.Generator().manual_seed(run_seed(self.seed, self.indices[r], epoch + 1)) for r in self.carried]
        size, chunks = self.training.batch_size, []
        for _ in range(self.training.repeats):
            order = torch.stack(
                [
                    train[torch.randperm(train.numel(), generator=g)]
                    for train, g in zip(self.parts["train"][self.carried], generators, strict=True)
                ]
            )
            chunks += join_single(self.store.chunks(order, size), size)
        return chunks

    def _make_room_to_evaluate(self) -> None:
        """Finds layouts for all that is ever evaluated; one that grew later would have all steps recorded anew."""
        evaluated = [self.parts[part][self.carried] for part in ("val", "test")]
        self.steps.make_room("eval", [chunk for index in evaluated for chunk in self.store.chunks(index, EVALUATED_AT_ONCE)])

    def _evaluate(self, part: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Losses, measures, answers and targets of the replicas that are side by side on one part."""
        self.replicas.model.eval()
        index = self.parts[part][self.carried]
        out = torch.cat([self.steps("eval", chunk).clone() for chunk in self.store.chunks(index, EVALUATED_AT_ONCE)], dim=1)
        y = self.store.targets(index)
        with torch.no_grad():
            loss = self.replicas.losses(self.task, out, y)
        out, y = out.cpu(), y.cpu()
        return loss.cpu(), self.task.judge_each(out, y), out, y

    def _advance(self, train_loss: Tensor, val: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
        """Adds an epoch to the progress of every replica that is not finished."""
        tests: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for row, r in enumerate(self.carried):
            progress, training = self.progress[r], self.trainings[r]
            if self._finished(r):
                continue
            losses = float(train_loss[row]), float(val[0][row])
            if not all(map(math.isfinite, losses)):
                progress.diverged = f"epoch {progress.epoch + 1}: the loss is not finite{self.replicas.caveat}"
                continue

            def test(row: int = row) -> Evaluation:
                if not tests:
                    tests.append(self._evaluate("test"))
                loss, measure, out, y = tests[0]
                return Evaluation(float(loss[row]), float(measure[row]), out[row], y[row])

            progress.advance(training, self.task, *losses, float(val[1][row]), test)
            if self.keep_weights and progress.counts(training.select):
                self.kept[r] = {key: value.cpu() for key, value in self.replicas.state_dict(row).items()}
            self._watch_plateau(r, *losses)

    def _watch_plateau(self, replica: int, train_loss: float, val_loss: float) -> None:
        """Lowers the rate of a replica as torch's ``ReduceLROnPlateau`` would."""
        t = self.trainings[replica]
        if t.schedule not in ("plateau", "plateau_train"):
            return
        value, state = train_loss if t.schedule == "plateau_train" else val_loss, self.plateau[replica]
        if value < state[0] * (1 - 1e-4):
            state[:] = [value, 0]
        else:
            state[1] += 1
        if state[1] > t.plateau_patience:
            self.rate[replica] *= t.plateau_factor
            state[1] = 0

    def save(self, checkpoint: Path, identity: str) -> None:
        """Writes the state to a file."""
        state = {
            "carried": self.carried,
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.state_dict(),
            "buffers": {key: value.cpu() for key, value in self.replicas.buffers.items()},
            "rate": self.rate,
            "plateau": self.plateau,
            "layouts": self.steps.state_dict(),
            "progress": [asdict(progress) for progress in self.progress],
            "kept": self.kept,
        }
        write_checkpoint(checkpoint, identity, state)

    def _resume(self, state: dict[str, Any]) -> None:
        if state["carried"] != self.carried:
            self._narrow(state["carried"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average.load_state_dict(state.get("average", self.average.state_dict()))  # older checkpoints have none
        for key, value in state["buffers"].items():
            self.replicas.buffers[key].copy_(value)
        self.rate, self.plateau = state["rate"], state["plateau"]
        self.steps.load_state_dict(state["layouts"])
        self.progress = [Progress(**progress) for progress in state["progress"]]
        self.kept = state["kept"]


def _learn(
    replicas: Replicas,
    optimizer: StackedAdam,
    average: RunningAverage,
    store: ReplicaStore,
    task: Task,
    index: Tensor,
    layout: Layout,
) -> Tensor:
    """Takes a step on one batch for each replica; returns their losses."""
    optimizer.zero_grad()
    batch = store.batch(index, layout)
    losses = replicas.losses(task, replicas(batch), batch.y) + replicas.penalties()
    losses.sum().backward()
    optimizer.step()
    average.update()
    return losses.detach()


@torch.no_grad()
def _answer(replicas: Replicas, store: ReplicaStore, index: Tensor, layout: Layout) -> Tensor:
    """The answers of every replica to its own batch."""
    return replicas(store.batch(index, layout))
