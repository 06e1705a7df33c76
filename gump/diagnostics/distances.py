"""How far apart vertices are."""

from __future__ import annotations

import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from gump.diagnostics.adjacency import sparse_adjacency


def hop_distances(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Counts the edges on a shortest path between any two vertices; infinity where there is none.

    Args:
        edge_index: The edges, either orientation of which counts.
        num_nodes: The number of vertices.

    Shapes:
        - **output:** :math:`(N, N)`, in float64

    Example:
        >>> hop_distances(torch.tensor([[0], [1]]), num_nodes=3)
        tensor([[0., 1., inf],
                [1., 0., inf],
                [inf, inf, 0.]], dtype=torch.float64)
    """
    adjacency = sparse_adjacency(edge_index, num_nodes)
    if num_nodes == 0:
        return torch.zeros(0, 0, dtype=torch.float64)
    return torch.from_numpy(shortest_path(adjacency, method="D", directed=False, unweighted=True))
