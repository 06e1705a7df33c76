"""Effective resistance and commute time between pairs."""

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, clique, path, random_graph, ring

from gump.diagnostics.adjacency import sparse_adjacency
from gump.diagnostics.resistance import commute_time, effective_resistance, resistances


def all_pairs(num_nodes: int) -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(num_nodes), torch.arange(num_nodes)).t()


def test_resistances_by_hand() -> None:
    """In series they add up, in parallel their inverses do."""
    assert effective_resistance(*path(5), torch.tensor([[0, 1], [4, 1]])).tolist() == pytest.approx([4, 0])
    assert effective_resistance(*ring(6), torch.tensor([[0, 0], [3, 1]])).tolist() == pytest.approx([1.5, 5 / 6])
    assert effective_resistance(*clique(5), torch.tensor([[0], [3]])).tolist() == pytest.approx([2 / 5])


@pytest.mark.parametrize("name", SYMMETRIC)
def test_resistance_is_that_of_networkx(name: str) -> None:
    edge_index, num_nodes = SYMMETRIC[name]
    expected = nx.resistance_distance(nx.Graph(edge_index.t().tolist()))
    found = effective_resistance(edge_index, num_nodes, all_pairs(num_nodes)).view(num_nodes, num_nodes)
    for u in range(num_nodes):
        for v in range(num_nodes):
            assert float(found[u, v]) == pytest.approx(expected[u][v])


@pytest.mark.parametrize("seed", range(4))
def test_one_system_for_each_pair_gives_what_the_pseudo_inverse_does_components_and_loops_included(seed: int) -> None:
    edge_index, num_nodes = random_graph(seed)
    adjacency, pairs = sparse_adjacency(edge_index, num_nodes), all_pairs(num_nodes).numpy()
    exact, solved = resistances(adjacency, pairs), resistances(adjacency, pairs, exact=1)
    assert np.isinf(exact).any()
    np.testing.assert_allclose(solved, exact, rtol=1e-8, atol=1e-9)


def test_where_conjugate_gradients_give_up_the_laplacian_is_factorized() -> None:
    assert effective_resistance(*path(5000), torch.tensor([[0, 0], [4999, 10]])).tolist() == pytest.approx([4999, 10])


def test_commute_time_is_the_mean_of_walks() -> None:
    """Hitting times by the linear equations that define them: one more than the mean over neighbors."""
    edge_index, num_nodes = torch.tensor([[0, 1, 2, 2, 5], [1, 2, 0, 3, 6]]), 8  # a triangle with a tail, an edge, a vertex
    adjacency = sparse_adjacency(edge_index, num_nodes).toarray()[:4, :4]
    walk = adjacency / adjacency.sum(1, keepdims=True)

    def hitting(source: int, target: int) -> float:
        others = [v for v in range(4) if v != target]
        times = np.linalg.solve(np.eye(3) - walk[np.ix_(others, others)], np.ones(3))
        return float(times[others.index(source)])

    pairs = torch.tensor([[0, 1, 5, 0, 4, 4], [3, 2, 6, 5, 4, 5]])
    expected = [hitting(0, 3) + hitting(3, 0), hitting(1, 2) + hitting(2, 1), 2, float("inf"), 0, float("inf")]
    assert commute_time(edge_index, num_nodes, pairs).tolist() == pytest.approx(expected)


def test_pairs_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'pairs' must name vertices from 0 to 4 \(got 0 to 5\)"):
        effective_resistance(*path(5), torch.tensor([[0], [5]]))
    with pytest.raises(ValueError, match=r"'pairs' must be two rows of vertices of type torch.long \(got \[2\] of torch.int64\)"):
        commute_time(*path(5), torch.tensor([0, 1]))
