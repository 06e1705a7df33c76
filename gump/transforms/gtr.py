"""Rewiring for a smaller total resistance."""

from __future__ import annotations

import numpy as np
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.linalg.spectrum import laplacian_pseudo_inverse, same_component
from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("gtr")
class GTR(BaseTransform):
    r"""Adds the edges that lower the total effective resistance of a graph most, one at a time.

    From `"Understanding Oversquashing in GNNs through the Lens of Effective Resistance" <https://arxiv.org/abs/2302.06835>`_. With
    the pseudo-inverse :math:`\mathbf{L}^{+}` of the Laplacian and :math:`\mathbf{b}_{uv} = \mathbf{e}_u - \mathbf{e}_v`, an edge
    :math:`(u, v)` lowers the total resistance of the :math:`n` vertices of its component by

    .. math::
        n \, \frac{B_{uv}^2}{1 + R_{uv}}, \qquad R_{uv} = \mathbf{b}_{uv}^{\top} \mathbf{L}^{+} \mathbf{b}_{uv}, \quad
        B_{uv}^2 = \mathbf{b}_{uv}^{\top} (\mathbf{L}^{+})^2 \, \mathbf{b}_{uv},

    exactly. After each edge :math:`\mathbf{L}^{+}` and its square are corrected by Woodbury's identity, in float64.

    Edges stay within components, since a resistance between components is infinite. The factor :math:`n` matters only where there
    are several; the paper speaks of one. Nothing is taken away: edges of the input keep their attributes, added edges have zeros.
    The graph must be undirected. Where all components are complete, nothing is left to add.

    Nothing is random. Among equally good edges (to nine digits) the first by its vertices is added, so the result is equivariant on
    graphs without such ties; with them it depends on the numbering, and only the resistance after the first edge does not.

    Args:
        num_edges: The number of edges to add.
        relation: Whether to add ``edge_type``, zero for edges of the input and one for added ones.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
        >>> GTR(num_edges=1, relation=True)(path).edge_type.tolist()  # the ring: 0 - 3 is new
        [0, 1, 0, 0, 0, 0, 1, 0]
    """

    def __init__(self, num_edges: int = 10, relation: bool = False) -> None:
        if num_edges < 0:
            raise ValueError(f"'num_edges' must not be negative (got {num_edges})")
        self.num_edges, self.relation = num_edges, relation

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        adjacency = to_adjacency(data)
        together = same_component(adjacency)
        free = together & ~adjacency & ~np.eye(len(adjacency), dtype=bool)
        size = together.sum(1)
        inverse = laplacian_pseudo_inverse(adjacency)
        square = inverse @ inverse
        for _ in range(self.num_edges):
            if not free.any():
                break
            resistance, biharmonic = (m.diagonal()[:, None] + m.diagonal() - 2 * m for m in (inverse, square))
            gain = np.where(free, size * biharmonic / (1 + resistance), 0)
            u, v = divmod(int((gain >= gain.max() * (1 - 1e-9)).argmax()), len(gain))
            adjacency[u, v] = adjacency[v, u] = True
            free[u, v] = free[v, u] = False
            change, rest = inverse[u] - inverse[v], 1 + resistance[u, v]  # the correction is their outer product over the rest
            turned = np.outer(inverse @ change, change)
            square = square - (turned + turned.T) / rest + (change @ change / rest**2) * np.outer(change, change)
            inverse = inverse - np.outer(change, change) / rest
        return with_adjacency(data, adjacency, self.relation)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_edges={self.num_edges}, relation={self.relation})"
