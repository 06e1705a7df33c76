"""Runs configurations: the road from a dataset to its records."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lightning_fabric
import numpy
import torch
import torch_geometric
import torchmetrics
from lightning_fabric import Fabric

import gump
from gump.experiment.config import Config
from gump.experiment.feed import Feed, GraphFeed, LinkFeed, NodeFeed
from gump.experiment.model import build_model
from gump.experiment.padded import PaddedStore
from gump.experiment.preprocess import prepare
from gump.experiment.progress import Progress
from gump.experiment.protocol import Split, run_seed
from gump.experiment.registry import MODELS, takes_line_graph
from gump.experiment.replicas import ReplicaTrainer
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS
from gump.experiment.trainer import SAVE_EVERY_S, Trainer
from gump.experiment.watch import Watch
from gump.kernels import LAUNCHED
from gump.record import Record


@dataclass(frozen=True)
class Runner:
    """Trains the runs of configurations and leaves a record of each.

    A run whose record is there is not trained again, and one that was interrupted goes on from its checkpoint.

    Args:
        records: The folder of records.
        device: ``"cpu"``, ``"cuda"`` or what Lightning Fabric knows besides.
        num_devices: How many of them; each training batch is shared among them.
        overwrite: Whether to replace records that were made with other settings.
        watches: Called after every epoch.
        data_root: The folder of raw data, by default as the loaders find it.
        save_every_s: Seconds between checkpoints.
        num_replicas: How many runs to train side by side as one program.
    """

    records: Path = Path("records")
    device: str = "cpu"
    num_devices: int = 1
    overwrite: bool = False
    watches: Sequence[Watch] = ()
    data_root: Path | None = None
    save_every_s: float = SAVE_EVERY_S
    num_replicas: int = 1

    def run(self, config: Config, indices: Iterable[int] | None = None) -> Iterator[Record]:
        """Makes the records of a configuration, of all its runs or of those with these numbers."""
        indices = list(range(config.protocol.num_runs) if indices is None else indices)
        known = {index: record for index in indices if (record := self.finished(config, index))}
        missing = [index for index in indices if index not in known]
        workshop = _Workshop(config, self) if missing else None
        while indices:
            if workshop is not None and indices[0] not in known:
                group, missing = missing[: self.num_replicas], missing[self.num_replicas :]
                known |= {record.index: record for record in workshop.train(group)}
            yield known[indices.pop(0)]

    def finished(self, config: Config, index: int) -> Record | None:
        """The record of a run, if there is one with these settings."""
        path = self.path(config, index)
        if not path.is_file():
            return None
        record = Record.load(path)
        differing = _differences(record.settings | {"title": ""}, json.loads(json.dumps(config.settings)) | {"title": ""})
        if not differing:
            _tidy(path)
            return record
        if self.overwrite:
            return None
        raise ValueError(
            f"{path} was made with other settings ({', '.join(differing[:3])}); pass --overwrite to replace it, or another --records"
        )

    def path(self, config: Config, index: int) -> Path:
        """Where the record of a run lies."""
        return Record(config.name, index, {}, "", config.variant).path(self.records)


def _tidy(path: Path) -> None:
    """Removes what a finished run no longer needs: its checkpoint, and files that were half written when a process was killed."""
    for rest in (path.with_suffix(".ckpt"), *path.parent.glob(f".{path.stem}.*")):
        rest.unlink(missing_ok=True)


class _Workshop:
    """What the runs of one configuration share: the data on its device."""

    def __init__(self, config: Config, runner: Runner) -> None:
        self.config, self.runner, self.training = config, runner, config.training
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what torch asks for where it should repeat
        self.fabric = _fabric(runner.device, runner.num_devices, self.training.precision)
        self.fabric.launch()
        self.line_graph = takes_line_graph(MODELS[config.settings["model"]["kind"]])
        self.dataset = prepare(config.settings, self.line_graph, runner.data_root)
        self.store = GraphStore(self.dataset.graphs, self.fabric.device) if self.dataset.level in ("graph", "source") else None
        self._padded_store: PaddedStore | None = None

    def train(self, indices: Sequence[int]) -> list[Record]:
        """Trains runs, side by side if there are several, and saves their records."""
        config, protocol, task = self.config, self.config.protocol, TASKS[self.dataset.task]
        if self.fabric.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.fabric.device)
        LAUNCHED.clear()
        alone = len(indices) == 1  # on a GPU replicas add rows as they come, and so repeat up to rounding only
        torch.use_deterministic_algorithms(self.training.deterministic and alone, warn_only=True)
        splits = [self._split(index) for index in indices]
        models = []
        for index in indices:
            torch.manual_seed(run_seed(protocol.seed, index))
            models.append(build_model(config.settings, self.dataset))
        checkpoint = self._checkpoint(indices)
        identity = json.dumps([config.settings, list(indices)], sort_keys=True)
        settings = self.training, protocol.seed

        def watch(epoch: int, results: dict[str, float]) -> None:
            for each in self.runner.watches:
                each(config, indices[0], epoch, results)

        if len(indices) == 1:
            feed = self._feed(splits[0], indices[0])
            trainer = Trainer(models[0], feed, task, *settings, indices[0], self.fabric, self.runner.save_every_s)
            progress = [trainer.fit(checkpoint, identity, watch)]
            if progress[0].diverged and self.fabric.is_global_zero:
                trainer.save(checkpoint.with_suffix(".diverged.ckpt"), identity)  # the weights from before the epoch that failed
        else:
            models = [model.to(self.fabric.device) for model in models]
            trainer_of_all = ReplicaTrainer(models, self._padded(), splits, task, *settings, indices, self.runner.save_every_s)
            progress = trainer_of_all.fit(checkpoint, identity, watch)
        records = []
        for index, split, reached in zip(indices, splits, progress, strict=True):
            record = self._record(index, split, reached, models[0])
            record.provenance["side_by_side_with"] = [other for other in indices if other != index]
            if self.fabric.is_global_zero:
                record.save(self.runner.records)
            records.append(record)
        if self.fabric.is_global_zero:
            checkpoint.unlink(missing_ok=True)
            for index in indices:
                _tidy(self.runner.path(config, index))
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

    def _padded(self) -> PaddedStore:
        """The graphs as replicas take them."""
        if self.dataset.level != "graph" or self.dataset.x_sizes or self.fabric.world_size > 1:
            raise ValueError(
                "'--replicas' must be left out for questions about vertices and links, for categorical features and on several devices"
            )
        if self._padded_store is None:
            self._padded_store = PaddedStore(self.dataset.graphs, self.fabric.device)
        return self._padded_store

    def _record(self, index: int, split: Split, progress: Progress, model: torch.nn.Module) -> Record:
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
            test_index=split.test.tolist(),
            provenance=provenance(self.fabric, self.training.precision),
            cost=self._cost(model, progress),
            note=" ".join(filter(None, [progress.diverged, self.dataset.note])),
            status="diverged" if progress.diverged else "finished",
        )

    def _feed(self, split: Any, index: int) -> Feed:
        if self.store is not None:
            shard = self.fabric.global_rank, self.fabric.world_size
            return GraphFeed(self.store, split, self.training.batch_size, self.dataset.level, self.training.repeats, shard)
        if self.dataset.level == "node":
            return NodeFeed(self.dataset[0], split, self.fabric.device)
        return LinkFeed(self.dataset, split, run_seed(self.config.protocol.seed, index), self.line_graph, self.fabric.device)

    def _cost(self, model: torch.nn.Module, progress: Progress) -> dict[str, float]:
        if self.fabric.device.type == "cuda":
            memory = torch.cuda.max_memory_allocated(self.fabric.device)
        else:
            import resource  # which Windows does not have

            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {
            "time_s": sum(progress.times_s),
            "epoch_time_s": statistics.median(progress.times_s) if progress.times_s else 0.0,
            "peak_memory_bytes": memory,
            "num_parameters": sum(p.numel() for p in model.parameters()),
        }


def _fabric(device: str, num_devices: int, precision: str) -> Fabric:
    try:
        return Fabric(accelerator=device, devices=num_devices, precision=precision)  # type: ignore[arg-type]
    except RuntimeError as error:  # there is no such device here
        raise ValueError(f"'device' must be one that this machine has (got {device!r}): {error}") from error


def provenance(fabric: Fabric, precision: str) -> dict[str, Any]:
    """Where and with what a run was made."""
    folder = Path(gump.__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            command = ["git", "-C", str(folder), *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return None

    ours = bool(git("ls-files", "__init__.py"))  # and not a repository that the library happens to be installed in
    status = git("status", "--porcelain", "--", ".") if ours else None
    device = torch.cuda.get_device_name(fabric.device) if fabric.device.type == "cuda" else platform.processor() or "cpu"
    return {
        "commit": git("rev-parse", "HEAD") if ours else None,
        "clean": None if status is None else not status,
        "versions": {"gump": gump.__version__, "python": platform.python_version()}
        | {module.__name__: module.__version__ for module in (torch, torch_geometric, numpy, lightning_fabric, torchmetrics)},
        "device": f"{fabric.device.type}: {device}",
        "num_threads": torch.get_num_threads(),
        "path": f"kernels: {', '.join(sorted(LAUNCHED))}" if LAUNCHED else "plain",
        "precision": precision,
        "host": platform.node(),
    }


def _differences(old: Any, new: Any, key: str = "") -> list[str]:
    """What differs between two trees of settings."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [d for k in sorted({*old, *new}) for d in _differences(old.get(k), new.get(k), f"{key}.{k}" if key else k)]
    if isinstance(old, float) and isinstance(new, float) and f"{old:.7g}" == f"{new:.7g}":  # what a record keeps of a number
        return []
    return [] if old == new else [f"{key} was {old!r}, is {new!r}"]


def parse_indices(text: str) -> list[int]:
    """Reads numbers of runs.

    Example:
        >>> parse_indices("0-3,7")
        [0, 1, 2, 3, 7]
    """
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise ValueError(f"'--splits' must be numbers and ranges such as 0-9,12 (got '{text}')")
        indices += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(indices))


def run_all(runner: Runner, configs: Sequence[Config], indices: Sequence[int] | None = None, num_jobs: int = 1) -> Iterator[Record]:
    """Makes the records of several configurations, one after the other or several at a time.

    What is wrong with any of them is said before the first is trained.

    Args:
        runner: Where and how.
        configs: The configurations.
        indices: The numbers of the runs, by default all of each protocol.
        num_jobs: How many processes share the work, with one thread each. They have no watches.
    """
    pairs = [(config, i) for config in configs for i in (indices if indices is not None else range(config.protocol.num_runs))]
    for config, index in pairs:
        if index >= config.protocol.num_runs:
            raise ValueError(
                f"'--splits' must be below the protocol's number of runs, {config.protocol.num_runs} (got {index} for {config.title})"
            )
        runner.finished(config, index)
    if num_jobs == 1 or not pairs:
        for config, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
            yield from runner.run(config, [index for _, index in group])
        return
    silent = dataclasses.replace(runner, watches=())
    with ProcessPoolExecutor(num_jobs, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield from pool.map(_run_one, itertools.repeat(silent), *zip(*pairs, strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_one(runner: Runner, config: Config, index: int) -> Record:
    """Makes one record in a process that keeps the data of the configuration it worked on last."""
    if record := runner.finished(config, index):
        return record
    if _LAST.get("config") != config:
        _LAST.update(config=config, workshop=_Workshop(config, runner))
    workshop: _Workshop = _LAST["workshop"]
    return workshop.train([index])[0]


_LAST: dict[str, Any] = {}
