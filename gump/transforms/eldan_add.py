"""Rewiring by a condition under which an edge lowers the spectral gap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.linalg.fiedler import best_pair, flip_edges
from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("eldan_add")
class EldanAdd(BaseTransform):
    r"""Adds edges one at a time, each where a proven warning that the spectral gap would fall is farthest from being given.

    `Eldan, Rácz and Schramm <https://arxiv.org/abs/1504.07669>`_ show when a new edge lowers the gap. With the second eigenpair
    :math:`(\lambda, \mathbf{f})` of :math:`\mathbf{I} - \mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2}`, the degrees :math:`d` before
    and the first eigenvector :math:`\hat{\mathbf{f}}_0 \propto \sqrt{\hat{\mathbf{d}}}` after the edge is added, let

    .. math::
        g(u, v) = -P^2 \lambda - 2 (1 - \lambda) \left( \frac{\sqrt{d_u + 1} - \sqrt{d_u}}{\sqrt{d_u + 1}} f_u^2
        + \frac{\sqrt{d_v + 1} - \sqrt{d_v}}{\sqrt{d_v + 1}} f_v^2 \right) + \frac{2 f_u f_v}{\sqrt{d_u + 1}\sqrt{d_v + 1}},
        \quad P = \langle \mathbf{f}, \hat{\mathbf{f}}_0 \rangle.

    If :math:`g(u, v) > 0`, the edge lowers the gap. The reason: :math:`g = (1 - P^2)(\lambda - \hat{R})` with the Rayleigh quotient
    :math:`\hat{R}`, in the new graph, of :math:`\mathbf{f}` without its part along :math:`\hat{\mathbf{f}}_0`, and :math:`\hat{R}`
    is never below the new gap. A negative :math:`g` promises nothing: it leaves the gap room to grow.

    `"Spectral Graph Pruning Against Over-Squashing and Over-Smoothing" <https://arxiv.org/abs/2404.04612>`_ calls ELDANADD the rule
    that adds :math:`\arg\min_{\{u, v\} \notin E} g(u, v)`, computed anew after every edge. There is no public code for it: this is our
    reading of that paper's lemma 3.1 and algorithm 3. The algorithm writes :math:`P^2` for the inner product itself; we square it,
    as the lemma and the proof do.

    The best edge is added even where :math:`g` is positive. In a disconnected graph edges are added within the component of the
    smallest gap, never between two. Where every component is complete, nothing is left to add. On a graph with symmetries the second
    eigenvector is not unique or values are equal; then the result follows the order of the vertices.

    The graph must be undirected. Edges of the input keep their attributes, added edges have zeros. Works with dense matrices.

    Args:
        num_edges: The number of edges to add, at most.
        seed: Chooses among the eigenvectors of a repeated eigenvalue.
        relation: Whether to add ``edge_type``, zero for edges of the input and one for added ones.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
        >>> EldanAdd(num_edges=1)(path).edge_index.tolist()  # the path closes to a ring
        [[0, 0, 1, 1, 2, 2, 3, 3], [1, 3, 0, 2, 1, 3, 0, 2]]
    """

    def __init__(self, num_edges: int = 10, seed: int = 0, relation: bool = False) -> None:
        if num_edges < 0:
            raise ValueError(f"'num_edges' must not be negative (got {num_edges})")
        self.num_edges, self.seed, self.relation = num_edges, seed, relation

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        adjacency = flip_edges(to_adjacency(data), self.num_edges, _choose, self.seed)
        return with_adjacency(data, adjacency, self.relation)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_edges={self.num_edges}, seed={self.seed}, relation={self.relation})"


def eldan_criterion(gap: float, vector: NDArray[np.float64], degree: NDArray[np.float64]) -> NDArray[np.float64]:
    """Computes :math:`g(u, v)` for all pairs of vertices of a connected graph; it means something where they are not joined.

    Args:
        gap: The second eigenvalue of the normalized Laplacian.
        vector: Its eigenvector, of norm one.
        degree: The degrees.

    Shapes:
        - **vector, degree:** :math:`(n)`
        - **output:** :math:`(n, n)`
    """
    root, next_root = np.sqrt(degree), np.sqrt(degree + 1)
    shift = vector * (next_root - root)  # the vector is orthogonal to the roots, so only their change counts
    projection = (shift[:, None] + shift) / np.sqrt(degree.sum() + 2)
    loss, product = vector * shift / next_root, vector / next_root
    change: NDArray[np.float64] = 2 * product[:, None] * product - 2 * (1 - gap) * (loss[:, None] + loss)
    return change - projection**2 * gap


def _choose(gap: float, vector: NDArray[np.float64], adjacency: NDArray[np.bool_]) -> tuple[int, int] | None:
    return best_pair(-eldan_criterion(gap, vector, adjacency.sum(1)), ~adjacency)
