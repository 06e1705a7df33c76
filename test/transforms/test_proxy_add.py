"""Edges that an estimate of the spectral gap asks for."""

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, barbell, clique, path, ring
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, to_networkx, to_undirected

from gump.linalg.fiedler import fiedler_pair, gap_change
from gump.linalg.spectrum import spectral_gap
from gump.transforms.proxy_add import ProxyAdd


def graph(edges, num_nodes):
    return Data(edge_index=to_undirected(edges, num_nodes=num_nodes), num_nodes=num_nodes)


def random_connected(seed, num_nodes=11, num_extra=6):
    tree, extra = nx.random_labeled_tree(num_nodes, seed=seed), nx.gnm_random_graph(num_nodes, num_extra, seed=seed)
    return graph(torch.tensor(list(nx.compose(tree, extra).edges)).t(), num_nodes)


def matrix(data):
    return nx.to_numpy_array(to_networkx(data, to_undirected=True), nodelist=range(data.num_nodes))


def edge_set(data):
    return {frozenset(edge) for edge in data.edge_index.t().tolist()}


def ring_with_chord():
    """The graph G of figure 1 of the paper: a ring of eight vertices and the edge 0 - 3."""
    return graph(torch.cat([ring(8)[0], torch.tensor([[0], [3]])], dim=1), 8)


@pytest.mark.parametrize(("chord", "added", "deleted"), [((0, 5), 0.415994, -0.064550), ((4, 7), -0.024739, 0.032403)])
def test_the_estimates_are_those_of_table_6_of_the_paper(chord, added, deleted):
    before = matrix(ring_with_chord())
    after = before.copy()
    after[chord], after[chord[::-1]] = 1, 1
    assert gap_change(*fiedler_pair(before)[:2])[chord] == pytest.approx(added, abs=1e-6)
    assert -gap_change(*fiedler_pair(after)[:2])[chord] == pytest.approx(deleted, abs=1e-6)


def test_the_gaps_are_those_of_figure_1_of_the_paper():
    data = ring_with_chord()
    assert spectral_gap(matrix(data)) == pytest.approx(0.2829, abs=1e-4)
    rewired = ProxyAdd(num_edges=1)(data)
    assert spectral_gap(matrix(rewired)) >= 0.3545 - 1e-4  # which the edge 0 - 5 of the figure gives


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("num_nodes", [4, 6])
def test_every_edge_raises_the_gap_of_a_barbell(num_nodes, normalization):
    data = graph(*barbell(num_nodes))
    gaps = [spectral_gap(matrix(ProxyAdd(count, normalization)(data))) for count in range(4)]
    assert gaps == sorted(gaps)
    assert gaps[3] > 2 * gaps[0]
    added = edge_set(ProxyAdd(3, normalization)(data)) - edge_set(data)
    assert all(min(edge) < num_nodes <= max(edge) for edge in added)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_that_of_the_formula_written_out(seed, normalization):
    data = random_connected(seed, num_extra=6 * (seed + 1))
    adjacency = matrix(data)
    for _ in range(3):
        degree = adjacency.sum(1)
        values, vectors = np.linalg.eigh(np.eye(11) - adjacency / np.sqrt(np.outer(degree, degree)))
        f = vectors[:, 1] / (np.sqrt(degree) if normalization == "rw" else 1)
        scores = {
            (u, v): (f[u] - f[v]) ** 2 - values[1] * (f[u] ** 2 + f[v] ** 2)
            for u in range(11)
            for v in range(u + 1, 11)
            if adjacency[u, v] == 0
        }
        u, v = max(scores, key=lambda pair: round(scores[pair], 9))  # the first among equals
        adjacency[u, v] = adjacency[v, u] = 1
    assert np.array_equal(matrix(ProxyAdd(3, normalization)(data)), adjacency)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs_come_out_simple_sorted_and_undirected(name):
    data = graph(*SYMMETRIC[name])
    rewired = ProxyAdd(num_edges=2)(data)
    missing = data.num_nodes * (data.num_nodes - 1) // 2 - data.num_edges // 2
    assert edge_set(data) <= edge_set(rewired)
    assert rewired.num_edges == data.num_edges + 2 * min(2, missing)
    assert rewired.is_coalesced()
    assert is_undirected(rewired.edge_index)
    assert not rewired.has_self_loops()


@pytest.mark.parametrize("seed", range(4))
def test_it_is_permutation_equivariant_where_nothing_is_equal(seed):
    data = random_connected(seed)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(seed))
    moved = ProxyAdd(2)(Data(edge_index=order[data.edge_index], num_nodes=11))
    assert edge_set(moved) == edge_set(Data(edge_index=order[ProxyAdd(2)(data).edge_index]))


def test_components_stay_apart_and_isolated_vertices_stay():
    edges = torch.cat([clique(4)[0] + 1, path(5)[0] + 6], dim=1)
    rewired = ProxyAdd(num_edges=2)(graph(edges, 12))
    assert rewired.num_nodes == 12
    assert all(min(edge) >= 6 and max(edge) <= 10 for edge in edge_set(rewired) - edge_set(graph(edges, 12)))
    assert rewired.num_edges == 2 * (6 + 4 + 2)
    assert edge_set(ProxyAdd(num_edges=99)(graph(edges, 12))) == edge_set(
        graph(torch.cat([clique(4)[0] + 1, clique(5)[0] + 6], 1), 12)
    )


@pytest.mark.parametrize(
    "data", [graph(*clique(4)), graph(*clique(2)), graph(*clique(1)), Data(edge_index=torch.empty(2, 0).long(), num_nodes=3)]
)
def test_where_nothing_can_be_added_nothing_changes(data):
    assert torch.equal(ProxyAdd()(data).edge_index, data.edge_index)
    assert ProxyAdd()(data).num_nodes == data.num_nodes


def test_edges_of_the_input_keep_their_attributes_and_added_ones_have_zeros():
    data = graph(*path(4))
    data.edge_attr = torch.arange(1.0, 7).view(6, 1)
    rewired = ProxyAdd(num_edges=1, relation=True)(data)
    assert rewired.edge_index.tolist() == [[0, 0, 1, 1, 2, 2, 3, 3], [1, 3, 0, 2, 1, 3, 0, 2]]
    assert rewired.edge_attr.flatten().tolist() == [1, 0, 2, 3, 4, 5, 0, 6]
    assert rewired.edge_type.tolist() == [0, 1, 0, 0, 0, 0, 1, 0]
    assert data.num_edges == 6


def test_the_seed_decides_on_a_ring_and_other_graphs_in_between_do_not():
    data, transform = graph(*ring(12)), ProxyAdd(num_edges=1)
    first = transform(data)
    transform(graph(*barbell(5)))
    assert torch.equal(transform(data).edge_index, first.edge_index)
    assert len({tuple(ProxyAdd(1, seed=seed)(data).edge_index.flatten().tolist()) for seed in range(8)}) > 1


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="'data' must list every edge in both orientations"):
        ProxyAdd()(Data(edge_index=path(3)[0], num_nodes=3))
    with pytest.raises(ValueError, match=r"'num_edges' must not be negative \(got -1\)"):
        ProxyAdd(-1)
    with pytest.raises(ValueError, match=r"'normalization' must be 'sym' or 'rw' \(got 'row'\)"):
        ProxyAdd(normalization="row")


def test_repr_names_the_settings():
    assert repr(ProxyAdd(5)) == "ProxyAdd(num_edges=5, normalization='sym', seed=0, relation=False)"
