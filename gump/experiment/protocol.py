"""Protocols: which graphs, vertices or links are learned from, chosen on and tested on in every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gump.datasets.dataset import Dataset


class Split(NamedTuple):
    """Numbers of graphs, or of vertices or links where there is a single graph."""

    train: Tensor
    val: Tensor
    test: Tensor


class SplitRule(Protocol):
    """What a protocol is: a number of runs, and for each of them a split."""

    @property
    def num_runs(self) -> int:
        """How many runs make the number."""
        ...

    @property
    def seed(self) -> int:
        """Of all runs."""
        ...

    def split(self, dataset: Dataset, index: int) -> Split:
        """The split of one run."""
        ...


@dataclass(frozen=True)
class Fresh:
    """A fresh random split of everything for every run, the headline protocol for TU.

    The sizes are rounded down as in the code of FoSR (Karhadkar et al., ICLR 2023), and the rest is the test set.

    Args:
        num_runs: How many runs make the number.
        seed: Of all runs; run i draws from its own stream.
        train: Share of the graphs to learn from.
        val: Share of the graphs to choose on.
        stratify: Whether every part has its share of each class, to within a graph or so; the sizes are the same.
    """

    num_runs: int = 100
    seed: int = 0
    train: float = 0.8
    val: float = 0.1
    stratify: bool = False

    def __post_init__(self) -> None:
        _check(self.num_runs, train=self.train, val=self.val)

    def split(self, dataset: Dataset, index: int) -> Split:
        """Draws a permutation and cuts it, or draws the test set and then the validation set class by class."""
        total, stream = num_items(dataset), generator(self.seed, index)
        num_train, num_val = int(self.train * total), int(self.val * total)
        if self.stratify:
            return _stratified(dataset, total - num_train - num_val, num_val, stream, stream)
        train, val, test = torch.randperm(total, generator=stream).split([num_train, num_val, total - num_train - num_val])
        return _sorted(train, val, test)


@dataclass(frozen=True)
class FixedTest:
    """One test set for all runs, and a fresh split of the rest for each, as the paper states it for TU.

    What it measures depends on the draw of the test set, which for MUTAG has 19 graphs; :class:`Fresh` is the sounder headline.

    Args:
        num_runs: How many runs make the number.
        seed: Of all runs; run i draws from its own stream.
        test_seed: Of the test set.
        test: Share of the graphs to test on.
        val: Share of the graphs to choose on.
        stratify: Whether every part has its share of each class, to within a graph or so; the sizes are the same.
    """

    num_runs: int = 100
    seed: int = 0
    test_seed: int = 0
    test: float = 0.1
    val: float = 0.1
    stratify: bool = False

    def __post_init__(self) -> None:
        _check(self.num_runs, test=self.test, val=self.val)

    def split(self, dataset: Dataset, index: int) -> Split:
        """Sets the test set aside and cuts a permutation of the rest, or draws both class by class."""
        total, once, stream = num_items(dataset), generator(self.test_seed, -1), generator(self.seed, index)
        num_test, num_val = round(self.test * total), round(self.val * total)
        if self.stratify:
            return _stratified(dataset, num_test, num_val, once, stream)
        order = torch.randperm(total, generator=once)
        rest = order[num_test:][torch.randperm(total - num_test, generator=stream)]
        return _sorted(rest[num_val:], rest[:num_val], order[:num_test])


@dataclass(frozen=True)
class Folds:
    """Stratified cross-validation: everything is dealt into folds with equal shares of the classes, and run i tests on fold i.

    Ten folds are what GIN (Xu et al., ICLR 2019) is tested on. A validation set, cut out of the other folds with the same shares, chooses the
    epoch, as Errica et al. (ICLR 2020) ask for, where GIN's code chose it on the folds that it reports. Where there are more runs than folds,
    all is dealt anew for every further round; so each round, of as many runs as folds, tests on everything once.

    A fold has as many of each class as any other, or one more. A class with fewer members than there are folds is in as many test sets of a round
    as it has members; if it has but one, the run that tests on it has not learned the class. Labels that are missing count as a class.

    Args:
        num_runs: How many runs make the number; a multiple of the folds, if everything is to be tested on equally often.
        seed: Of all runs; round and run i draw from their own streams.
        num_folds: How many folds there are.
        val: Share of the graphs to choose on, of all of them as in the other protocols.
    """

    num_runs: int = 10
    seed: int = 0
    num_folds: int = 10
    val: float = 0.1

    def __post_init__(self) -> None:
        if self.num_folds < 2:
            raise ValueError(f"'protocol.num_folds' must be at least 2 (got {self.num_folds})")
        _check(self.num_runs, val=self.val)
        if self.val + 1 / self.num_folds >= 1:
            raise ValueError(
                f"'protocol.val' must leave something beside one of {self.num_folds} folds to learn from (got {self.val})"
            )

    def split(self, dataset: Dataset, index: int) -> Split:
        """Deals one class after the other out like cards, takes a fold away, and draws from the rest class by class."""
        total = num_items(dataset)
        if total < self.num_folds:
            raise ValueError(
                f"'protocol.num_folds' must be at most {total}, what {dataset.name} has to test on (got {self.num_folds})"
            )
        label = _classes(dataset, "'protocol.kind' must be another than 'folds'")
        round_number, fold = divmod(index, self.num_folds)
        order = _by_class(torch.arange(total), label, generator(self.seed, -1 - round_number))
        tested, stream = torch.arange(total) % self.num_folds == fold, generator(self.seed, index)
        val, train = _draw(_by_class(order[~tested], label, stream), round(self.val * total), stream)
        return _sorted(train, val, order[tested])


@dataclass(frozen=True)
class Official:
    """The split that comes with the dataset; runs differ by the seed of the model only.

    Args:
        num_runs: How many runs make the number.
        seed: Of all runs; run i draws from its own stream.
    """

    num_runs: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.num_runs)

    def split(self, dataset: Dataset, index: int) -> Split:
        """Takes the dataset's own split."""
        if dataset.split is None:
            raise ValueError(
                f"'protocol.kind' must be one that draws splits, since {dataset.name} comes with none (got 'official')"
            )
        return Split(dataset.split["train"], dataset.split["val"], dataset.split["test"])


@dataclass(frozen=True)
class Scaffold:
    """A split of molecules by their scaffolds, so that those of the test are built differently from those of training.

    Molecules that share a Murcko scaffold are on the same side, and all those without a ring share one. Groups are gone through from the largest
    to the smallest, and each goes to training, else to validation, else to the test, by whether it still fits: what is frequent is learned from,
    unless there is too much of it. This is how ogbg-molhiv is split, and how DeepChem splits by scaffold. All runs have the same split and differ by
    the seed of the model only.

    Args:
        num_runs: How many runs make the number.
        seed: Of all runs; run i draws from its own stream.
        train: Share of the graphs to learn from, at most.
        val: Share of the graphs to choose on.
    """

    num_runs: int = 10
    seed: int = 0
    train: float = 0.8
    val: float = 0.1

    def __post_init__(self) -> None:
        _check(self.num_runs, train=self.train, val=self.val)

    def split(self, dataset: Dataset, index: int) -> Split:
        """Deals the groups out, of equally large ones the last in the dataset first."""
        if dataset.scaffolds is None:
            raise ValueError(
                f"'protocol.kind' must be another than 'scaffold', since {dataset.name} comes without scaffolds; data of kind 'smiles' have them"
            )
        _, group, sizes = torch.unique(dataset.scaffolds, return_inverse=True, return_counts=True)
        total = group.numel()
        first = torch.full_like(sizes, total).scatter_reduce(0, group, torch.arange(total), "amin")
        limits = self.train * total + 1e-6, (self.train + self.val) * total + 1e-6
        part, num_train, num_val = torch.full_like(sizes, 2), 0, 0
        for size, _, number in sorted(zip(sizes.tolist(), first.tolist(), range(len(sizes)), strict=True), reverse=True):
            if num_train + size <= limits[0]:
                part[number], num_train = 0, num_train + size
            elif num_train + num_val + size <= limits[1]:
                part[number], num_val = 1, num_val + size
        split = Split(*((part[group] == i).nonzero().view(-1) for i in range(3)))
        if empty := [name for name, numbers in split._asdict().items() if numbers.numel() == 0]:
            raise ValueError(
                f"'protocol' must leave something to every part of {dataset.name} (got an empty '{empty[0]}'): molecules of one scaffold stay "
                f'together, as do all without a ring, and {int(sizes.max()):,} of {total:,} share the largest; take kind = "fresh", or other shares'
            )
        return split


@dataclass(frozen=True)
class Links:
    """A fresh split of a graph's links for every run, with as many pairs that are no links.

    Links are undirected: a link and its reverse are always on the same side. Those that are learned from are not passed along either:
    ``supervision`` of the training links are asked about and hidden, the others are messages. Validation sees the messages of training;
    so does the test, so that both measure one model on one graph.

    Args:
        num_runs: How many runs make the number.
        seed: Of all runs; run i draws from its own stream.
        val: Share of the links to choose on.
        test: Share of the links to test on.
        supervision: Share of the remaining links that are asked about in training.
    """

    num_runs: int = 10
    seed: int = 0
    val: float = 0.05
    test: float = 0.1
    supervision: float = 0.3

    def __post_init__(self) -> None:
        _check(self.num_runs, val=self.val, test=self.test)
        _check(self.num_runs, supervision=self.supervision)

    def split(self, dataset: Dataset, index: int) -> Split:
        """Cuts a permutation of the links; what is in no part is a message."""
        total = num_items(dataset)
        num_val, num_test = int(self.val * total), int(self.test * total)
        order = torch.randperm(total, generator=generator(self.seed, index))
        num_asked = int(self.supervision * (total - num_val - num_test))
        val, test, train = order.split([num_val, num_test, total - num_val - num_test])
        return _sorted(train[:num_asked], val, test)


PROTOCOLS: dict[str, Callable[..., SplitRule]] = {
    "fresh": Fresh,
    "fixed_test": FixedTest,
    "folds": Folds,
    "official": Official,
    "scaffold": Scaffold,
    "links": Links,
}


def num_items(dataset: Dataset) -> int:
    """How many things there are to split: graphs, or the vertices or links of the only graph."""
    if dataset.level == "node":
        return int(dataset[0].num_nodes or 0)
    return undirected_links(dataset).size(1) if dataset.level == "link" else len(dataset)


def undirected_links(dataset: Dataset) -> Tensor:
    """Every link of a dataset's only graph once, the smaller vertex first, in their order; loops are no links."""
    links = torch.unique(dataset[0].edge_index.sort(dim=0).values, dim=1)
    return links[:, links[0] != links[1]]


def generator(seed: int, index: int) -> torch.Generator:
    """A stream of random numbers of its own for every run."""
    return torch.Generator().manual_seed(run_seed(seed, index))


def run_seed(seed: int, index: int, epoch: int = 0) -> int:
    """A seed for every run, and for every epoch of it, so that an epoch does not depend on those before except through the model."""
    mixed = (seed & 0xFFFF_FFFF) * 0x9E37_79B9_7F4A_7C15 + (index + 1) * 0xBF58_476D_1CE4_E5B9 + epoch * 0x94D0_49BB_1331_11EB
    mixed &= 0xFFFF_FFFF_FFFF_FFFF
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58_476D_1CE4_E5B9) & 0xFFFF_FFFF_FFFF_FFFF
    return (mixed ^ (mixed >> 27)) & 0x7FFF_FFFF_FFFF_FFFF


def _check(num_runs: int, **shares: float) -> None:
    """Refuses shares that do not leave something for every part."""
    if num_runs < 1:
        raise ValueError(f"'protocol.num_runs' must be at least 1 (got {num_runs})")
    if not (all(share > 0 for share in shares.values()) and sum(shares.values()) < 1):
        names = " and ".join(f"'protocol.{name}'" for name in shares)
        raise ValueError(f"{names} must be positive, with a sum below 1 (got {', '.join(map(str, shares.values()))})")


def _stratified(dataset: Dataset, num_test: int, num_val: int, first: torch.Generator, then: torch.Generator) -> Split:
    """Draws the test set from the first stream and then the validation set from the other, both class by class."""
    label = _classes(dataset, "'protocol.stratify' must be false")
    test, rest = _draw(_by_class(torch.arange(label.numel()), label, first), num_test, first)
    val, train = _draw(_by_class(rest, label, then), num_val, then)
    return _sorted(train, val, test)


def _sorted(*parts: Tensor) -> Split:
    return Split(*(part.sort().values for part in parts))


def _classes(dataset: Dataset, must: str) -> Tensor:
    """The class of every graph or vertex, one more for labels that are missing; refuses what has none in the given words."""
    if dataset.task not in ("multiclass", "binary") or dataset.level == "link":
        what = "it asks about links" if dataset.level == "link" else f"its task is {dataset.task!r}"
        raise ValueError(f"{must}, since {dataset.name} has no classes whose shares could be kept: {what}")
    return torch.unique(dataset.targets[:, 0].double().nan_to_num(-1.0), return_inverse=True)[1]


def _by_class(items: Tensor, label: Tensor, stream: torch.Generator) -> Tensor:
    """One class after the other, the classes and the members of each in random order."""
    items = items[torch.randperm(items.numel(), generator=stream)]
    turn = torch.randperm(int(label.max()) + 1, generator=stream)
    return items[turn[label[items]].argsort(stable=True)]


def _draw(order: Tensor, count: int, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws at equal distances, so that every stretch has its share of what is drawn, rounded up or down; returns it and the rest."""
    start = torch.randint(max(order.numel(), 1), (1,), generator=stream)
    drawn = torch.zeros_like(order, dtype=torch.bool)
    drawn[(torch.arange(count) * order.numel() + start) // count] = True
    return order[drawn], order[~drawn]
