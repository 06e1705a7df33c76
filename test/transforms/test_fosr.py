"""First-order spectral rewiring against its formulas in loops."""

import math

import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, barbell, path, random_graph, star
from simple_graphs import renumbered, simple_graph, to_matrix
from torch_geometric.data import Data

from gump.linalg.spectrum import spectral_gap
from gump.transforms.fosr import FoSR


def edges(data):
    return {(u, v) for u, v in data.edge_index.t().tolist() if u < v}


def slow_power_step(neighbors, x):
    degree = [len(n) for n in neighbors]
    overlap = sum(x_v * math.sqrt(d) for x_v, d in zip(x, degree, strict=True)) / max(sum(degree), 1)
    x = [x_v - overlap * math.sqrt(d) for x_v, d in zip(x, degree, strict=True)]
    moved = []
    for v, near in enumerate(neighbors):
        moved.append(x[v] + (sum(x[u] / math.sqrt(degree[u] * degree[v]) for u in near) if near else x[v]))
    norm = math.sqrt(sum(x_v**2 for x_v in moved))
    return [x_v / norm for x_v in moved]


def slow(data, num_iterations, initial_power_iterations, seed):
    """The edges that are added, in order, and by how much the closest choice was won."""
    neighbors = [{v for w, v in data.edge_index.t().tolist() if w == u} for u in range(data.num_nodes)]
    x = np.random.default_rng(seed).uniform(-1, 1, data.num_nodes).tolist()
    for _ in range(initial_power_iterations):
        x = slow_power_step(neighbors, x)
    added, margin = [], math.inf
    for _ in range(num_iterations):
        scores = {
            (u, v): x[u] * x[v] / math.sqrt((1 + len(neighbors[u])) * (1 + len(neighbors[v])))
            for v in range(data.num_nodes)
            for u in range(v)
            if u not in neighbors[v]
        }
        u, v = min(scores, key=scores.__getitem__)
        best = sorted([*scores.values(), math.inf])
        margin = min(margin, best[1] - best[0])
        neighbors[u].add(v)
        neighbors[v].add(u)
        added.append((u, v))
        x = slow_power_step(neighbors, x)
    return added, margin


GRAPHS = [simple_graph(*g) for g in (*SYMMETRIC.values(), path(7), *(random_graph(seed, 10, 12) for seed in range(4)))]


@pytest.mark.parametrize("data", [data for data in GRAPHS if data.num_edges < 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_edges_are_those_of_the_formulas(data, seed):
    added, _ = slow(data, 5, 4, seed)
    for num_iterations in range(6):
        rewired = FoSR(num_iterations, initial_power_iterations=4, seed=seed)(data)
        assert edges(rewired) - edges(data) == set(added[:num_iterations])


@pytest.mark.parametrize("num_nodes", [4, 6, 10])
@pytest.mark.parametrize("seed", range(5))
def test_the_gap_of_a_barbell_grows_by_edges_across_the_cut(num_nodes, seed):
    data = simple_graph(*barbell(num_nodes))
    gaps = [spectral_gap(to_matrix(FoSR(k, seed=seed)(data))) for k in range(6)]
    assert (np.diff(gaps) > 0).all()
    assert gaps[-1] > 2 * gaps[0]
    assert all(u < num_nodes <= v for u, v in edges(FoSR(5, seed=seed)(data)) - edges(data))


def test_edges_join_components_also_those_of_one_vertex():
    data = simple_graph(torch.tensor([[0, 1, 0, 3, 4, 3], [1, 2, 2, 4, 5, 5]]), 7)
    assert spectral_gap(to_matrix(data)) < 1e-12
    for seed in range(5):
        rewired = to_matrix(FoSR(num_iterations=4, seed=seed)(data))
        assert rewired[6].any()
        assert spectral_gap(rewired) > 0.01


@pytest.mark.filterwarnings("error")
def test_vertices_without_edges_give_no_warnings():
    for num_nodes in (1, 2, 5):
        data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes)
        assert FoSR(num_iterations=1)(data).num_edges == (2 if num_nodes > 1 else 0)
    FoSR()(simple_graph(torch.tensor([[1], [3]]), 6))


def test_a_complete_graph_is_reached_and_kept():
    data = FoSR(num_iterations=100)(simple_graph(*path(5)))
    assert data.num_edges == 5 * 4
    assert torch.equal(FoSR()(data).edge_index, data.edge_index)


def test_the_numbering_does_not_matter_once_the_eigenvector_is_found():
    """Without ties: the second eigenvalue is simple, and one edge is better than all others."""
    tested = 0
    for seed in range(60):
        data = simple_graph(*random_graph(seed, 9, 14))
        data = Data(edge_index=data.edge_index, num_nodes=8)  # without the vertex that has no edges
        eigenvalues = np.linalg.eigvalsh(slow_normalized(to_matrix(data)))
        if eigenvalues[-1] - eigenvalues[-2] < 0.02 or eigenvalues[-2] - eigenvalues[-3] < 0.1 or slow(data, 3, 300, 0)[1] < 1e-6:
            continue
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
        moved = renumbered(data, order)
        rewire = FoSR(num_iterations=3, initial_power_iterations=300)
        expected = order[rewire(data).edge_index]
        assert edges(rewire(moved)) == edges(Data(edge_index=expected))
        tested += 1
    assert tested >= 5


def slow_normalized(matrix):
    degree = np.maximum(matrix.sum(1), 1)
    return matrix / np.sqrt(np.outer(degree, degree))


def test_the_seed_decides():
    data = simple_graph(*star(9))
    first = [edges(FoSR(seed=seed)(data)) for seed in (0, 0, 1)]
    assert first[0] == first[1] != first[2]


def test_repr_and_refusal():
    assert repr(FoSR()) == "FoSR(num_iterations=10, initial_power_iterations=5, seed=0, relation=False)"
    with pytest.raises(ValueError, match=r"'num_iterations' and 'initial_power_iterations' must not be negative \(got -1 and 5\)"):
        FoSR(-1)
