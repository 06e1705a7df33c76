"""What tests of runs share: small ones, and what can be compared of their records."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_tables

from gump.datasets.dataset import Dataset
from gump.experiment import preprocess
from gump.experiment.config import Config, make_configs
from gump.record import Record

VARYING = ("time_s", "epoch_time_s", "peak_memory_bytes")


def comparable(record: Record) -> dict[str, Any]:
    """A record without times, memory and host."""
    content = dataclasses.asdict(record)
    content["cost"] = {key: value for key, value in record.cost.items() if key not in VARYING}
    content["provenance"] = {key: value for key, value in record.provenance.items() if key != "host"}
    return content


def counted(watched: list[int]) -> Any:
    """A watch that writes down the number of the run."""
    return lambda config, index, epoch, results: watched.append(index)


def alter_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the fake dataset has another number in it."""
    fake = preprocess.DATASETS["fake"]

    @functools.wraps(fake)
    def altered(**settings: Any) -> Dataset:
        dataset = fake(**settings)
        dataset.graphs[0].x[0, 0] += 1
        return dataset

    monkeypatch.setitem(preprocess.DATASETS, "fake", altered)


def alter_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the fake dataset comes with another split: what was validated on is learned from, and the other way round."""
    fake = preprocess.DATASETS["fake"]

    @functools.wraps(fake)
    def altered(**settings: Any) -> Dataset:
        dataset = fake(**settings)
        train, val = dataset.split["train"], dataset.split["val"]
        swapped = {"train": torch.cat([val, train[val.numel() :]]), "val": train[: val.numel()], "test": dataset.split["test"]}
        return dataclasses.replace(dataset, split=swapped)

    monkeypatch.setitem(preprocess.DATASETS, "fake", altered)


RATES = [0.01, 0.05]


def grid(**changes: Any) -> list[Config]:
    """Two configurations that differ in their rate, with three runs each."""
    changes = {"protocol": {"num_runs": 3}, "grid": {"train.lr": RATES}} | changes
    return make_configs("test/tiny", tiny_tables(**changes))


def names(folder: Path) -> list[str]:
    """The files below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
