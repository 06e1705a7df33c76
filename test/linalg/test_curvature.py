"""Balanced Forman curvature against counts of triangles and 4-cycles one by one."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from graphs import SYMMETRIC, barbell, clique, grid, path, ring, star

from gump.linalg.curvature import balanced_forman, curvature_after_adding


def adjacency(graph):
    edges, num_nodes = graph
    matrix = np.zeros((num_nodes, num_nodes), dtype=bool)
    matrix[edges[0], edges[1]] = matrix[edges[1], edges[0]] = True
    return matrix


def random_adjacency(seed, num_nodes, density):
    upper = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return upper | upper.T


def counted(matrix, x, y):
    """The definition, vertex by vertex: every closed walk x, k, w, y over four vertices whose diagonals are no edges."""
    degrees = sorted(int(matrix[v].sum()) for v in (x, y))
    if degrees[0] == 1:
        return 0.0
    others = [v for v in range(len(matrix)) if v not in (x, y)]
    triangles = sum(bool(matrix[x, v] and matrix[y, v]) for v in others)
    cycles = [
        (k, w)
        for k, w in permutations(others, 2)
        if matrix[x, k] and matrix[k, w] and matrix[w, y] and not matrix[x, w] and not matrix[k, y]
    ]
    at_x, at_y = Counter(k for k, _ in cycles), Counter(w for _, w in cycles)
    squares = (len(at_x) + len(at_y)) / max([*at_x.values(), *at_y.values()]) if cycles else 0
    low, high = degrees
    return 2 / low + 2 / high - 2 + 2 * triangles / high + triangles / low + squares / high


RANDOM = [random_adjacency(seed, 9, density) for seed in range(4) for density in (0.15, 0.3, 0.5, 0.8)]
DRAWN = [adjacency(graph) for graph in (*SYMMETRIC.values(), path(5), ring(4), ring(5))]


@pytest.mark.parametrize("matrix", [*RANDOM, *DRAWN])
def test_it_equals_a_count_of_triangles_and_cycles(matrix):
    expected = np.zeros(matrix.shape)
    for x, y in np.argwhere(matrix):
        expected[x, y] = counted(matrix, x, y)
    assert balanced_forman(matrix) == pytest.approx(expected, abs=1e-12)


def test_the_random_graphs_have_every_kind_of_corner():
    """Cycles that share a corner, leaves, common neighbors, vertices alone."""
    shared = triangles = leaves = alone = 0
    for matrix in RANDOM:
        alone += int((matrix.sum(1) == 0).sum())
        leaves += int((matrix.sum(1) == 1).sum())
        for x, y in np.argwhere(matrix):
            own_x, own_y = matrix[x] & ~matrix[y], matrix[y] & ~matrix[x]
            own_x[y] = own_y[x] = False
            shared += int(matrix[own_x][:, own_y].sum(1).max(initial=0) > 1)
            triangles += int((matrix[x] & matrix[y]).any())
    assert min(shared, triangles, leaves, alone) > 10


def test_curvatures_from_the_paper():
    for num_nodes in (3, 4, 7):
        assert balanced_forman(adjacency(clique(num_nodes)))[0, 1] == pytest.approx(num_nodes / (num_nodes - 1))
    assert [balanced_forman(adjacency(ring(n)))[0, 1] for n in (3, 4, 5, 6)] == pytest.approx([1.5, 1, 0, 0])
    assert balanced_forman(adjacency(grid(6, 6)))[14, 15] == pytest.approx(0)
    tree = np.zeros((14, 14), dtype=bool)  # two vertices of degree 4, joined, with three children each that have children
    for u, v in [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11), (6, 12), (7, 13)]:
        tree[u, v] = tree[v, u] = True
    assert balanced_forman(tree)[0, 1] == pytest.approx(4 / 4 - 2)
    assert balanced_forman(adjacency(barbell(4)))[3, 4] == pytest.approx(-1)
    assert not balanced_forman(adjacency(star(4))).any()


def test_cycles_that_share_a_corner_count_less():
    """Complete bipartite, 3 + 3: two corners on each side, on two cycles each."""
    matrix = np.zeros((6, 6), dtype=bool)
    matrix[:3, 3:] = matrix[3:, :3] = True
    assert balanced_forman(matrix)[0, 3] == pytest.approx(2 / 3 + 2 / 3 - 2 + 4 / (2 * 3), abs=1e-12)


@pytest.mark.parametrize("matrix", [*RANDOM, *DRAWN])
def test_with_one_more_edge_it_equals_the_count_of_that_graph(matrix):
    for x, y in np.argwhere(matrix):
        closed = matrix | np.eye(len(matrix), dtype=bool)
        choices = {
            (min(i, j), max(i, j))
            for i in np.flatnonzero(closed[x]).tolist()
            for j in np.flatnonzero(closed[y]).tolist()
            if not closed[i, j]
        }
        first, second, curvature = curvature_after_adding(matrix, x, y)
        found = list(zip(np.minimum(first, second).tolist(), np.maximum(first, second).tolist(), strict=True))
        assert len(found) == len(set(found))
        assert set(found) == choices
        for (i, j), value in zip(found, curvature, strict=True):
            more = matrix.copy()
            more[i, j] = more[j, i] = True
            assert value == pytest.approx(counted(more, x, y), abs=1e-12)


@pytest.mark.parametrize("matrix", [*RANDOM[:4], *DRAWN])
def test_the_numbering_does_not_matter(matrix):
    order = np.random.default_rng(0).permutation(len(matrix))
    assert np.array_equal(balanced_forman(matrix[order][:, order]), balanced_forman(matrix)[order][:, order])


def test_graphs_without_edges_have_none():
    for num_nodes in (0, 1, 3):
        assert not balanced_forman(np.zeros((num_nodes, num_nodes))).any()


def test_weights_and_directions_are_refused():
    with pytest.raises(ValueError, match=r"'adjacency' must hold zeros and ones \(got weights\)"):
        balanced_forman([[0, 0.5], [0.5, 0]])
    with pytest.raises(ValueError, match="'adjacency' must be symmetric"):
        balanced_forman([[0, 1], [0, 0]])
