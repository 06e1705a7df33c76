"""One graph for many runs at once, which are asked about its vertices."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from gump.experiment.padded import Layout, PaddedBatch, PaddedStore, undirected_line_graph


class VertexStore:
    """Holds one undirected graph on a device; a batch is the whole graph with some of its vertices as questions.

    It stands where :class:`gump.experiment.padded.PaddedStore` stands for many graphs. All replicas read the same memory, nothing is padded,
    and there is but one layout.

    Args:
        graph: The graph, with ``x``, ``edge_index`` and ``y``, and perhaps ``edge_attr``, ``edge_weight`` and ``edge_type``.
        device: Where the tensors lie.
    """

    degrees: tuple[int, ...] = ()

    def __init__(self, graph: Data, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        line_graph = undirected_line_graph(graph.edge_index, int(graph.num_nodes or 0))
        self._block_sizes = line_graph.block_sizes
        tables = {"x": graph.x, "y": graph.y, "arcs": line_graph.arcs, "reverse": line_graph.reverse}
        self._tables = {key: value.to(self.device) for key, value in tables.items()}
        found = {key: line_graph.arc_attr(graph[key]) for key in PaddedStore.EDGE_KEYS if key in graph}
        self._edges = {key: value.to(self.device) for key, value in found.items()}

    def layout(self, index: Tensor) -> Layout:
        """The only one."""
        return Layout((), ())

    def chunks(self, index: Tensor, size: int) -> list[Tensor]:
        """All vertices at once, since every batch takes the whole graph."""
        return [index]

    def targets(self, index: Tensor) -> Tensor:
        """The answers that are asked for."""
        return self._tables["y"][index.to(self.device)]

    def batch(self, index: Tensor, layout: Layout) -> PaddedBatch:
        """The graph with some vertices as questions.

        Args:
            index: The vertices that each replica is asked about, on the device.
            layout: The only one.

        Shapes:
            - **index:** :math:`(R, B)`
        """
        num_replicas, num_nodes = index.size(0), self._tables["x"].size(0)
        shared = {key: self._tables[key].expand(num_replicas, *self._tables[key].shape) for key in ("x", "arcs", "reverse")}
        return PaddedBatch(
            **shared,
            batch=index.new_zeros(num_replicas, num_nodes),
            mask=torch.ones(num_replicas, num_nodes, dtype=torch.bool, device=self.device),
            y=self._tables["y"][index],
            edges={key: value.expand(num_replicas, *value.shape) for key, value in self._edges.items()},
            block_sizes=self._block_sizes,
            answers=index,
        )
