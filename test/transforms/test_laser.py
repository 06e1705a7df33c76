"""Snapshots of edges at growing distance."""

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import barbell, grid, path
from simple_graphs import renumbered, simple_graph
from torch_geometric.utils import to_networkx

from gump.transforms.laser import LASER


def random_simple(seed, num_nodes=14, num_edges=17):
    """May be disconnected, may have isolated vertices."""
    return simple_graph(torch.tensor(list(nx.gnm_random_graph(num_nodes, num_edges, seed=seed).edges)).t(), num_nodes)


def typed_edges(data):
    return {(u, v): kind for (u, v), kind in zip(data.edge_index.t().tolist(), data.edge_type.tolist(), strict=True)}


def distances(data):
    return dict(nx.all_pairs_shortest_path_length(to_networkx(data, to_undirected=True)))


@pytest.mark.parametrize("density", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_an_edge_of_snapshot_r_joins_vertices_at_distance_r(seed, density):
    data = random_simple(seed)
    away = distances(data)
    edges = typed_edges(LASER(num_snapshots=5, density=density, relation=True)(data))
    assert {edge for edge, kind in edges.items() if kind == 0} == {tuple(edge) for edge in data.edge_index.t().tolist()}
    assert all(away[u][v] == kind + 1 for (u, v), kind in edges.items())


def test_with_density_one_all_pairs_up_to_the_distance_are_joined():
    for data in (random_simple(0), simple_graph(*path(9)), simple_graph(*grid(3, 4))):
        expected = {(u, v): d - 1 for u, row in distances(data).items() for v, d in row.items() if 1 <= d <= 4}
        assert typed_edges(LASER(num_snapshots=4, density=1.0, relation=True)(data)) == expected


@pytest.mark.parametrize("density", [0.05, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("seed", range(8))
def test_every_vertex_picks_those_that_the_fewest_walks_reach(seed, density):
    data = random_simple(seed, num_edges=20)
    network, away = to_networkx(data, to_undirected=True), distances(data)
    looped = nx.to_numpy_array(network, nodelist=range(14)) + np.eye(14)
    walks = np.eye(14)
    for _ in range(8):
        walks = walks @ looped
    edges = typed_edges(LASER(num_snapshots=3, density=density, relation=True)(data))
    must, may = set(), set()
    for r in (2, 3):
        for v in range(14):
            orbit = sorted((walks[v, u], u) for u, d in away[v].items() if d == r)
            if orbit:
                last = orbit[max(1, round(density * len(orbit))) - 1][
                    0
                ]  # equals of the last one that is picked are picked by chance
                must |= {frozenset((u, v)) for count, u in orbit if count < last}
                may |= {frozenset((u, v)) for count, u in orbit if count <= last}
    added = {frozenset(edge) for edge, kind in edges.items() if kind > 0}
    assert must <= added <= may


def test_one_snapshot_is_the_input():
    data = simple_graph(*grid(3, 4))
    assert torch.equal(LASER(num_snapshots=1)(data).edge_index, data.edge_index)


def test_by_hand_two_leaves_prefer_each_other_to_a_triangle():
    # 0 - 1 - 2 and 1 - 3 with 3 in a triangle 3, 4, 5; at distance two 0 sees 2 and 3, 2 sees 0 and 3, 1 sees 4 and 5
    data = simple_graph(torch.tensor([[0, 1, 1, 3, 3, 4], [1, 2, 3, 4, 5, 5]]), 6)
    edges = typed_edges(LASER(num_snapshots=2, density=0.5, relation=True)(data))
    added = {edge for edge, kind in edges.items() if kind == 1 and edge[0] < edge[1]}
    assert {(0, 2), (1, 4), (1, 5)} < added  # 4 and 5 both see 1 alone
    assert len(added & {(0, 3), (2, 3)}) == 1  # 3 picks one of the leaves, which are equal; they do not pick 3
    assert len(added) == 4


def test_it_is_permutation_equivariant_where_no_walks_are_equal():
    weights = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (5, 6), (6, 7), (2, 8), (8, 9), (8, 5), (9, 7), (9, 10)]
    data = simple_graph(torch.tensor(weights).t(), 11)
    walks = np.linalg.matrix_power(nx.to_numpy_array(to_networkx(data, to_undirected=True), nodelist=range(11)) + np.eye(11), 8)
    away = distances(data)
    rows = [[walks[v, u] for u, d in away[v].items() if d == r] for v in range(11) for r in (2, 3)]
    assert all(len(set(row)) == len(row) for row in rows)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(0))
    moved = typed_edges(LASER(density=0.3, relation=True)(renumbered(data, order)))
    kept = typed_edges(LASER(density=0.3, relation=True)(data))
    assert moved == {(int(order[u]), int(order[v])): kind for (u, v), kind in kept.items()}


def test_the_seed_decides_among_equals_and_other_graphs_in_between_do_not():
    data, transform = simple_graph(*grid(4, 4)), LASER(num_snapshots=3, density=0.1)
    first = transform(data)
    transform(simple_graph(*barbell(5)))
    assert torch.equal(transform(data).edge_index, first.edge_index)
    assert len({tuple(LASER(density=0.1, seed=seed)(data).edge_index.flatten().tolist()) for seed in range(5)}) > 1


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"'num_snapshots' must be at least 1, the input \(got 0\)"):
        LASER(num_snapshots=0)
    with pytest.raises(ValueError, match=r"'density' must be above 0 and at most 1 \(got 0\)"):
        LASER(density=0)
    with pytest.raises(ValueError, match=r"'walk_length' must be at least 1 \(got 0\)"):
        LASER(walk_length=0)


def test_repr_names_the_settings():
    assert repr(LASER()) == "LASER(num_snapshots=3, density=0.5, walk_length=8, seed=0, relation=False)"
