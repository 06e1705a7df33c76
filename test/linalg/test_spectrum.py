"""Gaps and resistances against textbook values and slow computations."""

import networkx as nx
import numpy as np
import pytest
from graphs import SYMMETRIC, barbell, clique, path, random_graph, ring, star

from gump.linalg.spectrum import effective_resistance, laplacian_pseudo_inverse, spectral_gap


def adjacency(graph):
    edges, num_nodes = graph
    matrix = np.zeros((num_nodes, num_nodes))
    matrix[edges[0], edges[1]] = matrix[edges[1], edges[0]] = 1
    np.fill_diagonal(matrix, 0)
    return matrix


GRAPHS = [adjacency(graph) for graph in (*SYMMETRIC.values(), path(5), *(random_graph(seed) for seed in range(5)))]


def test_gaps_from_the_textbook():
    assert spectral_gap(adjacency(clique(6))) == pytest.approx(6 / 5)
    assert spectral_gap(adjacency(ring(7))) == pytest.approx(1 - np.cos(2 * np.pi / 7))
    assert spectral_gap(adjacency(path(5))) == pytest.approx(1 - np.cos(np.pi / 4))
    assert spectral_gap(adjacency(star(4))) == pytest.approx(1)


@pytest.mark.parametrize("matrix", GRAPHS)
def test_the_gap_is_the_second_eigenvalue_of_networkx(matrix):
    laplacian = nx.normalized_laplacian_matrix(nx.from_numpy_array(matrix)).toarray()
    assert spectral_gap(matrix) == pytest.approx(np.sort(np.linalg.eigvals(laplacian).real)[1], abs=1e-12)


def test_the_gap_vanishes_where_a_graph_falls_apart_and_only_there():
    apart = np.zeros((5, 5))
    apart[:2, :2] = apart[2:, 2:] = 1
    np.fill_diagonal(apart, 0)
    assert spectral_gap(apart) == pytest.approx(0, abs=1e-12)
    assert spectral_gap(np.zeros((2, 2))) == 0
    with_isolated = np.pad(adjacency(clique(3)), (0, 1))
    assert spectral_gap(with_isolated) == pytest.approx(0, abs=1e-12)
    assert 0.01 < spectral_gap(adjacency(barbell(4))) < spectral_gap(adjacency(clique(8)))


@pytest.mark.parametrize("matrix", [*GRAPHS, np.zeros((1, 1)), np.zeros((0, 0)), np.zeros((3, 3))])
def test_the_pseudo_inverse_is_that_of_a_singular_value_decomposition(matrix):
    expected = np.linalg.pinv(np.diag(matrix.sum(1)) - matrix, rcond=1e-10)
    assert np.abs(laplacian_pseudo_inverse(matrix) - expected).max(initial=0) < 1e-12


def test_resistances_add_in_series_and_conductances_in_parallel():
    series = effective_resistance(adjacency(path(5)))
    assert series[0] == pytest.approx(np.arange(5))
    steps = np.arange(6)
    assert effective_resistance(adjacency(ring(6)))[0] == pytest.approx(steps * (6 - steps) / 6)
    assert effective_resistance([[0, 4], [4, 0]])[0, 1] == pytest.approx(1 / 4)


def test_no_current_flows_between_components():
    resistance = effective_resistance(np.pad(adjacency(path(2)), (0, 1)))
    assert resistance == pytest.approx(np.array([[0, 1, np.inf], [1, 0, np.inf], [np.inf, np.inf, 0]]))


@pytest.mark.parametrize("matrix", GRAPHS)
def test_the_numbering_does_not_matter(matrix):
    order = np.random.default_rng(0).permutation(len(matrix))
    moved = matrix[order][:, order]
    assert spectral_gap(moved) == pytest.approx(spectral_gap(matrix), abs=1e-12)
    assert effective_resistance(moved) == pytest.approx(effective_resistance(matrix)[order][:, order], abs=1e-12)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), r"'adjacency' must be a square matrix \(got shape \[2, 3\]\)"),
        ([[0, 1], [0, 0]], r"'adjacency' must be symmetric \(got a directed graph\)"),
        ([[1, 0], [0, 0]], r"'adjacency' must be zero on the diagonal \(got self-loops\)"),
        ([[0, -1], [-1, 0]], "'adjacency' must not be negative, infinite or NaN"),
        ([[0, np.nan], [np.nan, 0]], "'adjacency' must not be negative, infinite or NaN"),
        ([[0]], r"'adjacency' must have at least two rows for a second eigenvalue \(got 1\)"),
    ],
)
def test_what_is_no_adjacency_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        spectral_gap(matrix)
