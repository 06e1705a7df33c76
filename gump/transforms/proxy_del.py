"""Rewiring that deletes the edges which seem to hold the spectral gap down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.linalg.fiedler import best_pair, fiedler_pair, gap_change
from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("proxy_del")
class ProxyDel(BaseTransform):
    r"""Deletes edges one at a time, each where an estimate says that the spectral gap grows most without it.

    That fewer edges can mean a larger gap is Braess's paradox: an edge within one half of a barbell only adds weight there. From
    `"Spectral Graph Pruning Against Over-Squashing and Over-Smoothing" <https://arxiv.org/abs/2404.04612>`_ (ProxyDelete). With the
    second eigenpair :math:`(\lambda, \mathbf{f})` of :math:`\mathbf{I} - \mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2}`, computed anew
    after every edge, the next one is

    .. math::
        \arg\max_{\{u, v\} \in E} \; \lambda (f_u^2 + f_v^2) - (f_u - f_v)^2,

    and must be positive: the paper's algorithm goes on until its number of edges is reached, here it also ends where no deletion is
    estimated to help. Bridges stay, so that every component remains connected. See :class:`~gump.transforms.proxy_add.ProxyAdd` for
    ``normalization`` and for what happens to disconnected and to symmetric graphs.

    A tree stays as it is. A deletion need not raise the gap, since the estimate is for a small change of weight: in molecules many
    of the deletions open a ring, and on average the gap falls; ``normalization="rw"`` is wrong less often there.

    The graph must be undirected. The remaining edges keep their attributes. Works with dense matrices.

    Args:
        num_edges: The number of edges to delete, at most.
        normalization: Whose eigenvector to use: that of the symmetric Laplacian (``"sym"``), as the paper has it, or that of the
            random-walk Laplacian (``"rw"``), which makes the estimate a derivative.
        seed: Chooses among the eigenvectors of a repeated eigenvalue.

    Example:
        >>> triangle_on_a_path = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 2, 3, 4]])
        >>> both = torch.cat([triangle_on_a_path, triangle_on_a_path.flip(0)], dim=1)
        >>> ProxyDel(num_edges=1)(Data(edge_index=both, num_nodes=5)).edge_index.tolist()  # 0 - 1 only kept a walk from leaving
        [[0, 1, 2, 2, 2, 3, 3, 4], [2, 2, 0, 1, 3, 2, 4, 3]]
    """

    def __init__(self, num_edges: int = 10, normalization: str = "sym", seed: int = 0) -> None:
        if num_edges < 0:
            raise ValueError(f"'num_edges' must not be negative (got {num_edges})")
        if normalization not in ("sym", "rw"):
            raise ValueError(f"'normalization' must be 'sym' or 'rw' (got {normalization!r})")
        self.num_edges, self.normalization, self.seed = num_edges, normalization, seed

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        weights = to_adjacency(data).astype(np.float64)
        for _ in range(self.num_edges):
            gap, vector, vertices = fiedler_pair(weights, self.seed)
            if self.normalization == "rw":
                vector = vector / np.sqrt(weights.sum(1)[vertices])
            pair = _best_deletion(-gap_change(gap, vector), weights[np.ix_(vertices, vertices)])
            if pair is None:
                break
            u, v = vertices[list(pair)]
            weights[u, v] = weights[v, u] = 0
        return with_adjacency(data, weights > 0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_edges={self.num_edges}, normalization={self.normalization!r}, seed={self.seed})"


def _best_deletion(scores: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[int, int] | None:
    """The best edge with a positive score that is not a bridge; bridges are only looked for where they would be chosen."""
    inner = weights.sum(0) > 1  # an edge to a leaf is a bridge
    candidates = (weights > 0) & (scores > 1e-12) & inner & inner[:, None]
    while (pair := best_pair(scores, candidates)) is not None:
        without = weights.copy()
        for u, v in (pair, pair[::-1]):
            without[u, v] = candidates[u, v] = 0
        if connected_components(csr_array(without), directed=False)[0] == 1:
            break
    return pair
