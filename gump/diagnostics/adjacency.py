"""A graph as the sparse matrix that its measures read."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from torch import Tensor

from gump.line_graph import EulerianLineGraph


def sparse_adjacency(edge_index: Tensor, num_nodes: int | None = None) -> csr_array:
    """Reads the adjacency matrix of an undirected graph: zeros and ones, symmetric, without self-loops.

    Args:
        edge_index: The edges, in one orientation or both; one that is listed twice counts once, a self-loop not at all.
        num_nodes: The number of vertices; by default one more than the largest that occurs.

    Shapes:
        - **input:** :math:`(2, E)`
        - **output:** :math:`(n, n)`

    Example:
        >>> sparse_adjacency(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]])).toarray().astype(int).tolist()
        [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    line_graph = EulerianLineGraph.from_edge_index(edge_index.cpu(), num_nodes)
    source, target = line_graph.arcs.numpy()
    proper = source != target
    ends, size = (source[proper], target[proper]), (line_graph.num_nodes,) * 2
    return csr_array((np.ones(int(proper.sum())), ends), shape=size)
