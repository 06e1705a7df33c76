"""Stochastic discrete Ricci flow against a slow one that computes every curvature anew."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, barbell, clique, path, random_graph
from simple_graphs import renumbered, simple_graph, to_matrix

from gump.linalg.curvature import balanced_forman
from gump.transforms.sdrf import SDRF

BEST = float("inf")


def with_edge(matrix, u, v, value=1):
    matrix = matrix.copy()
    matrix[u, v] = matrix[v, u] = value
    return matrix


def candidates(matrix, x, y):
    """Every edge that can be added around (x, y), with what the curvature of (x, y) gains, in the order of the vertices."""
    found = {}
    for i in [x, *(k for k in np.flatnonzero(matrix[x]) if k != y)]:
        for j in [y, *(k for k in np.flatnonzero(matrix[y]) if k != x)]:
            pair = (int(min(i, j)), int(max(i, j)))
            if i != j and not matrix[i, j] and pair not in found:
                found[pair] = (balanced_forman(with_edge(matrix, i, j)) - balanced_forman(matrix))[x, y]
    return found


def slow(matrix, num_iterations, bound=None):
    """The flow that always takes the best candidate."""
    for _ in range(num_iterations):
        start, curvature = matrix, balanced_forman(matrix)
        for x, y in sorted(np.argwhere(np.triu(matrix)).tolist(), key=lambda edge: curvature[tuple(edge)]):
            found = candidates(matrix, x, y)
            if found:
                matrix = with_edge(matrix, *max(found, key=found.__getitem__))
                break
        curvature = balanced_forman(matrix)
        present = np.argwhere(np.triu(matrix)).tolist()
        if bound is not None and present:
            x, y = max(present, key=lambda edge: curvature[tuple(edge)])
            matrix = with_edge(matrix, x, y, int(curvature[x, y] <= bound))
        if matrix is start:
            break
    return matrix


GRAPHS = [simple_graph(*g) for g in (*SYMMETRIC.values(), path(7), *(random_graph(seed, 10, 13) for seed in range(5)))]


@pytest.mark.parametrize("data", GRAPHS)
@pytest.mark.parametrize("bound", [None, 0.5, 1.2])
def test_the_flow_equals_one_that_computes_every_curvature_anew(data, bound):
    rewire = SDRF(8, remove_edges=bound is not None, bound=bound or 0.0, tau=BEST)
    assert np.array_equal(to_matrix(rewire(data)), slow(to_matrix(data), 8, bound))


def test_the_bridge_of_a_barbell_is_supported():
    data = simple_graph(*barbell(5))
    before = balanced_forman(to_matrix(data))[4, 5]
    for seed in range(5):
        rewired = to_matrix(SDRF(num_iterations=1, seed=seed)(data))
        u, v = np.argwhere(np.triu(rewired - to_matrix(data)))[0]
        assert u < 5 <= v
    best = balanced_forman(to_matrix(SDRF(num_iterations=1, tau=BEST)(data)))[4, 5]
    assert best == before + max(candidates(to_matrix(data), 4, 5).values()) > before


def test_candidates_are_drawn_by_the_softmax_of_their_gain():
    data = simple_graph(torch.tensor([[0, 0, 0, 0, 1, 2, 3], [1, 2, 3, 4, 5, 6, 7]]), 8)
    matrix, tau, draws = to_matrix(data), 3.0, 500
    assert balanced_forman(matrix).argmin() == 1  # the edge (0, 1)
    gain = candidates(matrix, 0, 1)
    weight = {pair: np.exp(tau * value) for pair, value in gain.items()}
    drawn = Counter()
    for seed in range(draws):
        rewired = to_matrix(SDRF(1, tau=tau, seed=seed)(data))
        drawn[tuple(np.argwhere(np.triu(rewired - matrix))[0].tolist())] += 1
    assert set(drawn) <= set(weight)
    for pair in weight:
        p = weight[pair] / sum(weight.values())
        assert drawn[pair] / draws == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / draws))
    assert max(weight.values()) > 2 * min(weight.values())


def test_an_edge_above_the_bound_goes_and_no_other():
    data = simple_graph(*clique(5))  # every edge has curvature 5 / 4, and none can be added
    assert SDRF(num_iterations=1, remove_edges=True, bound=1.2)(data).num_edges == data.num_edges - 2
    assert torch.equal(SDRF(remove_edges=True, bound=1.25 + 1e-9)(data).edge_index, data.edge_index)
    assert torch.equal(SDRF(bound=0.0)(data).edge_index, data.edge_index)


def test_an_edge_that_went_and_came_back_is_one_of_the_input():
    data = simple_graph(*clique(5))
    data.edge_attr = torch.arange(1, data.num_edges + 1)
    rewired = SDRF(num_iterations=7, remove_edges=True, bound=1.2, relation=True)(data)
    assert not rewired.edge_type.any()
    assert rewired.edge_attr.min() > 0


def test_an_edge_without_candidates_is_passed_over():
    """Two joined vertices have curvature zero, as the ring has, and come first."""
    data = simple_graph(torch.tensor([[0, 2, 3, 4, 5, 6, 7], [1, 3, 4, 5, 6, 7, 2]]), 8)
    rewired = SDRF(num_iterations=2)(data)
    assert rewired.num_edges == data.num_edges + 4
    assert np.array_equal(to_matrix(rewired)[:2], to_matrix(data)[:2])


def test_components_stay_apart_and_are_filled():
    data = simple_graph(torch.tensor([[0, 1, 3, 4], [1, 2, 4, 5]]), 8)
    full = to_matrix(SDRF(num_iterations=50)(data))
    assert full.sum() == 2 * 3 * 2
    assert not full[:3, 3:].any()
    assert not full[6:].any()


def test_the_numbering_does_not_matter_without_ties():
    tested = 0
    for seed in range(300):
        data = simple_graph(*random_graph(seed, 12, 16))
        matrix = to_matrix(data)
        curvature = balanced_forman(matrix)
        present = np.argwhere(np.triu(matrix))
        values = np.sort(curvature[tuple(present.T)])
        x, y = present[curvature[tuple(present.T)].argmin()]
        gain = sorted(candidates(matrix, x, y).values())
        if values[1] - values[0] < 1e-6 or gain[-1] - gain[-2] < 1e-6:
            continue
        order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(seed))
        moved = to_matrix(SDRF(1, tau=BEST)(renumbered(data, order)))
        assert np.array_equal(moved[order][:, order], to_matrix(SDRF(1, tau=BEST)(data)))
        tested += 1
        if tested == 5:
            return
    pytest.fail(f"only {tested} graphs without ties")


@pytest.mark.parametrize("name", SYMMETRIC)
def test_on_symmetric_graphs_the_first_edge_is_the_same_up_to_symmetry(name):
    data = simple_graph(*SYMMETRIC[name])
    one = nx.from_numpy_array(to_matrix(SDRF(1, tau=BEST)(data)))
    for seed in range(5):
        order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(seed))
        moved = to_matrix(SDRF(1, tau=BEST)(renumbered(data, order)))
        assert nx.is_isomorphic(one, nx.from_numpy_array(moved))


def test_the_seed_decides():
    data = simple_graph(*barbell(6))
    first = [to_matrix(SDRF(seed=seed)(data)) for seed in (0, 0, 1)]
    assert np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])


def test_repr_and_refusal():
    assert repr(SDRF()) == "SDRF(num_iterations=10, remove_edges=False, tau=1.0, bound=0.5, seed=0, relation=False)"
    with pytest.raises(ValueError, match=r"'num_iterations' must not be negative \(got -1\)"):
        SDRF(-1)
    with pytest.raises(ValueError, match=r"'tau' must not be negative \(got -1\)"):
        SDRF(tau=-1)
