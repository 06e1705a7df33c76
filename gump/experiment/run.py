"""Runs configurations: the road from a dataset to its records."""

from __future__ import annotations

import dataclasses
import itertools
import json
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gump.datasets.workers import process_pool
from gump.experiment.checkpoint import SAVE_EVERY_S, tidy
from gump.experiment.config import Config, made_by, side_by_side
from gump.experiment.record_folder import RecordFolder, Run, configs_of, runs_of
from gump.experiment.registry import obstacle_to_replicas
from gump.experiment.watch import Watch
from gump.experiment.workshop import Workshop, warn_of_other_code
from gump.record import Record


@dataclass(frozen=True)
class Runner:
    """Trains the runs of configurations and leaves a record of each.

    A run whose record is there is not trained again, and one that was interrupted goes on from its checkpoint.

    Args:
        records: The folder of records.
        device: ``"cpu"``, ``"cuda"`` or what Lightning Fabric knows besides.
        num_devices: How many of them; each training batch is shared among them.
        overwrite: Whether to replace records that were made with other settings, on other data, or with other code of models and transforms from
            outside; the data are read then, to see whether they are others.
        watches: Called after every epoch.
        save_every_s: Seconds between checkpoints.
        num_replicas: How many runs to train side by side as one program; by default each is trained by itself, in a loop that one can read.
        keep_weights: Whether runs leave the weights of the epoch that counts beside their records, for :func:`gump.experiment.trained.load_trained`.
    """

    records: Path = Path("records")
    device: str = "cpu"
    num_devices: int = 1
    overwrite: bool = False
    watches: Sequence[Watch] = ()
    save_every_s: float = SAVE_EVERY_S
    num_replicas: int | None = None
    keep_weights: bool = False

    @property
    def folder(self) -> RecordFolder:
        """Where the records lie, and which of them count."""
        return RecordFolder(self.records, self.overwrite, self.keep_weights)

    def workshop(self, configs: Sequence[Config]) -> Workshop:
        """What trains runs of one configuration, or of several that can be trained side by side."""
        return Workshop(
            configs,
            self.folder,
            device=self.device,
            num_devices=self.num_devices,
            num_replicas=self.num_replicas,
            watches=self.watches,
            save_every_s=self.save_every_s,
        )

    def run(self, config: Config, indices: Iterable[int] | None = None) -> Iterator[Record]:
        """Makes the records of a configuration, of all its runs or of those with these numbers."""
        return self.run_side_by_side(runs_of([config], indices))

    def run_side_by_side(self, runs: Sequence[Run], known: Mapping[Path, Record] | None = None) -> Iterator[Record]:
        """Makes the records of runs of one configuration, or of several that can be trained side by side.

        Args:
            runs: The runs.
            known: Records that :meth:`gump.experiment.record_folder.RecordFolder.finished` has found among theirs, by where they lie.
        """
        configs = configs_of(runs)
        workshop = self.workshop(configs) if self.overwrite else None  # which knows the data, as who replaces records must
        folder, known = (self.folder, known or {}) if workshop is None else (workshop.folder, {})
        places = {folder.path(*run): run for run in runs}
        found = {path: known.get(path) or folder.finished(*run) for path, run in places.items()}
        done = {path: folder.settle(*places[path], record) for path, record in found.items() if record}
        missing = [run for path, run in places.items() if path not in done]
        if missing:
            workshop = workshop or self.workshop(configs)
        else:
            warn_of_other_code(configs[0], {path: record.provenance for path, record in done.items()})
        groups = workshop.groups(missing) if workshop else []
        for path in (folder.path(*run) for run in runs):
            if workshop is not None and path not in done:
                group = next(group for group in groups if places[path] in group)
                done |= {folder.path(*run): record for run, record in zip(group, workshop.train(group), strict=True)}
            yield done[path]
        for path, interrupted in folder.interrupted_groups(configs).items():
            if done.keys() >= set(interrupted.members):
                tidy(path)
        if left := folder.outdated(configs):
            warnings.warn(
                f"{left[0]}{f' and {len(left) - 1} more' if len(left) > 1 else ''} was made on other data than there are now; ask for all runs",
                stacklevel=2,
            )


def run_all(runner: Runner, configs: Sequence[Config], indices: Sequence[int] | None = None, num_jobs: int = 1) -> Iterator[Record]:
    """Makes the records of several configurations, one after the other or several at a time.

    Those that can be trained side by side come together. Records that were made with other settings, and what cannot be trained side by side where
    that is asked for, are refused before the first is trained.

    Args:
        runner: Where and how.
        configs: The configurations.
        indices: The numbers of the runs, by default all of each protocol.
        num_jobs: How many processes share the work, with one thread each. They have no watches.
    """
    runs = runs_of(configs, indices)
    titles: dict[str, Config] = {}
    for config in configs:
        if made_by(titles.setdefault(config.title, config).settings) != made_by(config.settings):
            raise ValueError(
                f"'configs' must have names of their own, for their records' sake (got {config.title} with different settings)"
            )
    folder, known = runner.folder, dict[Path, Record]()
    for config, index in runs:
        if index >= config.protocol.num_runs:
            raise ValueError(
                f"'--splits' must be below the protocol's number of runs, {config.protocol.num_runs} (got {index} for {config.title})"
            )
        if record := folder.finished(config, index):
            known[folder.path(config, index)] = record
        elif runner.num_replicas and (obstacle := obstacle_to_replicas(config.settings)):
            raise ValueError(f"{obstacle}, for {config.title}")
    if num_jobs == 1 or not runs:
        for family in _families(runs):
            yield from runner.run_side_by_side(family, known)
    else:
        yield from _run_in_processes(runner, runs, known, num_jobs)


def _run_in_processes(runner: Runner, runs: Sequence[Run], known: Mapping[Path, Record], num_jobs: int) -> Iterator[Record]:
    """Makes the records of runs, several at a time."""
    folder = runner.folder
    places = {folder.path(*run): run for run in runs}
    done = {} if runner.overwrite else {path: folder.settle(*places[path], record) for path, record in known.items()}
    missing = [run for path, run in places.items() if path not in done]
    silent = dataclasses.replace(runner, watches=())
    with process_pool(
        num_jobs, "spawn", _begin, (warnings.showwarning,), "finished runs are kept, and fewer --jobs need less"
    ) as pool:
        made = pool.map(_run_one, itertools.repeat(silent), *zip(*missing, strict=True)) if missing else iter(())
        for path in (folder.path(*run) for run in runs):
            if path not in done:
                done[path] = next(made)
            yield done[path]


def _begin(show_warning: Callable[..., None]) -> None:
    """What each process does first: it takes one core, says warnings as the first one does, and leaves it to that one to end it after Ctrl-C."""
    torch.set_num_threads(1)
    warnings.showwarning = show_warning
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _families(runs: Sequence[Run]) -> list[list[Run]]:
    """Puts runs together that can be trained side by side."""
    keys: dict[str, str] = {}
    families: dict[str, list[Run]] = {}
    for run in runs:
        if run.config.title not in keys:
            keys[run.config.title] = json.dumps(side_by_side(run.config.settings), sort_keys=True)
        families.setdefault(keys[run.config.title], []).append(run)
    return list(families.values())


def _run_one(runner: Runner, config: Config, index: int) -> Record:
    """Makes one record in a process that keeps the data of what it worked on last."""
    if not runner.overwrite and (record := runner.folder.finished(config, index)):  # by now, through another command
        return runner.folder.settle(config, index, record)
    if _LAST.get("common") != (common := side_by_side(config.settings)):
        _LAST.update(common=common, workshop=runner.workshop([config]))
    workshop: Workshop = _LAST["workshop"]
    if runner.overwrite and (record := workshop.folder.finished(config, index)):
        return workshop.folder.settle(config, index, record)
    return workshop.train([Run(config, index)])[0]


_LAST: dict[str, Any] = {}
