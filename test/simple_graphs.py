"""Undirected graphs without self-loops, and what tests read off them."""

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected


def simple_graph(edges: Tensor, num_nodes: int) -> Data:
    """Every edge once in either orientation, sorted."""
    edges = edges[:, edges[0] != edges[1]]
    return Data(edge_index=to_undirected(edges, num_nodes=num_nodes), num_nodes=num_nodes)


def random_connected(seed: int, num_nodes: int = 11, num_extra: int = 6) -> Data:
    """A random tree with some more edges."""
    tree, extra = nx.random_labeled_tree(num_nodes, seed=seed), nx.gnm_random_graph(num_nodes, num_extra, seed=seed)
    return simple_graph(torch.tensor(list(nx.compose(tree, extra).edges)).t(), num_nodes)


def renumbered(data: Data, order: Tensor) -> Data:
    """The same graph, in which vertex ``v`` is called ``order[v]``."""
    return Data(edge_index=order[data.edge_index], num_nodes=data.num_nodes)


def to_matrix(data: Data) -> NDArray[np.float64]:
    result = np.zeros((data.num_nodes, data.num_nodes))
    result[tuple(data.edge_index.numpy())] = 1
    return result


def edge_set(data: Data) -> set[frozenset[int]]:
    return {frozenset(edge) for edge in data.edge_index.t().tolist()}
