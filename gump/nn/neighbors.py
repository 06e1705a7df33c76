"""Sums over the neighbors of vertices where there is a kernel for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gump.kernels import runs_kernels
from gump.line_graph import EulerianLineGraph


@dataclass(frozen=True, eq=False)
class Neighbors:
    r"""The adjacency matrix of an undirected graph as a kernel multiplies with it, :math:`\mathbf{S} (\mathbf{A} + \mathbf{O}) \mathbf{S}` with
    two diagonal matrices that are constants. It may stand where PyG's convolutions have their ``edge_index``, if they propagate by
    :func:`gump.nn.normalized_adjacency.propagate_by_rows`.

    Args:
        line_graph: The edges.
        scale: The diagonal of :math:`\mathbf{S}`, by default one.
        own: The diagonal of :math:`\mathbf{O}`, by default zero.

    Shapes:
        - **scale, own:** :math:`(N)`
        - **input:** :math:`(N, F)`
        - **output:** :math:`(N, F)`
    """

    line_graph: EulerianLineGraph
    scale: Tensor | None = None
    own: Tensor | None = None

    @staticmethod
    def are_summed(x: Tensor, edge_index: Tensor, line_graph: EulerianLineGraph | None) -> bool:
        """Whether a kernel can take the place of ``edge_index``: whether there is one for such features, and the edges are the line graph's arcs
        themselves, among which every one has its reverse."""
        if line_graph is None or not runs_kernels(x) or torch.is_autocast_enabled("cuda"):
            return False
        return line_graph.arcs is edge_index and line_graph.num_nodes == x.size(0)

    def normalized(self, dtype: torch.dtype) -> Neighbors:
        """The matrix of a GCN, as :func:`gump.nn.normalized_adjacency.normalized_adjacency` has it without weights: every vertex has one self-loop,
        however many there were."""
        source, target = self.line_graph.arcs
        zeros, other = torch.zeros(self.line_graph.num_nodes, dtype=dtype, device=source.device), (source != target).to(dtype)
        num_others, num_loops = (zeros.scatter_add(0, source, counted) for counted in (other, 1 - other))
        return replace(self, scale=(num_others + 1).rsqrt(), own=1 - num_loops)

    def with_own(self, share: Tensor) -> Neighbors:
        r"""The matrix with the same number everywhere on the diagonal :math:`\mathbf{O}`."""
        return replace(self, own=share.expand(self.line_graph.num_nodes))

    def __call__(self, x: Tensor) -> Tensor:
        """Multiplies."""
        from gump.kernels.neighbor_sum import neighbor_sum

        return neighbor_sum(x, self.line_graph.arcs, tuple(self.line_graph.block_sizes.items()), self.scale, self.own)
