"""Feeds: the batches of one run's training, validation and test parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from gump.datasets.dataset import Dataset
from gump.experiment.protocol import Split, generator, undirected_links
from gump.experiment.store import GraphStore, TransformedStore
from gump.transforms import AddLineGraph


class Feed(Protocol):
    """Hands out batches. ``answer_index``, where a batch has it, names the rows of a model's output that are answers to ``y``."""

    def train_batches(self, shuffle: torch.Generator) -> Iterator[Data]:
        """One epoch of training, in an order of its own."""
        ...

    def batches(self, part: str) -> Iterator[Data]:
        """All of a part, in order."""
        ...

    @property
    def test_index(self) -> Tensor:
        """A number for every answer of the test set, by which different systems tell what was asked."""
        ...


def join_single(chunks: Sequence[Tensor], size: int) -> list[Tensor]:
    """Has a last batch of a single graph join the one before, since batch norm cannot learn from it.

    Args:
        chunks: The numbers of the graphs of each batch, in the last dimension.
        size: How many graphs the others have; where it is one, all stay as they are.
    """
    if len(chunks) > 1 and chunks[-1].size(-1) == 1 < size:
        return [*chunks[:-2], torch.cat([*chunks[-2:]], dim=-1)]
    return list(chunks)


class GraphFeed:
    """Batches of graphs from a store.

    Args:
        store: The graphs.
        split: The numbers of the graphs in each part.
        batch_size: How many graphs a training batch has.
        level: ``"graph"``, or ``"source"`` where the answer is read at one vertex of each graph.
        repeats: How often an epoch goes through the training graphs.
        shard: Which part of every training batch is this process's, and of how many.
        evaluated_at_once: Graphs in a batch when nothing is learned.
    """

    EVALUATED_AT_ONCE = 512

    def __init__(
        self,
        store: GraphStore | TransformedStore,
        split: Split,
        batch_size: int,
        level: str = "graph",
        repeats: int = 1,
        shard: tuple[int, int] = (0, 1),
        evaluated_at_once: int = EVALUATED_AT_ONCE,
    ) -> None:
        self.store, self.split, self.batch_size, self.level = store, split, batch_size, level
        self.repeats, self.shard, self.evaluated_at_once = repeats, shard, evaluated_at_once

    def train_batches(self, shuffle: torch.Generator) -> Iterator[Data]:
        """One epoch of training, without a last batch of a single graph."""
        (rank, world), size = self.shard, self.batch_size
        for _ in range(self.repeats):
            order = self.split.train[torch.randperm(self.split.train.numel(), generator=shuffle)]
            chunks = join_single(order.split(size), size)
            yield from (self._batch(chunk[rank::world]) for chunk in chunks if chunk.numel() >= world)

    def batches(self, part: str) -> Iterator[Data]:
        """All graphs of a part."""
        yield from (self._batch(chunk) for chunk in getattr(self.split, part).split(self.evaluated_at_once))

    @property
    def test_index(self) -> Tensor:
        """The numbers of the graphs."""
        return self.split.test

    def _batch(self, index: Tensor) -> Data:
        batch = self.store.batch(index)
        if self.level == "source":
            batch.answer_index = batch.source_index
        return batch


class NodeFeed:
    """The only graph, over and over, with the vertices of each part.

    Args:
        graph: The graph.
        split: The numbers of the vertices in each part.
        device: Where to compute.
        repeats: How often an epoch goes through the training vertices.
    """

    def __init__(self, graph: Data, split: Split, device: torch.device, repeats: int = 1) -> None:
        graph = graph.to(str(device))
        self.test_index, self.repeats = split.test, repeats
        self.parts = {}
        for part, index in split._asdict().items():
            self.parts[part] = graph.clone()
            self.parts[part].answer_index = index.to(device)
            self.parts[part].y = graph.y[index.to(device)]

    def train_batches(self, shuffle: torch.Generator) -> Iterator[Data]:
        """The graph, as often as an epoch has it."""
        yield from [self.parts["train"]] * self.repeats

    def batches(self, part: str) -> Iterator[Data]:
        """The graph, once."""
        yield self.parts[part]


class LinkFeed:
    """The only graph without the links that are asked about, and for each part its links with as many pairs that are none.

    Pairs that are no links are drawn afresh every time in training, once for validation and test. No pair is asked about in two parts.

    Args:
        dataset: The dataset with the graph.
        split: The numbers of the links in each part.
        seed: Of the pairs of validation and test.
        line_graph: Whether to build the line graph.
        device: Where to compute.
        repeats: How often an epoch goes through the training links.
    """

    def __init__(self, dataset: Dataset, split: Split, seed: int, line_graph: bool, device: torch.device, repeats: int = 1) -> None:
        links, graph = undirected_links(dataset), dataset[0]
        asked = torch.zeros(links.size(1), dtype=torch.bool)
        asked[torch.cat(split)] = True
        message = links[:, ~asked]
        data = Data(x=graph.x, edge_index=torch.cat([message, message.flip(0)], dim=1), num_nodes=graph.num_nodes)
        self.data = (AddLineGraph()(data) if line_graph else data).to(str(device))
        self.num_nodes, self.device, self.repeats = int(graph.num_nodes or 0), device, repeats
        self.taken = links[0] * self.num_nodes + links[1]
        self.links = {part: links[:, index] for part, index in split._asdict().items()}
        self.pairs: dict[str, Data] = {}
        for part, stream in (("test", -3), ("val", -2)):
            self.pairs[part] = self._with_pairs(part, generator(seed, stream))
            self.taken = torch.cat([self.taken, self._numbers(part)]).unique()

    def train_batches(self, shuffle: torch.Generator) -> Iterator[Data]:
        """The graph, as often as an epoch has it, with new pairs."""
        yield from (self._with_pairs("train", shuffle) for _ in range(self.repeats))

    def batches(self, part: str) -> Iterator[Data]:
        """The graph, once."""
        yield self.pairs[part]

    @property
    def test_index(self) -> Tensor:
        """The pairs of vertices that are asked about, links or not: u and v, the smaller first, as u times the number of vertices plus v."""
        return self._numbers("test")

    def _numbers(self, part: str) -> Tensor:
        first, second = self.pairs[part].edge_label_index.cpu()
        return first * self.num_nodes + second

    def _with_pairs(self, part: str, random: torch.Generator) -> Data:
        links = self.links[part]
        pairs = self._no_links(links.size(1), random)
        batch = self.data.clone()
        batch.edge_label_index = torch.cat([links, pairs], dim=1).to(self.device)
        batch.y = torch.cat([torch.ones(links.size(1)), torch.zeros(pairs.size(1))]).to(self.device)
        return batch

    def _no_links(self, num_pairs: int, random: torch.Generator) -> Tensor:
        """Draws pairs of different vertices that are neither linked nor asked about in another part, each at most once."""
        possible = self.num_nodes * (self.num_nodes - 1) // 2 - self.taken.numel()
        if num_pairs > possible // 2:
            raise ValueError(f"the graph is too dense to draw {num_pairs} pairs that are no links (it has {possible} left)")
        found = torch.empty(0, dtype=torch.long)
        while found.numel() < num_pairs:
            pair = torch.randint(self.num_nodes, (2, 2 * num_pairs + 8), generator=random).sort(dim=0).values
            code = pair[0] * self.num_nodes + pair[1]
            code = code[(pair[0] != pair[1]) & ~torch.isin(code, self.taken)]
            found = torch.cat([found, code])
            _, first = torch.unique(found, return_inverse=True)
            order = torch.arange(found.numel())
            earliest = torch.full((int(first.max()) + 1,), found.numel()).scatter_reduce(0, first, order, "amin")
            found = found[earliest.sort().values]
        found = found[:num_pairs]
        return torch.stack([found // self.num_nodes, found % self.num_nodes])
