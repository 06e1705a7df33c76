"""Edges without which the spectral gap is larger."""

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, barbell, path, ring
from simple_graphs import edge_set, random_connected, renumbered, simple_graph, to_matrix
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, to_networkx

from gump.linalg.fiedler import fiedler_pair, gap_change
from gump.linalg.spectrum import spectral_gap
from gump.transforms.proxy_del import ProxyDel


def test_the_chord_of_figure_1_of_the_paper_scores_as_in_table_6_and_the_gap_rises_without_it():
    with_chord = to_matrix(simple_graph(torch.cat([ring(8)[0], torch.tensor([[0], [3]])], dim=1), 8))
    assert -gap_change(*fiedler_pair(with_chord)[:2])[0, 3] == pytest.approx(0.027992, abs=1e-6)
    assert spectral_gap(with_chord) == pytest.approx(0.2829, abs=1e-4)
    assert spectral_gap(to_matrix(simple_graph(*ring(8)))) == pytest.approx(0.2929, abs=1e-4)


def test_a_ring_with_two_chords_loses_the_far_sides_of_its_squares():
    data = simple_graph(torch.cat([ring(8)[0], torch.tensor([[0, 4], [3, 7]])], dim=1), 8)
    rewired = ProxyDel(num_edges=2)(data)
    assert edge_set(data) - edge_set(rewired) == {frozenset((1, 2)), frozenset((5, 6))}
    assert spectral_gap(to_matrix(rewired)) > 1.5 * spectral_gap(to_matrix(data))


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_a_barbell_loses_edges_of_its_halves_never_its_bridge(normalization):
    data = simple_graph(*barbell(5))
    gaps = [spectral_gap(to_matrix(ProxyDel(count, normalization)(data))) for count in range(5)]
    assert gaps == sorted(gaps)
    assert gaps[4] > gaps[0]
    deleted = edge_set(data) - edge_set(ProxyDel(4, normalization)(data))
    assert len(deleted) == 4
    assert frozenset((4, 5)) not in deleted


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_that_of_the_formula_written_out(seed, normalization):
    data = random_connected(seed, num_extra=14)
    expected = to_networkx(data, to_undirected=True)
    for _ in range(4):
        adjacency = nx.to_numpy_array(expected, nodelist=range(11))
        degree = adjacency.sum(1)
        values, vectors = np.linalg.eigh(np.eye(11) - adjacency / np.sqrt(np.outer(degree, degree)))
        f = vectors[:, 1] / (np.sqrt(degree) if normalization == "rw" else 1)
        bridges = {frozenset(edge) for edge in nx.bridges(expected)}
        scores = {
            (u, v): values[1] * (f[u] ** 2 + f[v] ** 2) - (f[u] - f[v]) ** 2
            for u, v in sorted(expected.edges)
            if frozenset((u, v)) not in bridges
        }
        best = max(scores, key=lambda pair: round(scores[pair], 9), default=None)  # the first among equals
        if best is None or scores[best] <= 0:
            break
        expected.remove_edge(*best)
    assert edge_set(ProxyDel(4, normalization)(data)) == {frozenset(edge) for edge in expected.edges}


@pytest.mark.parametrize("seed", range(8))
def test_every_component_stays_connected_however_many_edges_are_asked_for(seed):
    first, second = (random_connected(number, num_extra=14).edge_index for number in (seed, seed + 50))
    data = Data(edge_index=torch.cat([first + 1, second + 13], dim=1), num_nodes=25)
    rewired = ProxyDel(num_edges=1000)(data)
    components = {frozenset(component) for component in nx.connected_components(to_networkx(rewired, to_undirected=True))}
    assert components == {frozenset({0}), frozenset(range(1, 12)), frozenset({12}), frozenset(range(13, 24)), frozenset({24})}
    assert rewired.num_nodes == 25
    assert edge_set(rewired) < edge_set(data)
    assert is_undirected(rewired.edge_index)
    assert rewired.is_coalesced()


def test_it_stops_where_no_deletion_is_estimated_to_help():
    # two stars whose centers 0 and 1 are joined by two paths, over 2 and over 3: all that is not a bridge carries the flow
    leaves = torch.tensor([[0, 0, 0, 1, 1, 1], [4, 5, 6, 7, 8, 9]])
    square = torch.tensor([[0, 2, 0, 3], [2, 1, 3, 1]])
    data = simple_graph(torch.cat([leaves, square], dim=1), 10)
    assert edge_set(ProxyDel()(data)) == edge_set(data)
    assert edge_set(ProxyDel()(simple_graph(*path(6)))) == edge_set(simple_graph(*path(6)))


def test_a_ring_is_opened_once():
    """Every edge of a ring has another way around, however long, and none of a path has."""
    for num_nodes in (3, 12, 40):
        rewired = ProxyDel(num_edges=5)(simple_graph(*ring(num_nodes)))
        assert rewired.num_edges == 2 * (num_nodes - 1)
        assert nx.is_connected(to_networkx(rewired, to_undirected=True))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs_stay_connected_simple_and_undirected(name):
    data = simple_graph(*SYMMETRIC[name])
    rewired = ProxyDel(num_edges=3)(data)
    assert edge_set(rewired) <= edge_set(data)
    assert nx.is_connected(to_networkx(rewired, to_undirected=True))
    assert is_undirected(rewired.edge_index)
    assert torch.equal(ProxyDel(num_edges=3)(data).edge_index, rewired.edge_index)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_permutation_equivariant_where_nothing_is_equal(seed):
    data = random_connected(seed, num_extra=14)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(seed))
    assert edge_set(ProxyDel(2)(renumbered(data, order))) == edge_set(renumbered(ProxyDel(2)(data), order))


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"'num_edges' must not be negative \(got -1\)"):
        ProxyDel(-1)
    with pytest.raises(ValueError, match=r"'normalization' must be 'sym' or 'rw' \(got None\)"):
        ProxyDel(normalization=None)


def test_repr_names_the_settings():
    assert repr(ProxyDel(5, "rw")) == "ProxyDel(num_edges=5, normalization='rw', seed=0)"
