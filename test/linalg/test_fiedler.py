"""The second eigenpair of the normalized Laplacian, and what one edge does to it."""

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from gump.linalg.fiedler import best_pair, fiedler_pair, flip_edges, gap_change, second_pair


def laplacian(adjacency):
    root = np.sqrt(adjacency.sum(1))
    return np.eye(len(adjacency)) - adjacency / root / root[:, None]


def connected(seed, num_nodes=12, num_extra=8):
    """A random tree with some more edges."""
    tree, extra = nx.random_labeled_tree(num_nodes, seed=seed), nx.gnm_random_graph(num_nodes, num_extra, seed=seed)
    return nx.to_numpy_array(nx.compose(tree, extra))


@pytest.mark.parametrize("seed", range(10))
def test_it_is_an_eigenpair_and_the_second_one(seed):
    adjacency = connected(seed)
    gap, vector, vertices = fiedler_pair(adjacency)
    assert np.allclose(laplacian(adjacency) @ vector, gap * vector)
    assert gap == pytest.approx(nx.normalized_laplacian_spectrum(nx.from_numpy_array(adjacency))[1])
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert vertices.tolist() == list(range(12))


def test_cliques_and_rings_have_the_gaps_of_the_books():
    assert fiedler_pair(nx.to_numpy_array(nx.complete_graph(5)))[0] == pytest.approx(5 / 4)
    assert fiedler_pair(nx.to_numpy_array(nx.cycle_graph(8)))[0] == pytest.approx(1 - np.cos(2 * np.pi / 8))


def test_the_slowest_component_is_found_between_isolated_vertices():
    fast, slow = nx.to_numpy_array(nx.complete_graph(4)), nx.to_numpy_array(nx.path_graph(5))
    gap, vector, vertices = fiedler_pair(block_diag([[0.0]], fast, [[0.0]], slow, [[0.0]], fast))
    assert gap == pytest.approx(fiedler_pair(slow)[0])
    assert vertices.tolist() == [6, 7, 8, 9, 10]
    assert np.allclose(np.abs(vector), np.abs(fiedler_pair(slow)[1]))


def test_without_edges_there_is_no_component():
    for size in (0, 1, 3):
        gap, vector, vertices = fiedler_pair(np.zeros((size, size)))
        assert (gap, vector.size, vertices.size) == (0, 0, 0)


def test_a_repeated_eigenvalue_gives_a_vector_of_its_space_chosen_by_the_seed():
    ring = nx.to_numpy_array(nx.cycle_graph(8))
    vectors = [fiedler_pair(ring, seed)[1] for seed in (0, 0, 1)]
    for vector in vectors:
        assert np.allclose(laplacian(ring) @ vector, (1 - np.cos(np.pi / 4)) * vector)
    assert np.array_equal(vectors[0], vectors[1])
    assert abs(vectors[0] @ vectors[2]) < 0.999
    start, waves = np.random.default_rng(0).standard_normal(8), 2 * np.pi * np.arange(8) / 8
    projected = sum(wave * (wave @ start) for wave in (np.cos(waves), np.sin(waves)))
    assert np.allclose(vectors[0], projected / np.linalg.norm(projected))


@pytest.mark.parametrize("adjacency", [connected(0, 80, 60), nx.to_numpy_array(nx.cycle_graph(40))])
def test_large_graphs_take_another_way_to_the_same_eigenspace(adjacency, monkeypatch):
    dense = fiedler_pair(adjacency)
    monkeypatch.setattr("gump.linalg.fiedler._DENSE", 10)
    gap, vector, _ = fiedler_pair(adjacency)
    assert gap == pytest.approx(dense[0])
    assert np.allclose(laplacian(adjacency) @ vector, gap * vector)
    assert np.linalg.norm(vector) == pytest.approx(1)


@pytest.mark.parametrize("max_restarts", [None, 1, 0])
@pytest.mark.parametrize("adjacency", [connected(0, 80, 60), nx.to_numpy_array(nx.path_graph(600))])
def test_the_pair_is_the_same_where_the_iteration_is_given_up_and_where_it_is_not_tried(adjacency, max_restarts):
    root, start = np.sqrt(adjacency.sum(1)), np.random.default_rng(0).standard_normal(len(adjacency))
    gap, vector = second_pair(csr_array(adjacency / root / root[:, None]), root, start, max_restarts=max_restarts)
    assert gap == pytest.approx(np.linalg.eigvalsh(laplacian(adjacency))[1], rel=1e-6)
    assert np.allclose(laplacian(adjacency) @ vector, gap * vector)
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert abs(root @ vector) < 1e-6


def test_edges_are_flipped_one_by_one_in_the_slowest_component_until_there_is_no_choice():
    start = block_diag(nx.to_numpy_array(nx.complete_graph(3)), [[0.0]], nx.to_numpy_array(nx.path_graph(4))) > 0
    seen = []

    def first_missing(gap, vector, adjacency):
        assert gap == pytest.approx(fiedler_pair(adjacency.astype(float))[0])
        assert np.allclose(laplacian(adjacency) @ vector, gap * vector)
        seen.append(adjacency.sum() // 2)
        return next(map(tuple, np.argwhere(np.triu(~adjacency, 1))), None)

    flipped = flip_edges(start, 2, first_missing)
    assert np.argwhere(np.triu(flipped ^ start)).tolist() == [[4, 6], [4, 7]]
    assert np.array_equal(flipped, flipped.T)
    assert seen == [3, 4]
    full = flip_edges(start, 99, first_missing)
    assert np.array_equal(full, block_diag(start[:3, :3], [[0]], 1 - np.eye(4)) > 0)
    assert start.sum() == 2 * (3 + 3), "the input was changed"
    assert np.argwhere(np.triu(flip_edges(full, 1, lambda gap, vector, adjacency: (0, 1)) ^ full)).tolist() == [[4, 5]]


def test_without_edges_the_choice_is_among_nothing():
    sizes = []
    for size in (0, 3):
        flip_edges(np.zeros((size, size), dtype=bool), 1, lambda gap, vector, adjacency: sizes.append(adjacency.shape))
    assert sizes == [(0, 0), (0, 0)]


@pytest.mark.parametrize("seed", range(10))
def test_over_the_roots_of_the_degrees_the_change_is_the_derivative(seed):
    adjacency, step = connected(seed), 1e-6
    gap, vector, _ = fiedler_pair(adjacency)
    predicted = gap_change(gap, vector / np.sqrt(adjacency.sum(1)))
    for u, v in zip(*np.nonzero(np.triu(np.ones_like(adjacency), 1)), strict=True):  # edges and pairs that are none
        weights = adjacency.copy()
        weights[u, v] = weights[v, u] = adjacency[u, v] + step
        assert predicted[u, v] == pytest.approx((fiedler_pair(weights)[0] - gap) / step, abs=1e-4)


def test_on_a_regular_graph_the_plain_change_is_the_derivative_times_the_degree():
    adjacency = nx.to_numpy_array(nx.random_regular_graph(3, 12, seed=1))
    gap, vector, _ = fiedler_pair(adjacency)
    weights = adjacency.copy()
    u, v = np.argwhere(adjacency == 0)[1]
    weights[u, v] = weights[v, u] = 1e-6
    assert gap_change(gap, vector)[u, v] == pytest.approx(3 * (fiedler_pair(weights)[0] - gap) / 1e-6, abs=1e-4)


def test_the_best_pair_is_the_first_among_equals_whatever_the_rounding():
    scores = np.array([[9, 1, 1], [1, 9, 1 + 1e-15], [1, 1 + 1e-15, 9]])
    assert best_pair(scores, np.ones((3, 3), dtype=bool)) == (0, 1)
    assert best_pair(scores + 1e-6 * (np.arange(3) == 2), np.ones((3, 3), dtype=bool)) == (0, 2)
    assert best_pair(scores, np.eye(3, dtype=bool)) is None
