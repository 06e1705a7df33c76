"""Rewiring that stays local: a few edges at distance two, a few at distance three, and so on."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("laser")
class LASER(BaseTransform):
    r"""Joins every vertex to a fraction of those at distance two, three and so on, namely to those that few walks reach.

    From `"Locality-Aware Graph-Rewiring in GNNs" <https://arxiv.org/abs/2310.01668>`_. The connectivity of two vertices is the number
    of walks of length :math:`k` between them that may rest,

    .. math::
        \mu(u, v) = \big( (\mathbf{A} + \mathbf{I})^k \big)_{uv}.

    In snapshot :math:`r = 2, \dots, R` every vertex :math:`v` picks from its :math:`n_r(v)` vertices at shortest-path distance exactly
    :math:`r` in the input the :math:`\max(1, \mathrm{round}(\rho\, n_r(v)))` with the smallest :math:`\mu`; halves are rounded to the
    even number. An edge is added where either end has picked the other, in both directions. Equal :math:`\mu` are ordered at random,
    by a generator that starts anew for each graph: up to those ties the result is permutation-equivariant. With :math:`k < r` all
    :math:`\mu` are zero and the choice is random alone.

    The snapshots are put into one graph. A model that treats them apart, as the paper's does, reads them off ``edge_type``.

    The graph must be undirected. Edges of the input keep their attributes, added edges have zeros. Components stay apart. Works with
    dense matrices.

    Args:
        num_snapshots: The number of snapshots :math:`R`, the largest distance at which edges are added. The first is the input.
        density: The fraction :math:`\rho` of the vertices at one distance that a vertex picks.
        walk_length: The length :math:`k` of the walks that are counted.
        seed: The seed of the order among equals.
        relation: Whether to add ``edge_type``, zero for edges of the input and :math:`r - 1` for those of snapshot :math:`r`.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
        >>> rewired = LASER(num_snapshots=3, relation=True)(path)
        >>> rewired.edge_index.tolist()
        [[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]]
        >>> rewired.edge_type.tolist()
        [0, 1, 2, 0, 0, 1, 1, 0, 0, 2, 1, 0]
    """

    def __init__(
        self, num_snapshots: int = 3, density: float = 0.5, walk_length: int = 8, seed: int = 0, relation: bool = False
    ) -> None:
        if num_snapshots < 1:
            raise ValueError(f"'num_snapshots' must be at least 1, the input (got {num_snapshots})")
        if not 0 < density <= 1:
            raise ValueError(f"'density' must be above 0 and at most 1 (got {density})")
        if walk_length < 1:
            raise ValueError(f"'walk_length' must be at least 1 (got {walk_length})")
        self.num_snapshots, self.density, self.walk_length = num_snapshots, density, walk_length
        self.seed, self.relation = seed, relation

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        adjacency = to_adjacency(data)
        distance = dijkstra(csr_array(adjacency, dtype=np.float64), unweighted=True, limit=self.num_snapshots)
        walks = np.linalg.matrix_power(adjacency + np.eye(len(adjacency)), self.walk_length)
        chance = np.random.default_rng(self.seed).random(adjacency.shape)
        kinds = np.where(adjacency, 0, -1)
        for snapshot in range(2, self.num_snapshots + 1):
            picked = self._pick(distance == snapshot, walks, chance)
            kinds[picked | picked.T] = snapshot - 1
        data = with_adjacency(data, kinds >= 0, self.relation)
        if self.relation:  # a self-loop is an edge of the input
            source, target = data.edge_index.cpu().numpy()
            data.edge_type = torch.from_numpy(kinds[source, target]).clamp(min=0).to(data.edge_index.device)
        return data

    def _pick(self, orbit: NDArray[np.bool_], walks: NDArray[np.float64], chance: NDArray[np.float64]) -> NDArray[np.bool_]:
        """In every row, the part of the orbit that the fewest walks reach."""
        size = orbit.sum(1)
        order = np.lexsort((chance, np.where(orbit, walks, np.inf)), axis=1)
        picked = np.zeros_like(orbit)
        chosen = np.arange(orbit.shape[1]) < np.where(size, np.maximum(1, np.rint(self.density * size)), 0)[:, None]
        np.put_along_axis(picked, order, chosen, axis=1)
        return picked

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_snapshots={self.num_snapshots}, density={self.density}, walk_length={self.walk_length}, "
            f"seed={self.seed}, relation={self.relation})"
        )
