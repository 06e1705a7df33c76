"""From vertices to their arcs and back."""

import pytest
import torch
from graphs import SYMMETRIC, random_graph

from gump import EulerianLineGraph
from gump.nn.incidence import _lists, at_arcs, sum_of_incoming

GRAPHS = {
    **SYMMETRIC,
    "random": random_graph(0),  # with self-loops and isolated vertices
    "other": random_graph(1),
    "no edges": (torch.empty(2, 0, dtype=torch.long), 3),
    "nothing": (torch.empty(2, 0, dtype=torch.long), 0),
}
every_graph = pytest.mark.parametrize("name", GRAPHS)
every_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
DIRECTED = pytest.mark.parametrize("directed", [False, True])


def normal(*shape, dtype, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype).requires_grad_()


@every_graph
@every_precision
@DIRECTED
@pytest.mark.parametrize("ends", ["first", "second", "both"])
def test_an_arc_gets_what_its_ends_have_and_hands_back_their_gradient(name, dtype, directed, ends):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name], directed=directed)
    x, y = (normal(line_graph.num_nodes, 4, dtype=dtype, seed=seed) for seed in range(2))
    source, target = line_graph.arcs
    if ends == "both":
        ours, plain, inputs = at_arcs(x, y, line_graph), x[source] + y[target], [x, y]
    elif ends == "first":
        ours, plain, inputs = at_arcs(x, None, line_graph), x[source], [x]
    else:
        ours, plain, inputs = at_arcs(None, y, line_graph), y[target], [y]
    torch.testing.assert_close(ours, plain)
    grads = [torch.autograd.grad(out.pow(3).sum(), inputs) for out in (ours, plain)]
    torch.testing.assert_close(*grads)


@every_graph
@every_precision
@DIRECTED
def test_a_vertex_gets_the_sum_of_the_arcs_that_end_there_and_hands_back_its_gradient(name, dtype, directed):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name], directed=directed)
    h = normal(line_graph.num_arcs, 4, dtype=dtype)
    plain = h.new_zeros(line_graph.num_nodes, 4).index_add(0, line_graph.arcs[1], h)
    ours = sum_of_incoming(h, line_graph)
    torch.testing.assert_close(ours, plain)
    grads = [torch.autograd.grad(out.pow(3).sum(), h) for out in (ours, plain)]
    torch.testing.assert_close(*grads)


@every_precision
def test_a_part_of_the_arcs_is_that_part_of_all(dtype):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS["random"])
    x, y = (normal(line_graph.num_nodes, 4, dtype=dtype, seed=seed) for seed in range(2))
    part = slice(3, 11)
    ours, plain = at_arcs(x, y, line_graph, arcs=part), at_arcs(x, y, line_graph)[part]
    torch.testing.assert_close(ours, plain)
    grads = [torch.autograd.grad(out.pow(3).sum(), [x, y]) for out in (ours, plain)]
    torch.testing.assert_close(*grads)


def test_a_gradient_may_be_a_view_with_any_strides():
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS["grid"])
    x = normal(line_graph.num_nodes, 4, dtype=torch.float32)
    (ours,) = torch.autograd.grad(at_arcs(x, None, line_graph).sum(), x)
    degree = line_graph.arcs[0].bincount(minlength=line_graph.num_nodes)
    torch.testing.assert_close(ours, degree.float().unsqueeze(1).expand(-1, 4))


def test_lists_are_for_single_precision_and_both_ways_can_be_differentiated_twice():
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS["random"])
    x = normal(line_graph.num_nodes, 2, dtype=torch.float32)
    assert _lists(line_graph, x) is not None
    assert _lists(line_graph, x.double()) is None
    source, target = line_graph.arcs
    plain = torch.zeros_like(x).index_add(0, target, x[source] + x[target])
    ours = sum_of_incoming(at_arcs(x, x, line_graph), line_graph)
    torch.testing.assert_close(_second(ours, x), _second(plain, x))


def _second(out, x):
    (first,) = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)
    return torch.autograd.grad(first.pow(2).sum(), x)[0]


def test_replicas_side_by_side_are_one_after_the_other():
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS["random"])
    x = normal(3, line_graph.num_nodes, 4, dtype=torch.float32)
    together = torch.vmap(lambda x: sum_of_incoming(at_arcs(x, 2 * x, line_graph), line_graph))(x)
    alone = torch.stack([sum_of_incoming(at_arcs(one, 2 * one, line_graph), line_graph) for one in x])
    torch.testing.assert_close(together, alone)
