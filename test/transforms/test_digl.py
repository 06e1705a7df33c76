"""Diffusion against its dense formula."""

import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, path, random_graph, star
from torch_geometric.data import Data
from torch_geometric.transforms import GDC
from torch_geometric.utils import to_dense_adj, to_undirected

from gump.transforms.digl import DIGL


def graph(edge_index, num_nodes):
    return Data(edge_index=to_undirected(edge_index, num_nodes=num_nodes), x=torch.ones(num_nodes, 1, dtype=torch.float64))


def pagerank(data, alpha):
    adjacency = np.zeros((data.num_nodes, data.num_nodes))
    for u, v in data.edge_index.t().tolist():
        adjacency[u, v] = 1
    np.fill_diagonal(adjacency, 1)
    root = np.sqrt(adjacency.sum(1))
    return alpha * np.linalg.inv(np.eye(len(root)) - (1 - alpha) * adjacency / root[:, None] / root)


def dense(data, edge_weight=None):
    return to_dense_adj(data.edge_index, edge_attr=edge_weight, max_num_nodes=data.num_nodes)[0].numpy()


GRAPHS = [graph(*g) for g in (*SYMMETRIC.values(), path(12), *(random_graph(seed, 12, 16) for seed in range(4)))]


@pytest.mark.parametrize("data", GRAPHS)
@pytest.mark.parametrize(("alpha", "eps"), [(0.1, 0.05), (0.15, 0.02), (0.5, 0.1)])
def test_edges_are_the_large_entries_of_pagerank(data, alpha, eps):
    scores = pagerank(data, alpha)
    assert np.array_equal(dense(DIGL(alpha, eps)(data)), scores >= eps - 1e-12)


@pytest.mark.parametrize("data", GRAPHS)
def test_weights_are_normalized_over_the_edges_that_enter(data):
    rewired = DIGL(keep_weights=True)(data)
    scores = pagerank(data, 0.1)
    scores[scores < 0.05] = 0
    weights = dense(rewired, rewired.edge_weight)
    assert rewired.edge_weight.dtype == torch.float64
    assert weights == pytest.approx(scores / scores.sum(0, keepdims=True), abs=1e-12)
    assert weights.sum(0) == pytest.approx(1)


def test_the_defaults_are_the_published_ones_and_forget_the_weights():
    rewired = DIGL()(GRAPHS[0])
    assert repr(DIGL()) == "DIGL(alpha=0.1, eps=0.05, self_loops=True, keep_weights=False, relation=False)"
    assert "edge_weight" not in rewired
    assert "edge_attr" not in rewired


@pytest.mark.parametrize("data", GRAPHS)
def test_the_defaults_equal_gdc_with_the_published_settings(data):
    published = GDC(
        self_loop_weight=1,
        normalization_in="sym",
        normalization_out="col",
        diffusion_kwargs={"method": "ppr", "alpha": 0.1},
        sparsification_kwargs={"method": "threshold", "eps": 0.05},
        exact=True,
    )(Data(edge_index=data.edge_index[:, data.edge_index[0] != data.edge_index[1]], num_nodes=data.num_nodes))
    assert np.array_equal(dense(DIGL()(data)), dense(published))
    weighted = DIGL(keep_weights=True)(data)
    assert dense(weighted, weighted.edge_weight) == pytest.approx(dense(published, published.edge_attr), abs=1e-6)


def test_a_long_path_loses_nothing_and_gains_what_is_near():
    """By hand: joined are the vertices within some steps, and a walk does not jump."""
    distance = np.abs(np.arange(40)[:, None] - np.arange(40))
    rewired = dense(DIGL()(graph(*path(40)))) > 0
    assert rewired[distance <= 2].all()
    assert not rewired[distance > 5].any()
    assert rewired[distance == 0].all()


def test_an_edge_where_a_walk_is_rarely_found_goes():
    data = graph(*star(30))
    assert DIGL(eps=0.15, self_loops=False)(data).num_edges < data.num_edges


@pytest.mark.parametrize("data", GRAPHS)
def test_self_loops_can_be_left_out(data):
    weighted, without = DIGL(keep_weights=True)(data), DIGL(keep_weights=True, self_loops=False)(data)
    expected = dense(weighted, weighted.edge_weight)
    np.fill_diagonal(expected, 0)
    assert np.array_equal(dense(without, without.edge_weight), expected)
    assert without.num_edges == np.count_nonzero(expected)


@pytest.mark.parametrize("data", GRAPHS)
def test_equal_entries_share_their_fate_also_at_the_threshold(data):
    scores = pagerank(data, 0.1)
    for eps in np.unique(scores[scores > 1e-9].round(12)):
        assert np.array_equal(dense(DIGL(eps=float(eps))(data)), scores >= eps * (1 - 1e-9))


@pytest.mark.parametrize("data", GRAPHS)
def test_the_numbering_does_not_matter(data):
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    moved = Data(x=data.x, edge_index=order[data.edge_index])
    assert np.array_equal(dense(DIGL()(moved))[order][:, order], dense(DIGL()(data)))


def test_a_vertex_alone_meets_itself():
    for num_nodes in (1, 3):
        data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes)
        rewired = DIGL(keep_weights=True)(data)
        assert rewired.edge_index.tolist() == [list(range(num_nodes))] * 2
        assert rewired.edge_weight.tolist() == [1.0] * num_nodes
        assert DIGL(self_loops=False)(data).num_edges == 0


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"'alpha' must satisfy 0 < alpha <= 1 \(got 0\)"):
        DIGL(alpha=0)
    with pytest.raises(ValueError, match=r"'eps' must be above zero \(got 0\)"):
        DIGL(eps=0)
