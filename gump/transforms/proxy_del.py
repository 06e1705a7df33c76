"""Rewiring that deletes the edges which seem to hold the spectral gap down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.linalg.fiedler import best_pair, flip_edges, gap_change
from gump.linalg.spectrum import effective_resistance
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
        return with_adjacency(data, flip_edges(to_adjacency(data), self.num_edges, self._choose, self.seed))

    def _choose(self, gap: float, vector: NDArray[np.float64], adjacency: NDArray[np.bool_]) -> tuple[int, int] | None:
        if self.normalization == "rw":
            vector = vector / np.sqrt(adjacency.sum(1))
        scores = -gap_change(gap, vector)
        # A unit current between the ends of a bridge has no other way; on a cycle some of it goes around, at least 1 / n.
        bridges = len(adjacency) * (1 - effective_resistance(adjacency)) < 0.5
        return best_pair(scores, adjacency & (scores > 1e-12) & ~bridges)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_edges={self.num_edges}, normalization={self.normalization!r}, seed={self.seed})"
