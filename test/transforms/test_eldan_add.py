"""Edges by the criterion of Eldan, Rácz and Schramm."""

import numpy as np
import pytest
import torch
from graphs import barbell, clique, path, ring
from simple_graphs import edge_set, random_connected, renumbered, simple_graph, to_matrix

from gump.linalg.fiedler import fiedler_pair
from gump.linalg.spectrum import spectral_gap
from gump.transforms.eldan_add import EldanAdd, eldan_criterion


def non_edges(adjacency):
    return [(u, v) for u in range(len(adjacency)) for v in range(u + 1, len(adjacency)) if adjacency[u, v] == 0]


def added(adjacency, u, v):
    result = adjacency.copy()
    result[u, v] = result[v, u] = 1
    return result


def criterion(adjacency, f, gap, u, v):
    """The formula of lemma 3.1, term by term."""
    d, after = adjacency.sum(1), added(adjacency, u, v).sum(1)
    projection = f @ np.sqrt(after / after.sum())
    share = [(np.sqrt(d[w] + 1) - np.sqrt(d[w])) / np.sqrt(d[w] + 1) * f[w] ** 2 for w in (u, v)]
    return -(projection**2) * gap - 2 * (1 - gap) * sum(share) + 2 * f[u] * f[v] / np.sqrt((d[u] + 1) * (d[v] + 1))


def test_the_ring_of_eight_has_the_value_of_appendix_a_of_the_paper():
    waves = np.pi / 4 * np.arange(8)
    f = (3 * np.cos(waves) + np.sin(waves)) / np.sqrt(40)
    f = np.roll(
        f, np.argmin([abs(np.roll(f, k)[0] - 0.5 / np.sqrt(10)) + abs(np.roll(f, k)[3] - 0.5 / np.sqrt(5)) for k in range(8)])
    )
    values = eldan_criterion(1 - np.cos(np.pi / 4), f, np.full(8, 2.0))
    assert values[0, 3] == pytest.approx(0.0038672, abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_all_pairs_at_once_are_the_formula_term_by_term(seed):
    adjacency = to_matrix(random_connected(seed))
    gap, f, _ = fiedler_pair(adjacency)
    values = eldan_criterion(gap, f, adjacency.sum(1))
    for u, v in non_edges(adjacency):
        assert values[u, v] == values[v, u] == pytest.approx(criterion(adjacency, f, gap, u, v))


def test_where_the_criterion_is_positive_the_gap_falls():
    warnings = 0
    for seed in range(60):
        adjacency = to_matrix(random_connected(seed, 4 + seed % 12, seed % 30))
        gap, f, _ = fiedler_pair(adjacency)
        values = eldan_criterion(gap, f, adjacency.sum(1))
        for u, v in non_edges(adjacency):
            if values[u, v] > 1e-12:
                warnings += 1
                assert spectral_gap(added(adjacency, u, v)) < gap
    assert warnings > 200


@pytest.mark.parametrize("seed", range(5))
def test_the_criterion_is_a_rayleigh_quotient_in_the_new_graph(seed):
    adjacency = to_matrix(random_connected(seed))
    gap, f, _ = fiedler_pair(adjacency)
    values = eldan_criterion(gap, f, adjacency.sum(1))
    for u, v in non_edges(adjacency):
        after = added(adjacency, u, v)
        root = np.sqrt(after.sum(1))
        top = root / np.linalg.norm(root)
        rest = f - (f @ top) * top
        quotient = rest @ (np.eye(len(f)) - after / np.outer(root, root)) @ rest / (rest @ rest)
        assert values[u, v] == pytest.approx((1 - (f @ top) ** 2) * (gap - quotient))
        assert quotient >= spectral_gap(after) - 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_the_smallest_criterion_is_added_each_time(seed):
    data = random_connected(seed)
    adjacency = to_matrix(data)
    for _ in range(3):
        degree = adjacency.sum(1)
        values, vectors = np.linalg.eigh(np.eye(11) - adjacency / np.sqrt(np.outer(degree, degree)))
        pair = min(non_edges(adjacency), key=lambda p: criterion(adjacency, vectors[:, 1], values[1], *p))
        adjacency = added(adjacency, *pair)
    assert np.array_equal(to_matrix(EldanAdd(3)(data)), adjacency)


def test_every_edge_raises_the_gap_of_a_barbell():
    data = simple_graph(*barbell(5))
    gaps = [spectral_gap(to_matrix(EldanAdd(count)(data))) for count in range(4)]
    assert gaps == sorted(gaps)
    assert gaps[3] > 2 * gaps[0]


@pytest.mark.parametrize("seed", range(4))
def test_it_is_permutation_equivariant_where_nothing_is_equal(seed):
    data = random_connected(seed)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(seed))
    assert edge_set(EldanAdd(2)(renumbered(data, order))) == edge_set(renumbered(EldanAdd(2)(data), order))


def test_components_stay_apart_and_isolated_vertices_stay():
    edges = torch.cat([clique(4)[0] + 1, path(5)[0] + 6], dim=1)
    rewired = EldanAdd(num_edges=99)(simple_graph(edges, 12))
    assert rewired.num_nodes == 12
    assert edge_set(rewired) == edge_set(simple_graph(torch.cat([clique(4)[0] + 1, clique(5)[0] + 6], dim=1), 12))


def test_the_seed_decides_on_a_ring():
    results = {tuple(EldanAdd(1, seed=seed)(simple_graph(*ring(12))).edge_index.flatten().tolist()) for seed in range(8)}
    assert len(results) > 1


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"'num_edges' must not be negative \(got -1\)"):
        EldanAdd(-1)


def test_repr_names_the_settings():
    assert repr(EldanAdd(5, relation=True)) == "EldanAdd(num_edges=5, seed=0, relation=True)"
