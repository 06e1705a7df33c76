"""Linear maps of arc features that never build the features."""

import pytest
import torch
from graphs import SYMMETRIC, random_graph

from gump import EulerianLineGraph
from gump.nn import ArcFeatures, ArcLinear
from gump.nn.arc_linear import input_of

GRAPHS = {**SYMMETRIC, "random": random_graph(0)}


def features(name, attr_width):
    """Features of the arcs of a graph, that ask for gradients."""
    edge_index, num_nodes = GRAPHS[name]
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    attr = torch.randn(line_graph.num_arcs, attr_width, dtype=torch.float64, generator=generator, requires_grad=True)
    return ArcFeatures(x, line_graph, attr if attr_width else None)


def test_rows_are_source_then_target_then_attributes():
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0], [1]]), 2)
    rows = ArcFeatures(torch.tensor([[1.0], [2.0]]), line_graph, torch.tensor([[7.0], [8.0]])).dense()
    assert rows.tolist() == [[1, 2, 7], [2, 1, 8]]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("attr_width", [0, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_a_linear_layer_on_the_rows(name, attr_width, bias):
    h = features(name, attr_width)
    layer = ArcLinear(6 + attr_width, 4, bias=bias).double()
    plain = torch.nn.Linear(6 + attr_width, 4, bias=bias).double()
    plain.load_state_dict(layer.state_dict())
    results = [layer(h), plain(h.dense())]
    torch.testing.assert_close(*results)
    inputs = [h.x] if h.attr is None else [h.x, h.attr]
    grads = [
        torch.autograd.grad(result.pow(3).sum(), [*inputs, *module.parameters()])
        for result, module in zip(results, (layer, plain), strict=True)
    ]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("bias", [False, True])
def test_a_tensor_is_taken_as_by_any_linear_layer(bias):
    layer = ArcLinear(5, 4, bias=bias)
    h = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(layer(h), torch.nn.functional.linear(h, layer.weight, layer.bias))


def test_the_product_leaves_the_bias_out():
    h, layer = features("grid", 2), ArcLinear(8, 4).double()
    torch.testing.assert_close(layer.product(h), layer(h) - layer.bias)


@pytest.mark.parametrize("hooked", [False, True])
def test_a_layer_with_hooks_is_given_rows(hooked):
    h, layer = features("grid", 2), ArcLinear(8, 4).double()
    if hooked:
        layer.register_forward_hook(lambda *_: None)
    given = input_of(layer, h)
    assert torch.equal(given, h.dense()) if hooked else given is h
    assert input_of(layer, given) is given


def test_repr_is_that_of_a_linear_layer():
    assert repr(ArcLinear(6, 4)) == "ArcLinear(in_features=6, out_features=4, bias=True)"
