"""One law over every layer: it equals its formula with a dense operator."""

import pytest
import torch
from graphs import SYMMETRIC, random_graph

from gump import EulerianLineGraph
from gump.nn import ArcFeatures, Propagation, conv

GRAPHS = {**SYMMETRIC, "random": random_graph(0)}
LAYERS = pytest.mark.parametrize("name", [name for name in conv.__all__ if name.startswith("Arc")])


def gcn(layer, u, h):
    return u @ h @ layer.lin.weight.t() + layer.lin.bias


def gin(layer, u, h):
    hidden = torch.relu(((1 + layer.eps) * h + u @ h) @ layer.lin.weight.t() + layer.lin.bias)
    return hidden @ layer.lin_out.weight.t() + layer.lin_out.bias


def graph_conv(layer, u, h):
    return h @ layer.lin_root.weight.t() + u @ h @ layer.lin.weight.t() + layer.lin_root.bias


FORMULAS = {"ArcGCNConv": gcn, "ArcGINConv": gin, "ArcGraphConv": graph_conv}


def layer_of(name, *args, **kwargs):
    torch.manual_seed(0)
    layer = getattr(conv, name)(*args, **kwargs).double()
    for parameter in layer.parameters():
        if parameter.dim() == 0:
            torch.nn.init.constant_(parameter, 0.3)
    return layer


def setting(graph, attr_width):
    """An operator that is not orthogonal, and arc features."""
    edge_index, num_nodes = GRAPHS[graph]
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    torch.manual_seed(1)
    blocks = [torch.randn(g.num_blocks, g.degree, g.degree, dtype=torch.float64) for g in line_graph.groups]
    attr = torch.randn(line_graph.num_arcs, attr_width, dtype=torch.float64) if attr_width else None
    features = ArcFeatures(torch.randn(num_nodes, 2, dtype=torch.float64, requires_grad=True), line_graph, attr)
    return Propagation(blocks, line_graph), features


@LAYERS
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("attr_width", [0, 3])
def test_every_layer_is_its_formula_on_rows_and_on_features(name, graph, attr_width):
    propagate, features = setting(graph, attr_width)
    layer = layer_of(name, 4 + attr_width, 5)
    h, leaves = features.dense(), [features.x, *layer.parameters()]
    results = [layer(h, propagate), layer(features, propagate), FORMULAS[name](layer, propagate.matrix().to_dense(), h)]
    grads = [torch.autograd.grad(result.pow(2).sum(), leaves, retain_graph=True) for result in results]
    for result, grad in zip(results[:2], grads[:2], strict=True):
        torch.testing.assert_close(result, results[2])
        for ours, theirs in zip(grad, grads[2], strict=True):
            torch.testing.assert_close(ours, theirs)


@LAYERS
def test_reset_parameters_draws_what_a_new_layer_would_have(name):
    layer = layer_of(name, 6, 5).float()
    used = {key: value.clone() for key, value in layer.state_dict().items()}
    torch.manual_seed(7)
    layer.reset_parameters()
    torch.manual_seed(7)
    fresh = getattr(conv, name)(6, 5).state_dict()
    for key, value in layer.state_dict().items():
        assert torch.equal(value, fresh[key])
        assert not torch.equal(value, used[key])


def test_the_nonlinearity_of_the_gin_flavor_can_be_chosen():
    propagate, features = setting("grid", 0)
    layer = layer_of("ArcGINConv", 4, 5, act=lambda h: h)
    u, h = propagate.matrix().to_dense(), features.dense()
    expected = layer.lin_out(layer.lin(1.3 * h + u @ h))
    torch.testing.assert_close(layer(features, propagate), expected)
    torch.testing.assert_close(layer(h, propagate), expected)
