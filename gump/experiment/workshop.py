"""Where runs are trained that have their data in common."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import gump
from gump.experiment.checkpoint import SAVE_EVERY_S, read_checkpoint, tidy
from gump.experiment.config import Config, made_by
from gump.experiment.device import device_name, fabric_on, peak_memory, reset_peak_memory
from gump.experiment.feed import Feed, GraphFeed, LinkFeed, NodeFeed
from gump.experiment.model import build_model, check_rates
from gump.experiment.padded import PaddedStore
from gump.experiment.precision import MIXED
from gump.experiment.preprocess import TransformedGraphs, prepare
from gump.experiment.progress import Progress
from gump.experiment.protocol import Split, run_seed
from gump.experiment.provenance import provenance
from gump.experiment.record_folder import RecordFolder, Run, configs_of
from gump.experiment.recorded_steps import ReplicaStore
from gump.experiment.registry import MODELS, code_of, obstacle_to_replicas, takes_line_graph
from gump.experiment.replica_trainer import ReplicaTrainer
from gump.experiment.settings import blaming
from gump.experiment.splits import Splits
from gump.experiment.store import GraphStore, TransformedStore
from gump.experiment.task import TASKS
from gump.experiment.trained import save_trained
from gump.experiment.trainer import Trainer
from gump.experiment.units import units_of
from gump.experiment.vertex_store import VertexStore
from gump.experiment.watch import Watch
from gump.kernels import LAUNCHED, has_triton
from gump.record import Record, format_indices

FORMAT = 4
"""The version of what checkpoints hold."""


class Workshop:
    """Trains runs of one configuration, or of several that can be trained side by side. They share the data on its device.

    Args:
        configs: The configurations, with equal :func:`gump.experiment.config.side_by_side`.
        folder: Where their records lie.
        device: ``"cpu"``, ``"cuda"`` or what Lightning Fabric knows besides.
        num_devices: How many of them; each training batch is shared among them.
        num_replicas: How many runs to train side by side as one program; by default each is trained by itself.
        watches: Called after every epoch.
        save_every_s: Seconds between checkpoints.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        folder: RecordFolder,
        device: str = "cpu",
        num_devices: int = 1,
        num_replicas: int | None = None,
        watches: Sequence[Watch] = (),
        save_every_s: float = SAVE_EVERY_S,
    ) -> None:
        self.configs, self.num_replicas = list(configs), num_replicas
        self.watches, self.save_every_s = watches, save_every_s
        self.config, self.training = configs[0], configs[0].training  # for what all share
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what torch asks for where it should repeat
        self.fabric = fabric_on(device, num_devices, self.training.precision)
        self.fabric.launch()
        self.line_graph = takes_line_graph(MODELS[self.config.settings["model"]["kind"]])
        self.code = code_of(self.config.settings)
        if self.line_graph and self.training.precision not in ("32-true", MIXED):
            raise ValueError(
                f"'train.precision' must be '32-true' or '{MIXED}' for models on arcs (got '{self.training.precision}'): "
                "Fabric converts no line graph; in a loop of your own use .double() on model and features"
            )
        with blaming(self.config.place):
            self.dataset = prepare(
                self.config.settings, self.line_graph and num_replicas is None
            )  # replicas have one of all graphs
        self.splits = Splits(self.dataset, self.config.protocol)
        with blaming(self.config.place):
            self.folder = dataclasses.replace(folder, made_on=self.splits.made_on)
        self._checked: set[str] = set()
        self._check_records(self.configs)
        self.store: GraphStore | TransformedStore | None = None
        self.evaluated_at_once = GraphFeed.EVALUATED_AT_ONCE
        if isinstance(self.dataset.graphs, TransformedGraphs):
            self.store, self.evaluated_at_once = TransformedStore(self.dataset.graphs, self.fabric.device), self.training.batch_size
        elif self.dataset.level in ("graph", "source") and num_replicas is None:
            self.store = GraphStore(self.dataset.graphs, self.fabric.device)
        self._padded_store: ReplicaStore | None = None

    def groups(self, missing: Sequence[Run]) -> list[list[Run]]:
        """Divides runs into those that are trained side by side, in the order of the configurations and then of their numbers.

        What was interrupted as a group goes on as that group, also if some of its records are written already: with dropout another group
        would be another draw.
        """
        size, groups = self.num_replicas or 1, []
        folders = {self.folder.path(config, 0).parent: config for config in self.configs}
        order = {config.title: position for position, config in enumerate(self.configs)}
        left = {self.folder.path(*run): run for run in sorted(missing, key=lambda run: (order[run.config.title], run.number))}
        others = []  # checkpoints that are not gone on from, their runs, and what these are now if that is why
        for path, (identity, members) in self.folder.interrupted_groups(self.configs).items():
            now, waiting = "", {member for member in members if not member.is_file()}
            if len(members) <= size and all(member.parent in folders for member in members):
                group = [Run(folders[member.parent], int(member.stem)) for member in members]
                now = self._identity(group)
                if identity == now and waiting <= left.keys():
                    groups.append(group)
                    left = {member: run for member, run in left.items() if member not in members}
                    continue
            others.append((path, members, now if identity != now else ""))
        alike: dict[tuple[int, ...], list[Run]] = {}  # folds may differ by a graph, and replicas have parts of equal sizes
        for run in left.values():
            with blaming(self.config.place):
                alike.setdefault(self.splits.sizes(run.number) if size > 1 else (), []).append(run)
        groups += [runs[i : i + size] for runs in alike.values() for i in range(0, len(runs), size)]
        self._tell_of(others, left.keys(), {self._checkpoint(group) for group in groups})
        return groups

    @staticmethod
    def _tell_of(others: Iterable[tuple[Path, list[Path], str]], anew: Collection[Path], read_later: Collection[Path]) -> None:
        """Warns of checkpoints of runs that start anew, but for those that are read, and told of, when their runs are trained."""
        for path, members, now in others:
            if not (num_anew := sum(member in anew for member in members)):
                continue
            if not now:
                warnings.warn(
                    f"{path} is not gone on from, so {num_anew} of its {len(members)} runs start anew: ask for all of them, side by side",
                    stacklevel=3,
                )
            elif path not in read_later:
                read_checkpoint(path, now, mmap=True)

    def train(self, runs: Sequence[Run]) -> list[Record]:
        """Trains runs, side by side or the only one by itself, and saves their records; one that is there stays as it is."""
        self._check_records(configs_of(runs))
        try:
            return self._train(runs)
        except torch.OutOfMemoryError as error:
            has_batches = self.dataset.level in ("graph", "source")
            smaller = "a smaller 'train.batch_size', with --records of their own" if has_batches else "a smaller model"
            advice = f"fewer than {len(runs)} --replicas" if len(runs) > 1 else smaller
            raise MemoryError(
                f"{_shown(runs).title} does not fit into the memory of {device_name(self.fabric.device)}: take {advice}; finished runs are kept"
            ) from error

    def _train(self, runs: Sequence[Run]) -> list[Record]:
        seed, task = self.config.protocol.seed, TASKS[self.dataset.task]
        reset_peak_memory(self.fabric.device)
        LAUNCHED.clear()
        alone = self.num_replicas is None  # on a GPU replicas add rows as they come, and so repeat up to rounding only
        torch.use_deterministic_algorithms(self.training.deterministic and alone, warn_only=True)
        with blaming(self.config.place):
            splits = [self.splits[run.number] for run in runs]
        models = []
        for run, split in zip(runs, splits, strict=True):
            torch.manual_seed(run_seed(seed, run.number))
            with blaming(run.config.place):
                models.append(build_model(run.config.settings, self.dataset))
                check_rates(models[-1], run.config.training)
            if units := units_of(models[-1]):
                units.fit(self.splits.targets[split.train])
        trainings, indices = [run.config.training for run in runs], [run.number for run in runs]
        checkpoint, identity, shown = self._checkpoint(runs), self._identity(runs), _shown(runs)

        def watch(epoch: int, results: dict[str, float]) -> None:
            for each in self.watches:
                each(shown, indices[0], epoch, results)

        if alone:
            feed = self._feed(splits[0], indices[0])
            trainer = Trainer(
                model=models[0],
                feed=feed,
                task=task,
                training=trainings[0],
                seed=seed,
                index=indices[0],
                fabric=self.fabric,
                save_every_s=self.save_every_s,
                keep_weights=self.folder.keep_weights,
            )
            progress, tests = [trainer.fit(checkpoint, identity, watch)], [feed.test_index]
            kept = [trainer.kept]
            if progress[0].diverged and self.fabric.is_global_zero:
                trainer.save(checkpoint.with_suffix(".diverged.ckpt"), identity)  # the weights from before the epoch that failed
        else:
            store, models = self._padded(), [model.to(self.fabric.device) for model in models]
            trainer_of_all = ReplicaTrainer(
                models=models,
                store=store,
                splits=splits,
                task=task,
                training=trainings,
                seed=seed,
                indices=indices,
                save_every_s=self.save_every_s,
                keep_weights=self.folder.keep_weights,
            )
            progress, tests = trainer_of_all.fit(checkpoint, identity, watch), [split.test for split in splits]
            kept = trainer_of_all.kept
            trainer_of_all.save(checkpoint, identity)  # from which the records can be written however often that is interrupted
        for run, test_index, reached, weights in zip(runs, tests, progress, kept, strict=True):
            record = self._record(run, test_index.tolist(), reached, models[0])
            record.provenance |= _company(run, runs) | {"program": "plain" if alone else "replicas"}
            if self.fabric.is_global_zero and self.folder.finished(*run) is None:
                file = self.folder.path(*run).with_suffix(".pt")
                if weights:
                    save_trained(file, run.config.settings, self.dataset, weights)
                else:
                    file.unlink(missing_ok=True)  # of a run that this one replaces
                path = record.save(self.folder.root)
                if not reached.diverged:
                    path.with_suffix(".diverged.ckpt").unlink(missing_ok=True)  # of a run that this one replaces
        if self.fabric.is_global_zero:
            tidy(checkpoint)
            for run in runs:
                tidy(self.folder.path(*run).with_suffix(".ckpt"))  # of one that was once trained by itself
        self.fabric.barrier()
        return [Record.load(self.folder.path(*run)) for run in runs]

    def _check_records(self, configs: Sequence[Config]) -> None:
        """Refuses to train runs beside others of the same configurations that were made on other data, unless they may be replaced; warns if it was
        with other code.

        A configuration is looked at once: later there are the records of runs that were trained here.
        """
        made = self.folder.records(config for config in configs if config.title not in self._checked)
        self._checked |= {config.title for config in configs}
        if self.folder.overwrite:
            return
        if outdated := [path for path, record in made.items() if self.folder.is_outdated(record)]:
            raise ValueError(
                f"{outdated[0]} was made on other data than {self.dataset.name} has now, or on another split of them; pass --overwrite to replace "
                "it, or another --records"
            )
        warn_of_other_code(self.config, {path: record.provenance for path, record in made.items()})

    def _checkpoint(self, runs: Sequence[Run]) -> Path:
        path, first, last = self.folder.path(*runs[0]).with_suffix(".ckpt"), runs[0].number, runs[-1].number
        if len(configs_of(runs)) > 1:
            return path.with_name(f"{first:03d}+{len(runs) - 1}.ckpt")
        return path if len(runs) == 1 else path.with_name(f"{first:03d}-{last:03d}.ckpt")

    def _identity(self, runs: Sequence[Run]) -> str:
        """What a checkpoint must have in common with a run that goes on from it.

        Another torch or another kind of device rounds otherwise, and a GPU draws other random numbers: a run that changed them midway would
        be neither's, though its record names one of them. The number of devices decides what each draws.
        """
        made: dict[str, Any] = {"torch": torch.__version__, "gump": gump.__version__, "device": device_name(self.fabric.device)}
        made |= {"kernels": self.fabric.device.type == "cuda" and has_triton()}
        made |= {"num_devices": self.fabric.world_size, "replicas": self.num_replicas is not None, "format": FORMAT}
        made |= self.splits.made_on | ({"code": self.code} if self.code else {})
        if self.dataset.task == "regression":
            made |= {"units": True}  # which weights from before had in their last layer
        if self.folder.keep_weights:
            made |= {"weights": [config.training.select for config in configs_of(runs)]}
        settings = [made_by(config.settings) for config in configs_of(runs)]
        if len(settings) == 1:
            made |= {"settings": settings[0], "indices": [run.number for run in runs]}
        else:
            paths = [self.folder.path(*run).relative_to(self.folder.root).as_posix() for run in runs]
            made |= {"settings": settings, "records": paths}
        return json.dumps(made, sort_keys=True)

    def _padded(self) -> ReplicaStore:
        """The graphs as replicas take them."""
        if self.fabric.world_size > 1:
            raise ValueError("'--replicas' must be left out on several devices")
        if obstacle := obstacle_to_replicas(self.config.settings):
            raise ValueError(obstacle)
        if self._padded_store is None:
            device = self.fabric.device
            of_vertices = self.dataset.level == "node"
            self._padded_store = VertexStore(self.dataset[0], device) if of_vertices else PaddedStore(self.dataset.graphs, device)
        return self._padded_store

    def _record(self, run: Run, test_index: list[int], progress: Progress, model: torch.nn.Module) -> Record:
        config, task = run.config, TASKS[self.dataset.task]
        several = any(epoch > 1 for epoch in progress.commits.values())
        return Record(
            name=config.name,
            index=run.number,
            settings=config.settings,
            metric=task.measure,
            variant=config.variant,
            higher_is_better=task.higher_is_better,
            published=config.published,
            results=progress.best,
            history=progress.history,
            predictions=progress.predictions,
            test_index=test_index,
            provenance={
                "config": config.path,
                **{key: sum_[:16] for key, sum_ in self.splits.made_on.items()},
                **provenance(self.fabric),
            }
            | ({"code": self.code} if self.code else {})
            | ({"commits": progress.commits} if several else {})
            | ({"search": True} if config.is_search else {}),
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
            return NodeFeed(self.dataset[0], split, self.fabric.device, self.training.repeats)
        seed, repeats = run_seed(self.config.protocol.seed, index), self.training.repeats
        return LinkFeed(self.dataset, split, seed, self.line_graph, self.fabric.device, repeats)


def warn_of_other_code(config: Config, made: Mapping[Path, Mapping[str, Any]]) -> None:
    """Warns of records whose model or transforms from outside of the library were others than there are now.

    Args:
        config: What they are records of.
        made: Where each lies, with its provenance.
    """
    code = code_of(config.settings)
    if other := [path for path, how in made.items() if how.get("code", "") != code]:
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        warnings.warn(
            f"{other[0]}{more} had other code of {config.settings['model']['kind']}, or of a transform, than there is now; pass --overwrite to train "
            "again, or another --records",
            stacklevel=2,
        )


def _shown(runs: Sequence[Run]) -> Config:
    """The configuration that those who watch a group are told: the only one, or the first with the number of others in its variant."""
    first, *others = configs_of(runs)
    return dataclasses.replace(first, variant=f"{first.variant} and {len(others)} more".strip()) if others else first


def _company(run: Run, runs: Sequence[Run]) -> dict[str, Any]:
    """The numbers of the other runs of a group: those of the same configuration, and those of others where there are such."""
    numbers: dict[str, list[int]] = {}
    for config, number in runs:
        numbers.setdefault(config.title, []).append(number)
    own = [number for number in numbers.pop(run.config.title) if number != run.number]
    others = {title: format_indices(sorted(found)) for title, found in numbers.items()}
    return {"side_by_side_with": own} | ({"and_with": others} if others else {})
