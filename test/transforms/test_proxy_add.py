"""Edges that an estimate of the spectral gap asks for."""

import numpy as np
import pytest
import torch
from graphs import barbell, clique, path, ring
from simple_graphs import edge_set, random_connected, renumbered, simple_graph, to_matrix

from gump.linalg.fiedler import fiedler_pair, gap_change
from gump.linalg.spectrum import spectral_gap
from gump.transforms.proxy_add import ProxyAdd


def ring_with_chord():
    """The graph G of figure 1 of the paper: a ring of eight vertices and the edge 0 - 3."""
    return simple_graph(torch.cat([ring(8)[0], torch.tensor([[0], [3]])], dim=1), 8)


@pytest.mark.parametrize(("chord", "added", "deleted"), [((0, 5), 0.415994, -0.064550), ((4, 7), -0.024739, 0.032403)])
def test_the_estimates_are_those_of_table_6_of_the_paper(chord, added, deleted):
    before = to_matrix(ring_with_chord())
    after = before.copy()
    after[chord], after[chord[::-1]] = 1, 1
    assert gap_change(*fiedler_pair(before)[:2])[chord] == pytest.approx(added, abs=1e-6)
    assert -gap_change(*fiedler_pair(after)[:2])[chord] == pytest.approx(deleted, abs=1e-6)


def test_the_gaps_are_those_of_figure_1_of_the_paper():
    data = ring_with_chord()
    assert spectral_gap(to_matrix(data)) == pytest.approx(0.2829, abs=1e-4)
    rewired = ProxyAdd(num_edges=1)(data)
    assert spectral_gap(to_matrix(rewired)) >= 0.3545 - 1e-4  # which the edge 0 - 5 of the figure gives


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("num_nodes", [4, 6])
def test_every_edge_raises_the_gap_of_a_barbell(num_nodes, normalization):
    data = simple_graph(*barbell(num_nodes))
    gaps = [spectral_gap(to_matrix(ProxyAdd(count, normalization)(data))) for count in range(4)]
    assert gaps == sorted(gaps)
    assert gaps[3] > 2 * gaps[0]
    added = edge_set(ProxyAdd(3, normalization)(data)) - edge_set(data)
    assert all(min(edge) < num_nodes <= max(edge) for edge in added)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_that_of_the_formula_written_out(seed, normalization):
    data = random_connected(seed, num_extra=6 * (seed + 1))
    adjacency = to_matrix(data)
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
    assert np.array_equal(to_matrix(ProxyAdd(3, normalization)(data)), adjacency)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_permutation_equivariant_where_nothing_is_equal(seed):
    data = random_connected(seed)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(seed))
    assert edge_set(ProxyAdd(2)(renumbered(data, order))) == edge_set(renumbered(ProxyAdd(2)(data), order))


def test_components_stay_apart_and_isolated_vertices_stay():
    edges = torch.cat([clique(4)[0] + 1, path(5)[0] + 6], dim=1)
    rewired = ProxyAdd(num_edges=2)(simple_graph(edges, 12))
    assert rewired.num_nodes == 12
    assert all(min(edge) >= 6 and max(edge) <= 10 for edge in edge_set(rewired) - edge_set(simple_graph(edges, 12)))
    assert rewired.num_edges == 2 * (6 + 4 + 2)
    assert edge_set(ProxyAdd(num_edges=99)(simple_graph(edges, 12))) == edge_set(
        simple_graph(torch.cat([clique(4)[0] + 1, clique(5)[0] + 6], 1), 12)
    )


def test_the_seed_decides_on_a_ring_and_other_graphs_in_between_do_not():
    data, transform = simple_graph(*ring(12)), ProxyAdd(num_edges=1)
    first = transform(data)
    transform(simple_graph(*barbell(5)))
    assert torch.equal(transform(data).edge_index, first.edge_index)
    assert len({tuple(ProxyAdd(1, seed=seed)(data).edge_index.flatten().tolist()) for seed in range(8)}) > 1


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"'num_edges' must not be negative \(got -1\)"):
        ProxyAdd(-1)
    with pytest.raises(ValueError, match=r"'normalization' must be 'sym' or 'rw' \(got 'row'\)"):
        ProxyAdd(normalization="row")


def test_repr_names_the_settings():
    assert repr(ProxyAdd(5)) == "ProxyAdd(num_edges=5, normalization='sym', seed=0, relation=False)"
