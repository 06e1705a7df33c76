"""Greedy total resistance against trying every edge."""

from itertools import combinations

import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, barbell, path, random_graph
from simple_graphs import renumbered, simple_graph, to_matrix
from torch_geometric.data import Data

from gump.linalg.spectrum import effective_resistance
from gump.transforms.gtr import GTR


def total_resistance(matrix):
    """Over all pairs of vertices that a path connects."""
    resistance = effective_resistance(matrix)
    return resistance[np.isfinite(resistance)].sum() / 2


def with_edge(matrix, u, v):
    matrix = matrix.copy()
    matrix[u, v] = matrix[v, u] = 1
    return matrix


TWO_PATHS = simple_graph(torch.cat([path(7)[0], path(5)[0] + 7], dim=1), 13)
RANDOM = [random_graph(seed, 10, 11) for seed in range(6)]
GRAPHS = [*(simple_graph(*g) for g in (*SYMMETRIC.values(), path(7), *RANDOM)), TWO_PATHS]


@pytest.mark.parametrize("data", GRAPHS)
def test_every_edge_is_the_best_that_could_be_added(data):
    before = to_matrix(data)
    connected = np.isfinite(effective_resistance(before))
    for num_edges in range(1, 7):
        options = [(u, v) for u, v in combinations(range(len(before)), 2) if connected[u, v] and not before[u, v]]
        after = to_matrix(GTR(num_edges)(data))
        if not options:
            assert np.array_equal(after, before)
            break
        added = np.argwhere(np.triu(after - before))
        assert len(added) == 1
        assert connected[tuple(added[0])]
        best = min(total_resistance(with_edge(before, u, v)) for u, v in options)
        assert total_resistance(after) == pytest.approx(best, rel=1e-9)
        assert best < total_resistance(before)
        before = after


def test_updates_stay_accurate_over_many_edges():
    data = simple_graph(*barbell(12))
    after = to_matrix(GTR(num_edges=100)(data))
    before = to_matrix(GTR(num_edges=99)(data))
    options = [(u, v) for u, v in combinations(range(24), 2) if not before[u, v]]
    best = min(total_resistance(with_edge(before, u, v)) for u, v in options)
    assert total_resistance(after) == pytest.approx(best, rel=1e-9)


def test_the_larger_component_comes_first():
    """By hand: an edge between the ends of a path makes a ring of it, and the ring of seven gains more than the ring of five."""
    added = np.argwhere(np.triu(to_matrix(GTR(num_edges=1)(TWO_PATHS)) - to_matrix(TWO_PATHS)))
    assert added.max() < 7
    rings = to_matrix(GTR(num_edges=1)(simple_graph(*path(4)))) - to_matrix(simple_graph(*path(4)))
    assert np.argwhere(np.triu(rings)).tolist() == [[0, 3]]


def test_it_crosses_the_bridge_of_a_barbell():
    added = np.argwhere(np.triu(to_matrix(GTR(num_edges=4)(simple_graph(*barbell(5)))) - to_matrix(simple_graph(*barbell(5)))))
    assert (added[:, 0] < 5).all()
    assert (added[:, 1] >= 5).all()


def test_components_stay_apart_and_are_filled():
    data = simple_graph(torch.tensor([[0, 1, 3, 4], [1, 2, 4, 5]]), 8)
    full = GTR(num_edges=50)(data)
    assert np.array_equal(np.isfinite(effective_resistance(to_matrix(full))), np.isfinite(effective_resistance(to_matrix(data))))
    assert full.num_edges == 2 * 3 * 2


def gains(matrix):
    options = [(u, v) for u, v in combinations(range(len(matrix)), 2) if not matrix[u, v]]
    return sorted(total_resistance(with_edge(matrix, u, v)) for u, v in options)


def test_the_numbering_does_not_matter_without_ties():
    tested = 0
    for seed in range(30):
        data = Data(edge_index=simple_graph(*random_graph(seed, 9, 13)).edge_index, num_nodes=8)
        best = gains(to_matrix(data))
        if not np.isfinite(effective_resistance(to_matrix(data))).all() or best[1] - best[0] < 1e-3:
            continue
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
        moved = to_matrix(GTR(num_edges=1)(renumbered(data, order)))
        assert np.array_equal(moved[order][:, order], to_matrix(GTR(num_edges=1)(data)))
        tested += 1
    assert tested >= 5


@pytest.mark.parametrize("data", GRAPHS)
def test_with_ties_the_resistance_after_one_edge_does_not_depend_on_it(data):
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    moved = renumbered(data, order)
    totals = [total_resistance(to_matrix(GTR(num_edges=1)(each))) for each in (data, moved)]
    assert totals[0] == pytest.approx(totals[1])


def test_among_equals_the_first_is_added():
    ring = simple_graph(*SYMMETRIC["ring"])
    assert np.argwhere(np.triu(to_matrix(GTR(num_edges=1)(ring)) - to_matrix(ring))).tolist() == [[0, 3]]


def test_repr_and_refusal():
    assert repr(GTR()) == "GTR(num_edges=10, relation=False)"
    with pytest.raises(ValueError, match=r"'num_edges' must not be negative \(got -1\)"):
        GTR(-1)
