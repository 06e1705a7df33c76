"""All pairs up to a distance."""

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, clique, path, random_graph, star
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

from gump.transforms.hops import AddHops


def graph(edges, num_nodes):
    return Data(edge_index=to_undirected(edges, num_nodes=num_nodes), num_nodes=num_nodes)


def hops(data):
    return {(u, v): d for (u, v), d in zip(data.hop_index.t().tolist(), data.hop_distance.tolist(), strict=True)}


def expected(data, max_distance, kind=nx.Graph):
    network = kind()
    network.add_nodes_from(range(data.num_nodes))
    network.add_edges_from(data.edge_index.t().tolist())
    lengths = dict(nx.all_pairs_shortest_path_length(network))
    return {(u, v): d for u, row in lengths.items() for v, d in row.items() if 1 <= d <= max_distance}


@pytest.mark.parametrize("max_distance", [1, 2, 3, 20])
@pytest.mark.parametrize("seed", range(5))
def test_distances_are_those_of_networkx_also_between_components(seed, max_distance):
    data = graph(*random_graph(seed, num_nodes=20, num_edges=16))  # disconnected, self-loops, an isolated vertex
    result = AddHops(max_distance)(data)
    assert hops(result) == expected(data, max_distance)
    assert result.hop_index.size(1) == len(hops(result))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs_too(name):
    data = graph(*SYMMETRIC[name])
    assert hops(AddHops(3)(data)) == expected(data, 3)


def test_the_pairs_at_each_distance_are_counted_also_where_there_are_none():
    assert AddHops(5)(graph(*path(4))).num_hop_pairs.tolist() == [[6, 4, 2, 0, 0]]
    assert AddHops(2)(graph(torch.empty(2, 0, dtype=torch.long), 3)).num_hop_pairs.tolist() == [[0, 0]]
    batch = Batch.from_data_list([AddHops(2)(graph(*path(n))) for n in (2, 3)])
    assert batch.num_hop_pairs.tolist() == [[2, 0], [4, 2]]


def test_in_a_directed_graph_paths_follow_the_edges():
    data = Data(edge_index=path(4)[0], num_nodes=4)
    assert hops(AddHops(2)(data)) == {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 2): 2, (1, 3): 2}
    data = Data(edge_index=random_graph(0, 15, 25)[0], num_nodes=15)
    assert hops(AddHops(4)(data)) == expected(data, 4, nx.DiGraph)


def test_edges_that_are_listed_twice_count_once_and_self_loops_not_at_all():
    data = Data(edge_index=torch.tensor([[0, 0, 1, 1, 2], [1, 1, 0, 0, 2]]), num_nodes=3)
    assert hops(AddHops(3)(data)) == {(0, 1): 1, (1, 0): 1}


def test_pairs_are_sorted_and_small_in_memory():
    result = AddHops(3)(graph(*star(6)))
    keys = result.hop_index[0] * 7 + result.hop_index[1]
    assert torch.equal(keys, keys.sort().values)
    assert (result.hop_index.dtype, result.hop_distance.dtype) == (torch.long, torch.int8)


def test_long_distances_fit():
    result = AddHops(299)(graph(*path(300)))
    assert result.hop_distance.dtype == torch.int16
    assert result.hop_distance.max() == 299
    assert result.hop_index.size(1) == 300 * 299
    assert AddHops(127)(graph(*path(300))).hop_distance.max() == 127


def test_vertices_may_be_taken_in_parts(monkeypatch):
    data = graph(*random_graph(3, num_nodes=20, num_edges=25))
    whole = AddHops(4)(data)
    monkeypatch.setattr("gump.transforms.hops._CHUNK", 60)  # three vertices at a time
    parts = AddHops(4)(data)
    assert torch.equal(parts.hop_index, whole.hop_index)
    assert torch.equal(parts.hop_distance, whole.hop_distance)


@pytest.mark.parametrize("num_nodes", [0, 1, 5])
def test_without_edges_there_are_no_pairs(num_nodes):
    result = AddHops(3)(Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes))
    assert result.hop_index.shape == (2, 0)
    assert result.hop_distance.shape == (0,)


def test_the_graph_itself_stays_as_it_is():
    data = graph(*path(4))
    result = AddHops(2)(data)
    assert torch.equal(result.edge_index, data.edge_index)
    assert "hop_index" not in data


def test_a_batch_shifts_the_pairs_by_the_vertices():
    singles = [AddHops(2)(graph(*path(5))), AddHops(2)(graph(*clique(3)))]
    batch = Batch.from_data_list(singles)
    assert torch.equal(batch.hop_index, torch.cat([singles[0].hop_index, singles[1].hop_index + 5], dim=1))
    assert torch.equal(batch.hop_distance, torch.cat([single.hop_distance for single in singles]))


@pytest.mark.parametrize("max_distance", [0, -1, 2**15])
def test_a_bad_distance_is_refused(max_distance):
    with pytest.raises(ValueError, match=rf"'max_distance' must be at least 1 and below 32768 \(got {max_distance}\)"):
        AddHops(max_distance)


def test_repr_names_the_setting():
    assert repr(AddHops(3)) == "AddHops(max_distance=3)"
