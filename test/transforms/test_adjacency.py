"""A graph as a matrix and back. What all rewirings make of it is tested over all of them, in test_every_rewiring.py."""

import warnings

import numpy as np
import torch
from graphs import random_graph
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.transforms.adjacency import to_adjacency, with_adjacency


def numbered(edge_index, num_nodes):
    edge_index = to_undirected(edge_index, num_nodes=num_nodes)
    return Data(edge_index=edge_index, edge_attr=torch.arange(1, edge_index.size(1) + 1), num_nodes=num_nodes)


def test_a_matrix_there_and_back():
    for seed in range(5):
        data = numbered(*random_graph(seed))
        same = with_adjacency(data.clone(), to_adjacency(data))
        assert torch.equal(same.edge_index, data.edge_index)
        assert torch.equal(same.edge_attr, data.edge_attr)
        assert not to_adjacency(data).diagonal().any()


def test_by_hand():
    triangle_with_loop = numbered(torch.tensor([[0, 1, 0, 2], [1, 2, 2, 2]]), 4)
    assert to_adjacency(triangle_with_loop).astype(int).tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    star = np.array([[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0]], dtype=bool)
    data = with_adjacency(triangle_with_loop.clone(), star, relation=True)
    assert data.edge_index.tolist() == [[0, 1, 2, 2, 3, 3, 3], [3, 3, 2, 3, 0, 1, 2]]
    assert data.edge_attr.tolist() == [0, 0, 7, 0, 0, 0, 0]
    assert data.edge_type.tolist() == [1, 1, 0, 1, 1, 1, 1]
    without = with_adjacency(triangle_with_loop.clone(), star, keep_loops=False)
    assert without.edge_index.tolist() == [[0, 1, 2, 3, 3, 3], [3, 3, 3, 0, 1, 2]]


def test_a_vertex_that_loses_its_last_edge_stays():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]))
    with warnings.catch_warnings(action="ignore"):  # PyG guesses how many there are
        assert with_adjacency(data, np.zeros((2, 2), dtype=bool)).num_nodes == 2
