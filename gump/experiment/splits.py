"""The data of a configuration, divided for each of its runs."""

from __future__ import annotations

import dataclasses
import hashlib
from functools import cached_property

from torch import Tensor

from gump.datasets.dataset import Dataset
from gump.experiment.preprocess import TransformedGraphs
from gump.experiment.protocol import Official, Scaffold, Split, SplitRule


class Splits:
    """What every run learns from, chooses on and is tested on, and what is right about it.

    Args:
        dataset: The data, after transforms; those that are applied to batches change neither graphs' number nor their answers, and are left out.
        protocol: By which they are divided.
    """

    def __init__(self, dataset: Dataset, protocol: SplitRule) -> None:
        graphs = dataset.graphs
        self.dataset = dataclasses.replace(dataset, graphs=graphs.graphs) if isinstance(graphs, TransformedGraphs) else dataset
        self.protocol = protocol

    def __getitem__(self, index: int) -> Split:
        """The split of a run; one with a part in which nothing is, or nothing is known, is refused."""
        split = self.protocol.split(self.dataset, index)
        for part, numbers in split._asdict().items():
            if numbers.numel() == 0:
                raise ValueError(f"'protocol' must leave something to every part of {self.dataset.name} (got an empty '{part}')")
        if self.dataset.task != "multiclass" and self.dataset.level != "link":
            self._check_known(split, index)
        return split

    @cached_property
    def made_on(self) -> dict[str, str]:
        """What tells the data of these runs from others: a checksum of the graphs and, where the split comes with them, one of it."""
        found = {"data": self.dataset.fingerprint}
        if isinstance(self.protocol, Official | Scaffold):
            digest = hashlib.sha256()
            for numbers in self.protocol.split(self.dataset, 0):
                digest.update(f"{numbers.tolist()}".encode())
            found["split"] = digest.hexdigest()
        return found

    def sizes(self, index: int) -> tuple[int, ...]:
        """How large the parts of a run are."""
        return tuple(part.numel() for part in self[index])

    @property
    def targets(self) -> Tensor:
        """What is right about every graph or vertex, a row for each."""
        return self.dataset.targets

    def _check_known(self, split: Split, index: int) -> None:
        """Refuses a split where nothing is known about a target that is to be learned, or nothing at all to choose or test by."""
        known = {part: ~self.targets[numbers].isnan() for part, numbers in split._asdict().items()}
        for number, values in enumerate(known["train"].T):
            if not values.any():
                name = (self.dataset.target_names or range(self.dataset.num_targets))[number]
                raise ValueError(
                    f"{name!r} must have a value in the training set of every run, to be learned (got none among {len(values):,} in that of run "
                    f"{index}); leave it out of the targets, or split otherwise"
                )
        for part, values in known.items():
            if not values.any():
                raise ValueError(
                    f"'protocol' must leave something that is known to every part of {self.dataset.name} (got no value in '{part}' of run {index})"
                )
