"""Patches put on a graph: which vertices and edges they have, and what becomes of them in a batch."""

import sys
from itertools import chain, product

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, barbell, grid, path, random_graph, ring
from torch_geometric.data import Batch, Data

from gump.transforms.add_patches import METHODS, AddPatches

NO_EDGES = torch.empty(2, 0, dtype=torch.long)
GRAPHS = (
    SYMMETRIC
    | {f"random {seed}": random_graph(seed) for seed in range(3)}
    | {"large": random_graph(7, 60, 90), "no edges": (NO_EDGES, 5), "one vertex": (NO_EDGES, 1), "no vertex": (NO_EDGES, 0)}
)
CASES = list(product(GRAPHS, METHODS, (1, 3, 16)))


def graph(name):
    edge_index, num_nodes = GRAPHS[name]
    return Data(edge_index=edge_index, num_nodes=num_nodes)


def vertices(data):
    """The vertices of every patch."""
    sizes = data.num_patch_vertices.flatten().tolist()
    return [sorted(part.tolist()) for part in data.patch_index.split(sizes)]


def columns(data):
    """The columns of edge_index that every patch has."""
    return [part.tolist() for part in data.patch_edge_column.split(data.num_patch_edges.flatten().tolist())]


def parts(data, **settings):
    """The partition alone."""
    return vertices(AddPatches(num_hops=0, **settings)(data))


@pytest.mark.parametrize("method", METHODS)
def test_a_barbell_falls_into_its_bells_which_share_the_bridge(method):
    data = AddPatches(2, method=method)(Data(edge_index=barbell(4)[0], num_nodes=8))
    assert sorted(vertices(data)) == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]
    assert data.num_patch_edges.tolist() == [[7, 7]]
    assert data.patch_adjacency.tolist() == [[[5, 2], [2, 5]]]
    chance = 5 / 7
    assert data.patch_pe[0, :, 0].tolist() == pytest.approx([chance, chance])
    assert data.patch_pe[0, :, 1].tolist() == pytest.approx([chance**2 + (1 - chance) ** 2] * 2)


@pytest.mark.parametrize(("name", "method", "num_patches"), CASES)
@pytest.mark.parametrize("num_hops", [0, 1, 2])
def test_patches_are_what_a_slow_search_finds(name, method, num_patches, num_hops):
    data = graph(name)
    found = AddPatches(num_patches, num_hops, method=method)(data)
    slow = nx.Graph(data.edge_index.t().tolist())
    slow.add_nodes_from(range(data.num_nodes))
    expected = []
    for part in parts(data, num_patches=num_patches, method=method):
        near = [nx.single_source_shortest_path_length(slow, v, cutoff=num_hops) for v in part]
        expected.append(sorted(set().union(*near)))
    assert vertices(found) == expected
    ends = data.edge_index.t().tolist()
    inside = [[c for c, (u, v) in enumerate(ends) if u in members and v in members] for members in expected]
    assert columns(found) == inside
    shared = torch.tensor([[len(set(a) & set(b)) for b in expected] for a in expected], dtype=torch.float)
    assert torch.equal(found.patch_adjacency[0], shared)
    step = shared.double() / shared.double().sum(1, keepdim=True).clamp(min=1)
    walks = torch.stack([torch.linalg.matrix_power(step, k).diagonal() for k in range(1, 9)], dim=1)
    assert (found.patch_pe[0] - walks).abs().max() < 1e-6


@pytest.mark.parametrize(("name", "method", "num_patches"), CASES)
def test_every_vertex_is_in_one_part_and_every_edge_in_some_patch(name, method, num_patches):
    data = graph(name)
    assert sorted(chain(*parts(data, num_patches=num_patches, method=method))) == list(range(data.num_nodes))
    found = AddPatches(num_patches, method=method)(data)
    assert found.num_patch_vertices.shape == (1, num_patches)
    assert set(chain(*columns(found))) == set(range(data.edge_index.size(1)))


@pytest.mark.parametrize(("name", "method", "num_patches"), CASES)
def test_places_name_the_ends_of_the_column_also_in_a_batch(name, method, num_patches):
    transform = AddPatches(num_patches, method=method)
    batch = Batch.from_data_list([transform(graph(other)) for other in (name, "grid", name, "no vertex", "random 1")])
    sizes = batch.num_patch_vertices.flatten()
    edge_patch = torch.arange(sizes.numel()).repeat_interleave(batch.num_patch_edges.flatten())
    first_column = torch.tensor([0, *(batch[i].edge_index.size(1) for i in range(4))]).cumsum(0)
    column = batch.patch_edge_column + first_column[edge_patch // num_patches]
    place = batch.patch_edge.t() + (sizes.cumsum(0) - sizes)[edge_patch]
    assert torch.equal(batch.patch_index[place], batch.edge_index[:, column])
    assert batch.patch_adjacency.shape == (5, num_patches, num_patches)
    assert batch.patch_pe.shape == (5, num_patches, 8)
    for key, value in transform(graph("random 1")).to_dict().items():
        assert torch.equal(torch.as_tensor(batch[4][key]), torch.as_tensor(value))


@pytest.mark.parametrize("method", METHODS)
def test_parts_are_balanced_and_cut_few_edges(method):
    edge_index, num_nodes = grid(8, 8)
    found = parts(Data(edge_index=edge_index, num_nodes=num_nodes), num_patches=4, method=method)
    assert all(14 <= len(part) <= 18 for part in found)
    part_of = {v: p for p, part in enumerate(found) for v in part}
    cut = sum(part_of[u] != part_of[v] for u, v in edge_index.t().tolist())
    assert cut <= {"metis": 20, "bfs": 40}[method]  # four squares cut 16, diagonal stripes 36, a random partition 84 of the 112


@pytest.mark.parametrize("method", METHODS)
def test_fewer_vertices_than_patches_have_one_each(method):
    sizes = AddPatches(8, num_hops=0, method=method)(Data(edge_index=ring(5)[0], num_nodes=5)).num_patch_vertices
    assert sorted(sizes.flatten().tolist()) == [0, 0, 0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("name", "method"), list(product(["large", "grid"], METHODS)))
def test_a_seed_decides_everything_and_another_seed_otherwise(name, method):
    data = graph(name)
    settings = {"num_patches": 3, "drop_rate": 0.3, "method": method}
    torch.manual_seed(0)
    once = parts(data, seed=1, **settings)
    assert parts(data, seed=1, **settings) == once
    assert any(parts(data, seed=seed, **settings) != once for seed in range(2, 6))
    kept = [parts(graph("large"), num_patches=7, seed=seed, method=method) for seed in range(6)]
    assert any(other != kept[0] for other in kept)
    drawn = [parts(data, seed=None, **settings) for _ in range(4)]
    assert any(other != drawn[0] for other in drawn)
    torch.manual_seed(0)
    assert [parts(data, seed=None, **settings) for _ in range(4)] == drawn


@pytest.mark.parametrize("method", METHODS)
def test_dropped_edges_are_hidden_from_the_partitioner_alone(method):
    data = Data(edge_index=path(12)[0], num_nodes=12)
    blind = parts(data, num_patches=3, drop_rate=1.0, method=method)
    assert blind == parts(Data(edge_index=NO_EDGES, num_nodes=12), num_patches=3, method=method)
    assert blind != parts(data, num_patches=3, method=method)
    assert set(chain(*columns(AddPatches(3, drop_rate=1.0, method=method)(data)))) == set(range(11))


@pytest.mark.parametrize("method", METHODS)
def test_orientation_repetition_and_self_loops_do_not_change_the_vertices(method):
    edge_index, num_nodes = barbell(4)
    plain = AddPatches(3, method=method)(Data(edge_index=edge_index, num_nodes=num_nodes))
    loops = torch.arange(num_nodes).expand(2, -1)
    more = torch.cat([edge_index.flip(0), edge_index, loops], dim=1)
    assert vertices(AddPatches(3, method=method)(Data(edge_index=more, num_nodes=num_nodes))) == vertices(plain)


def test_the_input_is_left_alone_and_so_is_the_number_of_vertices():
    data = Data(edge_index=ring(6)[0])
    found = AddPatches(2)(data)
    assert data.keys() == ["edge_index"]
    assert found.num_nodes == 6
    assert "patch_pe" not in AddPatches(2, walk_length=0)(data)


def test_a_missing_metis_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    data = Data(edge_index=ring(6)[0], num_nodes=6)
    with pytest.raises(ImportError, match=r"'method' must be 'bfs' where METIS is missing .* pip install 'torch-gump\[metis\]'"):
        AddPatches(2)(data)
    AddPatches(2, method="bfs")(data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_patches": 0}, r"'num_patches' must be at least 1 \(got 0\)"),
        ({"num_hops": -1}, r"'num_hops' must be at least 0 \(got -1\)"),
        ({"walk_length": -1}, r"'walk_length' must be at least 0 \(got -1\)"),
        ({"drop_rate": 1.5}, r"'drop_rate' must be a probability from 0 to 1 \(got 1.5\)"),
        ({"method": "louvain"}, r"'method' must be one of 'metis', 'bfs' \(got 'louvain'\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        AddPatches(**settings)


def test_repr_names_the_settings():
    assert repr(AddPatches(4)) == "AddPatches(4, num_hops=1, drop_rate=0.0, seed=0, method='metis', walk_length=8)"
