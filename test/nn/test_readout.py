"""From arc states back to vertices."""

import pytest
import torch
from graphs import SYMMETRIC, path, random_graph

from gump import EulerianLineGraph
from gump.nn import mean_of_incoming

GRAPHS = {**SYMMETRIC, "random": random_graph(0), "other": random_graph(1)}


def states(line_graph, seed=0):
    return torch.randn(line_graph.num_arcs, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow_mean(h, line_graph):
    out = torch.zeros(line_graph.num_nodes, h.size(1), dtype=h.dtype)
    for v in range(line_graph.num_nodes):
        rows = [h[a] for a in range(line_graph.num_arcs) if line_graph.arcs[1, a] == v and line_graph.listed[a]]
        if rows:
            out[v] = sum(rows) / len(rows)
    return out


def test_on_a_path_the_middle_hears_both_ends():
    line_graph = EulerianLineGraph.from_edge_index(*path(3))  # arcs (0, 1), (2, 1), (1, 0), (1, 2)
    assert mean_of_incoming(torch.tensor([[1.0], [3.0], [5.0], [7.0]]), line_graph).tolist() == [[5], [2], [7]]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_the_mean_over_listed_arcs_that_end_there(name, directed):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name], directed=directed)
    h = states(line_graph).requires_grad_()
    torch.testing.assert_close(mean_of_incoming(h, line_graph), slow_mean(h, line_graph))
    grads = [torch.autograd.grad(read(h, line_graph).pow(3).sum(), h)[0] for read in (mean_of_incoming, slow_mean)]
    torch.testing.assert_close(*grads)


def test_a_vertex_where_no_arc_ends_gets_zero():
    directed = EulerianLineGraph.from_edge_index(torch.tensor([[0], [1]]), num_nodes=3, directed=True)
    assert mean_of_incoming(torch.ones(2, 2), directed).tolist() == [[0, 0], [1, 1], [0, 0]]


def test_a_graph_without_edges_reads_zero():
    line_graph = EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=2)
    assert mean_of_incoming(torch.zeros(0, 3), line_graph).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_states_of_other_arcs_are_refused():
    line_graph = EulerianLineGraph.from_edge_index(*path(3))
    with pytest.raises(ValueError, match=r"'h' must have a row for each of the 4 arcs of 'line_graph' \(got 5\)"):
        mean_of_incoming(torch.ones(5, 2), line_graph)
    with pytest.raises(ValueError, match=r"'h' must have shape \[num_arcs, channels\] \(got \[4\]\)"):
        mean_of_incoming(torch.ones(4), line_graph)


@pytest.mark.parametrize("name", GRAPHS)
def test_relabeling_the_vertices_permutes_the_result(name):
    edge_index, num_nodes = GRAPHS[name]
    permutation = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
    before, after = (EulerianLineGraph.from_edge_index(e, num_nodes) for e in (edge_index, permutation[edge_index]))
    table = torch.randn(num_nodes, num_nodes, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    inverse = permutation.argsort()
    expected = mean_of_incoming(table[tuple(before.arcs)], before)
    torch.testing.assert_close(mean_of_incoming(table[tuple(inverse[after.arcs])], after)[permutation], expected)
