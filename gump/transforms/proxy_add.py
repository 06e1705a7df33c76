"""Rewiring that adds the edges which seem to raise the spectral gap most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.linalg.fiedler import best_pair, flip_edges, gap_change
from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("proxy_add")
class ProxyAdd(BaseTransform):
    r"""Adds edges one at a time, each where an estimate says that the spectral gap grows most.

    From `"Spectral Graph Pruning Against Over-Squashing and Over-Smoothing" <https://arxiv.org/abs/2404.04612>`_. With the second
    eigenpair :math:`(\lambda, \mathbf{f})` of :math:`\mathbf{I} - \mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2}`, computed anew after
    every edge, the next one is

    .. math::
        \arg\max_{\{u, v\} \notin E} \; (f_u - f_v)^2 - \lambda (f_u^2 + f_v^2).

    This is equation (1) of the paper, and gives the numbers of its table 6. The derivative of :math:`\lambda` by the weight of the
    edge is the same expression with :math:`f_u / \sqrt{d_u}` in the place of :math:`f_u`, the eigenvector of the random-walk
    Laplacian; ``normalization="rw"`` asks for that. On a regular graph both choose the same edge.

    The best edge is added even if its estimate is negative, and an edge need not raise the gap, since the estimate is for an edge of
    small weight. In a disconnected graph the gap is the smallest of those of the components: edges are added within the slowest
    component, never between two. Where every component is complete, nothing is left to add. On a graph with symmetries the second
    eigenvector is not unique or scores are equal; then the result follows the order of the vertices.

    The graph must be undirected. Edges of the input keep their attributes, added edges have zeros. Works with dense matrices.

    Args:
        num_edges: The number of edges to add, at most.
        normalization: Whose eigenvector to use: that of the symmetric Laplacian (``"sym"``), as the paper has it, or that of the
            random-walk Laplacian (``"rw"``), which makes the estimate a derivative.
        seed: Chooses among the eigenvectors of a repeated eigenvalue.
        relation: Whether to add ``edge_type``, zero for edges of the input and one for added ones.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
        >>> ProxyAdd(num_edges=1)(path).edge_index.tolist()  # the path closes to a ring
        [[0, 0, 1, 1, 2, 2, 3, 3], [1, 3, 0, 2, 1, 3, 0, 2]]
    """

    def __init__(self, num_edges: int = 10, normalization: str = "sym", seed: int = 0, relation: bool = False) -> None:
        if num_edges < 0:
            raise ValueError(f"'num_edges' must not be negative (got {num_edges})")
        if normalization not in ("sym", "rw"):
            raise ValueError(f"'normalization' must be 'sym' or 'rw' (got {normalization!r})")
        self.num_edges, self.normalization, self.seed, self.relation = num_edges, normalization, seed, relation

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        adjacency = flip_edges(to_adjacency(data), self.num_edges, self._choose, self.seed)
        return with_adjacency(data, adjacency, self.relation)

    def _choose(self, gap: float, vector: NDArray[np.float64], adjacency: NDArray[np.bool_]) -> tuple[int, int] | None:
        if self.normalization == "rw":
            vector = vector / np.sqrt(adjacency.sum(1))
        return best_pair(gap_change(gap, vector), ~adjacency)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_edges={self.num_edges}, normalization={self.normalization!r}, "
            f"seed={self.seed}, relation={self.relation})"
        )
