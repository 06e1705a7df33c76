"""RecordFolder: where the records of runs lie, with what interrupted runs have left beside them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gump.experiment.checkpoint import read_checkpoint, tidy
from gump.experiment.config import Config, completed, made_by
from gump.experiment.registry import code_of
from gump.experiment.settings import differences
from gump.experiment.trained import kept_by
from gump.record import Record, record_path


class Run(NamedTuple):
    """One run of a configuration, by the number of its split or seed."""

    config: Config
    number: int


class Interrupted(NamedTuple):
    """Runs that were trained side by side and are not finished.

    Args:
        identity: Of all of them together, as their checkpoint has it.
        members: Where their records will lie.
    """

    identity: str
    members: list[Path]


def runs_of(configs: Iterable[Config], indices: Iterable[int] | None = None) -> list[Run]:
    """The runs of configurations, all of each or those with these numbers."""
    chosen = None if indices is None else list(indices)
    return [Run(config, i) for config in configs for i in (range(config.protocol.num_runs) if chosen is None else chosen)]


def configs_of(runs: Sequence[Run]) -> list[Config]:
    """The configurations of runs, each once."""
    return list({run.config.title: run.config for run in runs}.values())


@dataclass(frozen=True)
class RecordFolder:
    """The folder that runs leave their records in.

    Args:
        root: The folder.
        overwrite: Whether records that were made with other settings, on other data, or with other code of models and transforms from outside, count
            as none.
        keep_weights: Whether a finished run must have the weights of the epoch that counts beside its record.
        made_on: Checksums of the data as they are now, see :attr:`gump.experiment.splits.Splits.made_on`, for those who have read them.
    """

    root: Path
    overwrite: bool = False
    keep_weights: bool = False
    made_on: Mapping[str, str] = field(default_factory=dict)

    def path(self, config: Config, index: int) -> Path:
        """Where the record of a run lies."""
        return record_path(self.root, config.name, config.variant, index)

    def finished(self, config: Config, index: int) -> Record | None:
        """The record of a run, if there is one with these settings; those that are newer than the record had their defaults then."""
        path = self.path(config, index)
        if not path.is_file():
            return None
        record = Record.load(path)
        if self.overwrite and (record.provenance.get("code", "") != code_of(config.settings) or self.is_outdated(record)):
            return None
        now = json.loads(json.dumps(made_by(config.settings)))
        if differences(made_by(record.settings), now) and (differing := differences(made_by(completed(record.settings)), now)):
            if self.overwrite:
                return None
            raise ValueError(
                f"{path} was made with other settings ({', '.join(differing[:3])}); pass --overwrite to replace it, or another --records"
            )
        rule = config.training.select
        if self.keep_weights and record.status == "finished" and kept_by(path.with_suffix(".pt")) != rule:
            if self.overwrite:
                return None
            raise ValueError(
                f"{path} has no weights of the epoch that counts by '{rule}' beside it; pass --overwrite to train it again, or another --records"
            )
        return record

    def is_outdated(self, record: Record) -> bool:
        """Whether a record was made on other data than there are now, or on another split of them; of older records not all is known."""
        known = {key: record.provenance.get(key, "") for key in self.made_on}
        return any(not self.made_on[key].startswith(start) for key, start in known.items())

    def records(self, configs: Iterable[Config]) -> dict[Path, Record]:
        """The records of configurations, of whatever settings, by where they lie."""
        folders = dict.fromkeys(self.path(config, 0).parent for config in configs)
        return {path: Record.load(path) for folder in folders for path in sorted(folder.glob("[0-9][0-9][0-9]*.json"))}

    def outdated(self, configs: Iterable[Config]) -> list[Path]:
        """Where the records of configurations lie that are outdated; none are, for one who has not read the data."""
        return [path for path, record in self.records(configs if self.made_on else ()).items() if self.is_outdated(record)]

    def settle(self, config: Config, index: int, record: Record) -> Record:
        """Brings the record of a finished run up to date, and removes the checkpoint that the run may have left.

        What it is called, beside which published number it stands, by which rule its epoch is selected and how many runs there are to be is for
        the configuration to say, as it is now.
        """
        tidy(self.path(config, index).with_suffix(".ckpt"))
        num_runs = config.protocol.num_runs
        said = (
            record.settings.get("title"),
            record.select,
            record.published,
            record.settings.get("protocol", {}).get("num_runs", num_runs),
        )
        now = config.settings.get("title"), config.training.select, json.loads(json.dumps(config.published)), num_runs
        if not differences(list(said), list(now)):
            return record
        settings = {key: value for key, value in record.settings.items() if key != "title"}
        settings["train"] = settings.get("train", {}) | {"select": now[1]}
        settings["protocol"] = settings.get("protocol", {}) | {"num_runs": num_runs}
        titled = ({"title": now[0]} if now[0] else {}) | settings
        return Record.load(dataclasses.replace(record, settings=titled, published=now[2]).save(self.root))

    def interrupted_groups(self, configs: Sequence[Config]) -> dict[Path, Interrupted]:
        """The checkpoints of runs that were trained side by side; one that cannot be read is left where it is, with a warning.

        That of runs of several configurations lies with the first of them.
        """
        groups = {}
        for folder in dict.fromkeys(self.path(config, 0).parent for config in configs):
            for path in sorted(folder.glob("[0-9]*[-+][0-9]*.ckpt")):
                if found := read_checkpoint(path, mmap=True):
                    made = json.loads(found["identity"])
                    one = [path.with_name(f"{index:03d}.json") for index in made.get("indices", [])]
                    groups[path] = Interrupted(found["identity"], one or [self.root / name for name in made["records"]])
        return groups
