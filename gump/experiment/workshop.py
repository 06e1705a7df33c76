"""Where the runs of one configuration are trained."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning_fabric import Fabric

import gump
from gump.experiment.checkpoint import read_checkpoint, tidy
from gump.experiment.config import Config, made_by
from gump.experiment.feed import Feed, GraphFeed, LinkFeed, NodeFeed
from gump.experiment.memory import peak_memory, reset_peak_memory
from gump.experiment.model import build_model, penalty
from gump.experiment.padded import PaddedStore
from gump.experiment.preprocess import TransformedGraphs, prepare
from gump.experiment.progress import Progress
from gump.experiment.protocol import Split, run_seed
from gump.experiment.provenance import provenance
from gump.experiment.registry import MODELS, takes_line_graph
from gump.experiment.replicas import ReplicaTrainer
from gump.experiment.store import GraphStore, TransformedStore
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer
from gump.kernels import LAUNCHED
from gump.record import Record

if TYPE_CHECKING:
    from gump.experiment.run import Runner


class Workshop:
    """Trains runs of one configuration, which share the data on its device.

    Args:
        config: The configuration.
        runner: Where, and in what way.
    """

    def __init__(self, config: Config, runner: Runner) -> None:
        self.config, self.runner, self.training = config, runner, config.training
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what torch asks for where it should repeat
        self.fabric = _fabric(runner.device, runner.num_devices, self.training.precision)
        self.fabric.launch()
        self.line_graph = takes_line_graph(MODELS[config.settings["model"]["kind"]])
        self.dataset = prepare(config.settings, self.line_graph, runner.data_root)
        self.store: GraphStore | TransformedStore | None = None
        self.evaluated_at_once = GraphFeed.EVALUATED_AT_ONCE
        if isinstance(self.dataset.graphs, TransformedGraphs):
            self.store, self.evaluated_at_once = TransformedStore(self.dataset.graphs, self.fabric.device), self.training.batch_size
        elif self.dataset.level in ("graph", "source"):
            self.store = GraphStore(self.dataset.graphs, self.fabric.device)
        self._padded_store: PaddedStore | None = None

    def groups(self, missing: Sequence[int]) -> list[list[int]]:
        """Divides runs into those that are trained side by side, in the order of their numbers.

        What was interrupted as a group goes on as that group, also if some of its records are written already: with dropout another group
        would be another draw.
        """
        size, groups, left = self.runner.num_replicas or 1, [], sorted(missing)
        for path, members in self.runner.interrupted_groups(self.config).items():
            waiting = [index for index in members if not self.runner.path(self.config, index).is_file()]
            same = read_checkpoint(path, self._identity(members)) is not None
            if same and len(members) <= size and set(waiting) <= set(left):
                groups.append(members)
                left = [index for index in left if index not in members]
        return groups + [left[i : i + size] for i in range(0, len(left), size)]

    def train(self, indices: Sequence[int]) -> list[Record]:
        """Trains runs, side by side or the only one by itself, and saves their records; one that is there stays as it is."""
        config, protocol, task = self.config, self.config.protocol, TASKS[self.dataset.task]
        reset_peak_memory(self.fabric.device)
        LAUNCHED.clear()
        alone = self.runner.num_replicas is None  # on a GPU replicas add rows as they come, and so repeat up to rounding only
        torch.use_deterministic_algorithms(self.training.deterministic and alone, warn_only=True)
        splits = [self._split(index) for index in indices]
        models = []
        for index in indices:
            torch.manual_seed(run_seed(protocol.seed, index))
            models.append(build_model(config.settings, self.dataset))
        checkpoint, identity = self._checkpoint(indices), self._identity(indices)
        settings = self.training, protocol.seed

        def watch(epoch: int, results: dict[str, float]) -> None:
            for each in self.runner.watches:
                each(config, indices[0], epoch, results)

        if alone:
            feed = self._feed(splits[0], indices[0])
            trainer = Trainer(models[0], feed, task, *settings, indices[0], self.fabric, self.runner.save_every_s)
            progress, tests = [trainer.fit(checkpoint, identity, watch)], [feed.test_index]
            if progress[0].diverged and self.fabric.is_global_zero:
                trainer.save(checkpoint.with_suffix(".diverged.ckpt"), identity)  # the weights from before the epoch that failed
        else:
            store, models = self._padded(models[0]), [model.to(self.fabric.device) for model in models]
            trainer_of_all = ReplicaTrainer(models, store, splits, task, *settings, indices, self.runner.save_every_s)
            progress, tests = trainer_of_all.fit(checkpoint, identity, watch), [split.test for split in splits]
            trainer_of_all.save(checkpoint, identity)  # from which the records can be written however often that is interrupted
        for index, test_index, reached in zip(indices, tests, progress, strict=True):
            record = self._record(index, test_index.tolist(), reached, models[0])
            record.provenance["side_by_side_with"] = [other for other in indices if other != index]
            record.provenance["program"] = "plain" if alone else "replicas"
            if self.fabric.is_global_zero and self.runner.finished(config, index) is None:
                record.save(self.runner.records)
        if self.fabric.is_global_zero:
            tidy(checkpoint)
            for index in indices:
                self.runner.finished(config, index)  # tidies up
        self.fabric.barrier()
        return [Record.load(self.runner.path(config, index)) for index in indices]

    def _split(self, index: int) -> Split:
        split = self.config.protocol.split(self.dataset, index)
        for part, numbers in split._asdict().items():
            if numbers.numel() == 0:
                raise ValueError(f"'protocol' must leave something to every part of {self.dataset.name} (got an empty '{part}')")
        return split

    def _checkpoint(self, indices: Sequence[int]) -> Path:
        path = self.runner.path(self.config, indices[0]).with_suffix(".ckpt")
        return path if len(indices) == 1 else path.with_name(f"{indices[0]:03d}-{indices[-1]:03d}.ckpt")

    def _identity(self, indices: Sequence[int]) -> str:
        """What a checkpoint must have in common with a run that goes on from it.

        Another torch or another kind of device rounds otherwise, and a GPU draws other random numbers: a run that changed them midway would
        be neither's, though its record names one of them. The number of devices decides what each draws.
        """
        made: dict[str, Any] = {"torch": torch.__version__, "gump": gump.__version__, "device": self.fabric.device.type}
        made |= {"num_devices": self.fabric.world_size, "settings": made_by(self.config.settings), "indices": list(indices)}
        made["replicas"] = self.runner.num_replicas is not None
        return json.dumps(made, sort_keys=True)

    def _padded(self, model: torch.nn.Module) -> PaddedStore:
        """The graphs as replicas take them."""
        if self.dataset.level != "graph" or self.dataset.x_sizes or self.fabric.world_size > 1:
            raise ValueError(
                "'--replicas' must be left out for questions about vertices and links, for categorical features and on several devices"
            )
        if isinstance(self.dataset.graphs, TransformedGraphs):
            raise ValueError("'--replicas' must be left out where a transform has when = \"batch\"")
        if penalty(model) is not None:
            raise ValueError(
                f"'--replicas' must be left out for {self.config.settings['model']['kind']}, which adds a penalty of its own to the loss"
            )
        if self._padded_store is None:
            self._padded_store = PaddedStore(self.dataset.graphs, self.fabric.device)
        return self._padded_store

    def _record(self, index: int, test_index: list[int], progress: Progress, model: torch.nn.Module) -> Record:
        config, task = self.config, TASKS[self.dataset.task]
        return Record(
            name=config.name,
            index=index,
            settings=config.settings,
            metric=task.measure,
            variant=config.variant,
            higher_is_better=task.higher_is_better,
            published=config.published,
            results=progress.best,
            history=progress.history,
            predictions=progress.predictions,
            test_index=test_index,
            provenance={"config": config.path, **provenance(self.fabric, self.training.precision)},
            cost={
                "time_s": sum(progress.times_s),
                "epoch_time_s": statistics.median(progress.times_s) if progress.times_s else 0.0,
                "peak_memory_bytes": peak_memory(self.fabric.device),
                "num_parameters": sum(p.numel() for p in model.parameters()),
            },
            note=" ".join(filter(None, [progress.diverged, self.dataset.note])),
            status="diverged" if progress.diverged else "finished",
        )

    def _feed(self, split: Split, index: int) -> Feed:
        if self.store is not None:
            shard, training = (self.fabric.global_rank, self.fabric.world_size), self.training
            return GraphFeed(
                self.store, split, training.batch_size, self.dataset.level, training.repeats, shard, self.evaluated_at_once
            )
        if self.dataset.level == "node":
            return NodeFeed(self.dataset[0], split, self.fabric.device)
        return LinkFeed(self.dataset, split, run_seed(self.config.protocol.seed, index), self.line_graph, self.fabric.device)


def _fabric(device: str, num_devices: int, precision: Any) -> Fabric:
    try:
        return Fabric(accelerator=device, devices=num_devices, precision=precision)
    except RuntimeError as error:  # there is no such device here
        raise ValueError(f"'device' must be one that this machine has (got {device!r}): {error}") from error
