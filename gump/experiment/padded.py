"""Batches of one shape for many runs at once, assembled where the data lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from gump.line_graph import EulerianLineGraph


class PaddedBatch(NamedTuple):
    """One batch for each of R replicas, padded to one shape. Vertices and arcs are grouped by degree, as a line graph has them.

    Padding is made of vertices of its own, whose arcs begin and end at themselves, so that it disturbs no one and no two rows of it are the
    same.

    Shapes:
        - **x:** :math:`(R, N, F)`
        - **arcs:** :math:`(R, 2, A)`
        - **reverse:** :math:`(R, A)`
        - **batch, mask:** :math:`(R, N)`
        - **y:** :math:`(R, B, ...)`
        - **edge_attr, edge_weight, edge_type:** :math:`(R, A, ...)`, where the graphs have them
        - **answers:** :math:`(R, B)`, the vertices that are asked about, where the questions are not about graphs
    """

    x: Tensor
    arcs: Tensor
    reverse: Tensor
    batch: Tensor
    mask: Tensor
    y: Tensor
    edges: dict[str, Tensor]
    block_sizes: dict[int, int]
    answers: Tensor | None = None

    @property
    def num_graphs(self) -> int:
        """How many graphs, or else questions, each replica has."""
        return self.y.size(1)


@dataclass(frozen=True)
class Layout:
    """How many vertices of each degree a padded batch has room for."""

    degrees: tuple[int, ...]
    capacity: tuple[int, ...]

    def holds(self, other: Layout) -> bool:
        """Whether there is room for what fits into another layout."""
        return all(own >= need for own, need in zip(self.capacity, other.capacity, strict=True))

    def larger(self, factor: float, multiple: int = 8) -> Layout:
        """A layout with more room for every degree that occurs."""
        return Layout(self.degrees, tuple(math.ceil(factor * n / multiple) * multiple for n in self.capacity))

    def joined(self, other: Layout) -> Layout:
        """A layout that holds what fits into either."""
        return Layout(self.degrees, tuple(map(max, self.capacity, other.capacity)))

    @property
    def num_nodes(self) -> int:
        """The rows of a padded batch."""
        return sum(self.capacity)

    @property
    def num_arcs(self) -> int:
        """The arcs of a padded batch."""
        return sum(d * n for d, n in zip(self.degrees, self.capacity, strict=True))

    @property
    def block_sizes(self) -> dict[int, int]:
        """What the line graph of a padded batch says of its blocks."""
        return {d: n for d, n in zip(self.degrees, self.capacity, strict=True) if d > 0 and n > 0}


def undirected_line_graph(edge_index: Tensor, num_nodes: int) -> EulerianLineGraph:
    """The line graph of edges that are listed once in either direction, as replicas need them."""
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    num_listed, num_different = edge_index.size(1), (edge_index[0] * num_nodes + edge_index[1]).unique().numel()
    if not line_graph.num_arcs == num_listed == num_different:
        raise ValueError(
            f"'--replicas' must be left out unless every edge is listed once in either direction (got {num_listed} columns, of which "
            f"{num_different} differ, that make {line_graph.num_arcs} arcs)"
        )
    return line_graph


class PaddedStore:
    """Holds undirected graphs on a device and assembles padded batches of them there, without waiting for the device.

    Args:
        graphs: The graphs, with ``x``, ``edge_index`` and ``y``, and perhaps ``edge_attr``, ``edge_weight`` and ``edge_type``.
        device: Where the tensors lie.
    """

    EDGE_KEYS = ("edge_attr", "edge_weight", "edge_type")

    def __init__(self, graphs: Sequence[Data], device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        num_nodes = torch.tensor([graph.num_nodes for graph in graphs])
        first = num_nodes.cumsum(0) - num_nodes
        edge_index = torch.cat([graph.edge_index + offset for graph, offset in zip(graphs, first.tolist(), strict=True)], dim=1)
        total = int(num_nodes.sum())
        line_graph = undirected_line_graph(edge_index, total)
        graph_of = torch.repeat_interleave(torch.arange(len(graphs)), num_nodes)
        degree = line_graph.arcs[0].bincount(minlength=total)
        degrees, kind = degree.unique(return_inverse=True)
        num_kinds = degrees.numel()
        self.degrees = tuple(degrees.tolist())
        node_order = (graph_of * num_kinds + kind).argsort(stable=True)  # by graph, then degree
        place = _inverse(node_order)
        group = (graph_of * num_kinds + kind).bincount(minlength=len(graphs) * num_kinds)
        group_start = (group.cumsum(0) - group).view(len(graphs), num_kinds)
        self.counts = group.view(len(graphs), num_kinds)  # stays on the host, where shapes are decided
        self._counts = self.counts.numpy()
        arc_order = place[line_graph.arcs[0]].argsort(stable=True)  # in the order of their sources
        source, target = place[line_graph.arcs[:, arc_order]]
        reverse = _inverse(arc_order)[line_graph.reverse[arc_order]]
        sorted_degree = degree[node_order]
        first_arc = sorted_degree.cumsum(0) - sorted_degree
        target_kind = kind[node_order][target]
        tables = {
            "x": torch.cat([graph.x for graph in graphs])[node_order],
            "y": torch.cat([graph.y for graph in graphs]),
            "counts": self.counts,
            "group_start": group_start,
            "first_arc": first_arc,
            "target_kind": target_kind,
            "target_rank": target - group_start[graph_of[node_order][target], target_kind],
            "reverse_port": reverse - first_arc[source[reverse]],
        }
        self._tables = {key: value.to(self.device) for key, value in tables.items()}
        self._edges: dict[str, Tensor] = {}
        for key in self.EDGE_KEYS:
            if key in graphs[0]:
                value = line_graph.arc_attr(torch.cat([graph[key] for graph in graphs]))
                self._edges[key] = value[arc_order].to(self.device)
        self._degree = degrees.to(self.device)
        self._layouts: dict[Layout, tuple[Tensor, ...]] = {}

    def layout(self, index: Tensor, multiple: int = 8) -> Layout:
        """The smallest layout for some batches, rounded up.

        Args:
            index: Numbers of graphs, on the host; the last dimension is a batch.
            multiple: What to round the room of every degree up to.
        """
        room = self._counts[index.numpy()].sum(-2).reshape(-1, len(self.degrees)).max(0)
        return Layout(self.degrees, tuple((-(-room // multiple) * multiple).tolist()))

    def chunks(self, index: Tensor, size: int) -> list[Tensor]:
        """Divides the last dimension of an index into batches."""
        return list(index.split(size, dim=-1))

    def targets(self, index: Tensor) -> Tensor:
        """The answers that are asked for."""
        return self._tables["y"][index.to(self.device)]

    def batch(self, index: Tensor, layout: Layout) -> PaddedBatch:
        """Assembles the graphs with these numbers.

        Args:
            index: One batch of graphs for each replica, on the device.
            layout: Room for all of them.

        Shapes:
            - **index:** :math:`(R, B)`
        """
        tables, device = self._tables, self.device
        num_replicas, batch_size = index.shape
        num_kinds, num_nodes = len(layout.degrees), layout.num_nodes
        capacity, node_start, arc_start, owner, port = self._static(layout)
        counts = tables["counts"][index].transpose(1, 2)  # [R, kinds, B]
        before = counts.cumsum(-1) - counts
        spare = capacity - counts.sum(-1)
        lengths = torch.cat([counts, spare.unsqueeze(-1)], dim=-1).flatten()  # a last segment of every kind is padding
        segment = torch.repeat_interleave(
            torch.arange(lengths.numel(), device=device), lengths, output_size=num_replicas * num_nodes
        ).view(num_replicas, num_nodes)
        slot, kind = segment % (batch_size + 1), segment // (batch_size + 1) % num_kinds
        mask = slot < batch_size
        slot = torch.where(mask, slot, torch.arange(num_nodes, device=device) % batch_size)
        replica = torch.arange(num_replicas, device=device).unsqueeze(-1)
        position = torch.arange(num_nodes, device=device)
        rank = position - node_start[kind] - before[replica, kind, slot]
        graph = index.gather(1, slot)
        node = torch.where(mask, tables["group_start"][graph, kind] + rank, 0)
        x = tables["x"][node] * mask.unsqueeze(-1).to(tables["x"].dtype)

        real = mask[:, owner]
        arc = torch.where(real, tables["first_arc"][node[:, owner]] + port, 0)
        to_kind = tables["target_kind"][arc]
        to_rank = tables["target_rank"][arc] + before[replica, to_kind, slot[:, owner]]
        target = torch.where(real, node_start[to_kind] + to_rank, owner)
        reverse = arc_start[to_kind] + to_rank * self._degree[to_kind] + tables["reverse_port"][arc]
        reverse = torch.where(real, reverse, torch.arange(owner.numel(), device=device))
        return PaddedBatch(
            x=x,
            arcs=torch.stack([owner.expand_as(target), target], dim=1),
            reverse=reverse,
            batch=slot,
            mask=mask,
            y=tables["y"][index],
            edges={key: value[arc] for key, value in self._edges.items()},
            block_sizes=layout.block_sizes,
        )

    def _static(self, layout: Layout) -> tuple[Tensor, ...]:
        """What the layout alone decides: the room for every degree, where its vertices and its arcs begin, and for every arc its vertex
        and its place there."""
        if layout not in self._layouts:
            degree, capacity = self._degree.cpu(), torch.tensor(layout.capacity)
            per_node = torch.repeat_interleave(degree, capacity)
            owner = torch.repeat_interleave(torch.arange(layout.num_nodes), per_node)
            first = per_node.cumsum(0) - per_node
            sizes = degree * capacity
            static = capacity, _before(capacity), _before(sizes), owner, torch.arange(owner.numel()) - first[owner]
            self._layouts[layout] = tuple(tensor.to(self.device) for tensor in static)
        return self._layouts[layout]


def _before(sizes: Tensor) -> Tensor:
    return sizes.cumsum(0) - sizes


def _inverse(order: Tensor) -> Tensor:
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.numel())
    return inverse
