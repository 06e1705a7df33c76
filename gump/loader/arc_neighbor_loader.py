"""Mini-batches of one graph that is too large for the device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from torch_geometric.data import Data
from torch_geometric.utils import select

from gump.line_graph import EulerianLineGraph

Indices = NDArray[np.int64]
Draw = tuple[tuple[int, ...], Indices]
"""What makes one batch: the seed of its random choices, and its input vertices."""


class ArcNeighborLoader(DataLoader[Data]):
    r"""Cuts one large graph into mini-batches by sampling, around a few vertices at a time, the arcs that lead away from them.

    The way of `GraphSAGE <https://arxiv.org/abs/1706.02216>`_ with states on arcs. Hop by hop, every vertex that was reached for the first
    time draws at most ``num_neighbors[hop]`` of its outgoing arcs, uniformly and without replacement, and the arcs' targets are reached
    next. An arc that is drawn brings its reverse, and every column of ``edge_index`` that lists either. So a batch is an undirected graph
    of its own, in which the i-th incoming arc of a vertex is still the reverse of its i-th outgoing one, and **coins on it are exactly as
    orthogonal as on any graph**. With :math:`B` input vertices and :math:`k_h` neighbors in hop h it has at most

    .. math::
        2 B \, (k_1 + k_1 k_2 + \dots + k_1 k_2 \cdots k_H)

    arcs, however large the degrees are, and drawing them does not take longer where degrees are large. A batch is a ``Data`` as from
    PyG's ``NeighborLoader``: the ``batch_size`` input vertices come first, ``n_id`` and ``e_id`` are the numbers of its vertices and columns
    in the whole graph, and everything that belongs to vertices or edges follows.

    **What is exact.** Let all neighbors be taken (``-1``, or as many as the largest degree) for :math:`H` hops, and :math:`\delta` be the
    distance to the input vertices. Vertices with :math:`\delta \le H - 1` have all their arcs. A base GNN of :math:`K` layers then is exact
    up to :math:`\delta \le r`, with :math:`r = H - K`, or one less if it is a GCN, which divides by the degrees of neighbors too; without
    a base GNN :math:`r = H`. Coins need the features of all neighbors: they are exact up to :math:`\delta \le r - 1`; and the state
    of arc :math:`(u, v)` after layer :math:`k` is up to :math:`\delta(v) \le r - k`, since every layer gathers from one step
    further. The result at the input vertices averages the arcs that end there, so that

    .. math::
        H = L + K + [\text{the base is a GCN and } K > 0]

    hops give what the whole graph gives (without batch norm, or in eval mode), six for ``GUMP(..., num_layers=4)``. Further out coins are
    those of cut-off neighborhoods.

    **What sampling gives up.** With fewer neighbors the coin at a vertex is the coin of the sampled graph: orthogonal, but of another graph.
    The Grover coin reflects with :math:`2/d - 1`, and a vertex that keeps 5 of 500 arcs reflects as one of degree 5 does. The expected
    result is therefore not that of the whole graph; weights on arcs, which correct a sum over sampled neighbors, would leave coins that are
    not orthogonal. GCN's degrees are those of the sample as well. With fewer hops than layers, waves come back from where the sample ends.
    Nor is the size of a block bounded, only the sum of all: a hub that many vertices of a batch draw has an arc to each of them.
    ``transform=CapDegree(...)`` bounds it. Batch norm sees all arcs of a batch, also those at its rim.

    Choices depend on the seed, on the number of the epoch and on that of the batch, and on nothing else: not on the number of workers, and
    not on torch's generators. :attr:`epoch` counts how often the loader was gone through. Set it to repeat or to resume.

    Args:
        data: The graph. An undirected edge may be listed in one orientation or in both; orientations are kept for directed models.
        num_neighbors: For every hop, how many arcs a vertex draws at most; ``-1`` for all.
        batch_size: How many input vertices a batch has; the last one may have fewer.
        input_nodes: The vertices that an epoch goes through, each once, as a mask or as numbers; by default all.
        shuffle: Whether to go through them in another order every epoch.
        seed: The seed of the order and of the arcs.
        transform: What to do with every batch, such as :class:`gump.transforms.AddLineGraph`.
        **kwargs: Further arguments of :class:`torch.utils.data.DataLoader`, such as ``num_workers``.

    Example:
        >>> star = Data(edge_index=torch.stack([torch.zeros(1000, dtype=torch.long), torch.arange(1, 1001)]), num_nodes=1001)
        >>> loader = ArcNeighborLoader(star, num_neighbors=[2, 4], batch_size=1, input_nodes=torch.tensor([7, 0]))
        >>> [(batch.num_nodes, batch.n_id[: batch.batch_size].tolist()) for batch in loader]
        [(6, [7]), (3, [0])]
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        batch_size: int = 1,
        input_nodes: Tensor | None = None,
        shuffle: bool = False,
        seed: int = 0,
        transform: Callable[[Data], Data] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(data, Data) or data.edge_index is None:
            raise ValueError(f"'data' must be a torch_geometric.data.Data with 'edge_index' (got {data})")
        if not isinstance(num_neighbors, Iterable):
            raise ValueError(
                f"'num_neighbors' must be a list of one number for each hop (got {num_neighbors}); pass [{num_neighbors}] for a single hop"
            )
        self.num_neighbors = num_neighbors.tolist() if isinstance(num_neighbors, Tensor | np.ndarray) else list(num_neighbors)
        if not self.num_neighbors or not all(
            isinstance(size, Integral) and (size >= 1 or size == -1) for size in self.num_neighbors
        ):
            raise ValueError(
                f"'num_neighbors' must be integers, for one hop or more, at least 1, or -1 for all (got {self.num_neighbors})"
            )
        for argument, value, least in (("batch_size", batch_size, 1), ("seed", seed, 0)):
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"'{argument}' must be an integer, at least {least} (got {value})")
        if kwargs.pop("drop_last", False):
            raise ValueError(
                "'drop_last' must be false (got true): the last batch may have fewer input vertices; leave some out of 'input_nodes'"
            )
        self._inputs = _Inputs(_checked_inputs(input_nodes, int(data.num_nodes or 0)), batch_size, shuffle, seed)
        super().__init__(_Samples(data, self.num_neighbors, transform), batch_size=None, sampler=self._inputs, **kwargs)

    @property
    def epoch(self) -> int:
        """The number of the epoch that begins when the loader is gone through next."""
        return self._inputs.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._inputs.epoch = epoch

    def __repr__(self) -> str:
        inputs = self._inputs
        return (
            f"{type(self).__name__}(num_neighbors={self.num_neighbors}, batch_size={inputs.num_per_batch}, "
            f"num_inputs={len(inputs.vertices)}, shuffle={inputs.shuffle}, seed={inputs.seed})"
        )


class _Inputs(Sampler[Draw]):
    """Which vertices go together. Runs in the main process, so that workers have nothing to decide."""

    def __init__(self, vertices: Indices, num_per_batch: int, shuffle: bool, seed: int) -> None:
        self.vertices, self.num_per_batch, self.shuffle, self.seed, self.epoch = vertices, num_per_batch, shuffle, seed, 0

    def __iter__(self) -> Iterator[Draw]:
        # Counted when the first batch is asked for, since torch makes iterators that it does not use.
        epoch, self.epoch = self.epoch, self.epoch + 1
        vertices = np.random.default_rng([self.seed, epoch]).permutation(self.vertices) if self.shuffle else self.vertices
        for i in range(len(self)):
            # Batches count from 1: NumPy pads seeds with zeros, so that [seed, epoch, 0] would repeat the numbers of the order.
            yield (self.seed, epoch, 1 + i), vertices[i * self.num_per_batch :][: self.num_per_batch]

    def __len__(self) -> int:
        return -(-len(self.vertices) // self.num_per_batch)


class _Samples(Dataset[Data]):
    """The whole graph, from which samples are taken."""

    def __init__(self, data: Data, num_neighbors: list[int], transform: Callable[[Data], Data] | None) -> None:
        if "arc_index" in data:
            raise ValueError(
                "'data' must not carry a line graph (got one); pass transform=AddLineGraph() to put one on every batch"
            )
        if asked := [key for key in data.keys() if key.endswith("edge_label_index")]:  # noqa: SIM118, a Data is no mapping
            raise ValueError(
                f"'data' must not ask about pairs of vertices (got '{asked[0]}'), of which a sample holds some only; remove it, or take PyG's "
                "LinkNeighborLoader with directed=False"
            )
        self.data, self.num_neighbors, self.transform = data, num_neighbors, transform
        line_graph = EulerianLineGraph.from_edge_index(data.edge_index.cpu(), data.num_nodes)
        source, self.target = line_graph.arcs.numpy()
        self.degree = np.bincount(source, minlength=line_graph.num_nodes)
        self.first_arc = np.zeros_like(self.degree)
        self.first_arc[source[::-1]] = np.arange(len(source))[
            ::-1
        ]  # the arcs of a vertex are consecutive, and the last write counts
        # An edge goes by the number of the first of its two arcs. Its columns are consecutive in `columns`.
        self.edge = np.minimum(np.arange(len(source)), line_graph.reverse.numpy())
        column_edge = self.edge[line_graph.edge_arc.numpy()]
        self.columns = column_edge.argsort(kind="stable")
        self.num_columns = np.bincount(column_edge, minlength=len(source))
        self.first_column = self.num_columns.cumsum() - self.num_columns

    def __getitem__(self, draw: Draw) -> Data:
        key, vertices = draw
        n_id, e_id = self._sample(vertices, np.random.default_rng(key))
        batch = self._subgraph(torch.from_numpy(n_id), torch.from_numpy(e_id))
        batch.batch_size = len(vertices)
        return batch if self.transform is None else self.transform(batch)

    def _sample(self, vertices: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """The numbers of the vertices and of the columns around some vertices."""
        reached, edges, frontier = vertices, [], vertices
        for size in self.num_neighbors:
            arcs = self._draw(frontier, size, rng)
            edges.append(self.edge[arcs])
            frontier = np.setdiff1d(self.target[arcs], reached)
            reached = np.concatenate([reached, frontier])
        edge = np.unique(np.concatenate(edges))
        return reached, np.sort(self.columns[_ranges(self.first_column[edge], self.num_columns[edge])])

    def _draw(self, frontier: Indices, size: int, rng: np.random.Generator) -> Indices:
        """Some outgoing arcs of every vertex."""
        first, degree = self.first_arc[frontier], self.degree[frontier]
        whole = degree <= size if size >= 0 else np.ones_like(degree, dtype=bool)
        some = first[~whole, None] + _distinct(degree[~whole], size, rng)
        return np.concatenate([_ranges(first[whole], degree[whole]), some.ravel()])

    def _subgraph(self, n_id: Tensor, e_id: Tensor) -> Data:
        """The part of the data that belongs to some vertices and columns, with the vertices numbered anew."""
        batch = copy.copy(self.data)
        for key, value in self.data:
            is_of_vertices = self.data.is_node_attr(key)
            if is_of_vertices or self.data.is_edge_attr(key):
                index = n_id if is_of_vertices else e_id
                index = index.to(value.device) if torch.is_tensor(value) else index
                batch[key] = select(value, index, self.data.__cat_dim__(key, value))
        ids, order = n_id.sort()
        batch.edge_index = order.to(batch.edge_index.device)[torch.searchsorted(ids.to(batch.edge_index.device), batch.edge_index)]
        batch.num_nodes, batch.n_id, batch.e_id = n_id.numel(), n_id, e_id
        return batch


def _ranges(first: Indices, count: Indices) -> Indices:
    """Joins the ranges of ``count`` numbers that begin at ``first``."""
    return np.repeat(first - count.cumsum() + count, count) + np.arange(count.sum())


def _distinct(high: Indices, size: int, rng: np.random.Generator) -> Indices:
    """Draws ``size`` different numbers below each of ``high``, which must be larger, at a cost that does not depend on ``high``.

    Floyd's algorithm (`Bentley & Floyd 1987 <https://doi.org/10.1145/30401.315746>`_), for all at once: the i-th choice is below
    ``high - size + i + 1``, and where that was chosen before, the largest of these is taken, which cannot have been.
    """
    chosen = np.empty((len(high), max(size, 0)), dtype=np.int64)
    for i in range(chosen.shape[1]):
        last = high - size + i
        number = rng.integers(last + 1)
        taken = (chosen[:, :i] == number[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, last, number)
    return chosen


def _checked_inputs(input_nodes: Tensor | None, num_nodes: int) -> Indices:
    """The numbers of the input vertices."""
    if input_nodes is None:
        return np.arange(num_nodes)
    input_nodes = torch.as_tensor(input_nodes)
    if input_nodes.dtype == torch.bool:
        if input_nodes.shape != (num_nodes,):
            raise ValueError(
                f"'input_nodes' must, as a mask, have one entry for each of {num_nodes} vertices (got {list(input_nodes.shape)})"
            )
        return input_nodes.cpu().nonzero().view(-1).numpy()
    if input_nodes.dim() != 1 or input_nodes.is_floating_point():
        raise ValueError(
            f"'input_nodes' must be a mask or a vector of integers (got {input_nodes.dtype} of shape {list(input_nodes.shape)})"
        )
    vertices = input_nodes.cpu().long().numpy()
    wrong = vertices[(vertices < 0) | (vertices >= num_nodes)]
    if len(wrong):
        raise ValueError(f"'input_nodes' must name vertices from 0 to {num_nodes - 1} (got {wrong[0]})")
    number, count = np.unique(vertices, return_counts=True)
    if (count > 1).any():
        raise ValueError(f"'input_nodes' must name every vertex once (got {number[count > 1][0]} {count[count > 1][0]} times)")
    return vertices
