"""Rewiring for a larger spectral gap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("fosr")
class FoSR(BaseTransform):
    r"""Adds edges across the sparsest cut of a graph, one at a time, so that its spectral gap grows.

    From `"FoSR: First-order spectral rewiring for addressing oversquashing in GNNs" <https://arxiv.org/abs/2210.11790>`_. A vector
    :math:`\mathbf{x}` follows the second eigenvector of :math:`\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}` by power iteration,

    .. math::
        \mathbf{x} \gets \mathbf{x} - \frac{\langle \mathbf{x}, \sqrt{\mathbf{d}} \rangle}{\sum_v d_v} \sqrt{\mathbf{d}}, \qquad
        \mathbf{x} \gets \frac{\mathbf{x} + \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2} \mathbf{x}}{\lVert \cdot \rVert},

    some times at the start and once after every edge. The edge that is added minimizes
    :math:`x_u x_v / \sqrt{(1 + d_u)(1 + d_v)}`, the term of first order by which the second eigenvalue changes. Edges may join
    components, whose gap is zero. A vertex without edges is a component of its own: its row of the matrix is that of the identity.

    Nothing is taken away: edges of the input keep their attributes, added edges have zeros. The graph must be undirected. Where it
    is complete, nothing is left to add. An edge need not raise the gap, since the vector is only close to the eigenvector and the
    term only the first; a bottleneck it does widen.

    The start of the iteration is random, so the result follows the numbering of the vertices. It is equivariant where many
    iterations reach a second eigenvector without ties. The seed fixes it, for each graph alone.

    Args:
        num_iterations: The number of edges to add.
        initial_power_iterations: The number of steps before the first edge.
        seed: The seed of the first vector.
        relation: Whether to add ``edge_type``, zero for edges of the input and one for added ones.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> FoSR(num_iterations=1)(path).edge_index.tolist()
        [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    """

    def __init__(self, num_iterations: int = 10, initial_power_iterations: int = 5, seed: int = 0, relation: bool = False) -> None:
        if num_iterations < 0 or initial_power_iterations < 0:
            raise ValueError(
                "'num_iterations' and 'initial_power_iterations' must not be negative "
                f"(got {num_iterations} and {initial_power_iterations})"
            )
        self.num_iterations, self.initial_power_iterations = num_iterations, initial_power_iterations
        self.seed, self.relation = seed, relation

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        adjacency = to_adjacency(data)
        weights = adjacency.astype(np.float64)
        taken = adjacency | np.eye(len(adjacency), dtype=bool)
        x = np.random.default_rng(self.seed).uniform(-1, 1, len(adjacency))
        for _ in range(self.initial_power_iterations):
            x = _power_step(weights, x)
        for _ in range(self.num_iterations):
            if taken.all():
                break
            y = x / np.sqrt(1 + weights.sum(1))
            u, v = divmod(int(np.where(taken, np.inf, y[:, None] * y).argmin()), len(y))
            for matrix in (weights, taken):
                matrix[u, v] = matrix[v, u] = 1
            x = _power_step(weights, x)
        return with_adjacency(data, weights > 0, self.relation)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_iterations={self.num_iterations}, "
            f"initial_power_iterations={self.initial_power_iterations}, seed={self.seed}, relation={self.relation})"
        )


def _power_step(weights: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    degree = weights.sum(1)
    root = np.sqrt(degree)
    x = x - (x @ root) / max(degree.sum(), 1.0) * root
    scale = np.where(degree > 0, root, 1)
    x = x + np.where(degree > 0, weights @ (x / scale) / scale, x)
    return x / max(float(np.linalg.norm(x)), 1e-300)  # two joined vertices leave nothing
