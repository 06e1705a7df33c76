"""Expander edges beside those of the graph."""

import networkx as nx
import pytest
import torch
from graphs import clique, path, random_graph, ring
from torch_geometric.data import Batch, Data
from torch_geometric.utils import contains_self_loops, is_undirected

from gump.transforms.expander import AddExpander


def graph(edges, num_nodes):
    return Data(edge_index=edges, num_nodes=num_nodes)


def expander(data):
    network = nx.Graph()
    network.add_nodes_from(range(data.num_nodes))
    network.add_edges_from(data.expander_index.t().tolist())
    return network


@pytest.mark.parametrize("degree", [2, 4, 6])
@pytest.mark.parametrize("num_nodes", [8, 9, 30, 111])
def test_it_is_simple_symmetric_connected_and_of_the_degree_or_nearly(num_nodes, degree):
    data = AddExpander(degree)(graph(*path(num_nodes)))
    index = data.expander_index
    assert index.dtype == torch.long
    assert not contains_self_loops(index)
    assert is_undirected(index, num_nodes=num_nodes)
    assert index.unique(dim=1).size(1) == index.size(1)
    assert nx.is_connected(expander(data))
    degrees = index[0].bincount(minlength=num_nodes)
    assert degrees.max() <= degree
    assert degrees.min() >= 2
    assert degrees.sum() >= degree * num_nodes - 2 * degree**2  # of the edges of two cycles, about two are shared


def test_one_cycle_is_a_ring_through_all_vertices():
    network = expander(AddExpander(degree=2)(graph(*path(20))))
    assert nx.is_connected(network)
    assert {d for _, d in network.degree} == {2}


def test_it_expands_where_the_graph_does_not():
    data = AddExpander(degree=6)(graph(*ring(200)))
    gap = nx.normalized_laplacian_spectrum(expander(data))[1]
    assert gap > 0.2  # a random graph of degree 6 has about 1 - 2 * sqrt(5) / 6 = 0.25
    assert nx.diameter(expander(data)) <= 5


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 6, 7])
def test_few_vertices_are_all_joined(num_nodes):
    network = expander(AddExpander(degree=6)(graph(*path(num_nodes))))
    assert network.number_of_edges() == num_nodes * (num_nodes - 1) // 2
    assert not list(nx.selfloop_edges(network))


def test_a_graph_without_edges_and_one_without_vertices_are_legal():
    none = torch.empty(2, 0, dtype=torch.long)
    assert nx.is_connected(expander(AddExpander()(graph(none, 12))))
    assert AddExpander()(graph(none, 0)).expander_index.shape == (2, 0)
    assert AddExpander()(graph(none, 1)).expander_index.shape == (2, 0)


def test_the_graph_itself_stays_as_it_is():
    data = graph(*random_graph(0, num_nodes=20, num_edges=30))
    result = AddExpander()(data)
    assert torch.equal(result.edge_index, data.edge_index)
    assert "expander_index" not in data


def test_it_depends_on_the_seed_and_the_graph_but_not_on_columns_or_on_graphs_before():
    transform, data = AddExpander(degree=4), graph(*random_graph(1, num_nodes=20, num_edges=30))
    first = transform(data).expander_index
    transform(graph(*ring(20)))
    shuffled = data.edge_index[:, torch.randperm(30, generator=torch.Generator().manual_seed(0))]
    assert torch.equal(transform(data).expander_index, first)
    assert torch.equal(transform(graph(shuffled, 20)).expander_index, first)
    assert not torch.equal(AddExpander(degree=4, seed=1)(data).expander_index, first)
    assert not torch.equal(transform(graph(*ring(20))).expander_index, first)


def test_a_batch_shifts_it_by_the_vertices():
    singles = [AddExpander()(graph(*path(10))), AddExpander()(graph(*clique(4)))]
    batch = Batch.from_data_list(singles)
    assert torch.equal(batch.expander_index, torch.cat([singles[0].expander_index, singles[1].expander_index + 10], dim=1))
    assert torch.equal(batch[1].expander_index, singles[1].expander_index)


@pytest.mark.parametrize("degree", [0, 3, -2])
def test_an_odd_degree_is_refused(degree):
    with pytest.raises(ValueError, match=rf"'degree' must be even and at least 2 \(got {degree}\)"):
        AddExpander(degree)


def test_repr_names_the_settings():
    assert repr(AddExpander(4)) == "AddExpander(degree=4, seed=0)"
