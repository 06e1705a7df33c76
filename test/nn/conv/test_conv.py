"""One law over every layer: it equals its formula with a dense operator."""

import math

import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch.nn.utils.prune import identity, random_unstructured

from gump import EulerianLineGraph
from gump.nn import ArcFeatures, Coin, Propagation, conv, mean_of_incoming

GRAPHS = {**SYMMETRIC, "random": random_graph(0)}
LAYERS = pytest.mark.parametrize("name", [name for name in conv.__all__ if name.startswith("Arc")])


def gcn(layer, u, h):
    return u @ h @ layer.lin.weight.t() + layer.lin.bias


def gin(layer, u, h):
    hidden = torch.relu(((1 + layer.eps) * h + u @ h) @ layer.lin.weight.t() + layer.lin.bias)
    return hidden @ layer.lin_out.weight.t() + layer.lin_out.bias


def graph_conv(layer, u, h):
    return h @ layer.lin_root.weight.t() + u @ h @ layer.lin.weight.t() + layer.lin_root.bias


def gcnii(layer, u, h):
    return u @ h @ layer.lin.weight.t()


FORMULAS = {"ArcGCNConv": gcn, "ArcGCNIIConv": gcnii, "ArcGINConv": gin, "ArcGraphConv": graph_conv}


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


@pytest.mark.parametrize("on_features", [False, True])
def test_the_gcnii_flavor_mixes_in_the_first_states_and_stays_near_the_identity(on_features):
    propagate, features = setting("grid", 0)
    layer, h = layer_of("ArcGCNIIConv", 4, 4, alpha=0.3, theta=0.8, layer=2), features.dense()
    first, beta = torch.randn_like(h), math.log(0.8 / 2 + 1)
    mixed = 0.7 * propagate.matrix().to_dense() @ h + 0.3 * first
    expected = (1 - beta) * mixed + beta * mixed @ layer.lin.weight.t()
    torch.testing.assert_close(layer(features if on_features else h, propagate, first=first), expected)


def test_many_layers_of_the_gcnii_flavor_without_weights_are_a_resolvent_of_the_operator():
    edge_index, num_nodes = GRAPHS["random"]
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    grover = [
        torch.full((g.num_blocks, g.degree, g.degree), 2 / g.degree).double() - torch.eye(g.degree) for g in line_graph.groups
    ]
    propagate, alpha = Propagation(grover, line_graph), 0.2
    layer = layer_of("ArcGCNIIConv", 3, 3, alpha=alpha, theta=0.0)
    assert not list(layer.parameters())
    h = first = torch.randn(line_graph.num_arcs, 3, dtype=torch.float64)
    for _ in range(200):
        h = layer(h, propagate, first=first)
    identity = torch.eye(line_graph.num_arcs, dtype=torch.float64)
    resolvent = alpha * torch.linalg.inv(identity - (1 - alpha) * propagate.matrix().to_dense())
    torch.testing.assert_close(h, resolvent @ first)
    torch.testing.assert_close(resolvent.sum(1), torch.ones(line_graph.num_arcs, dtype=torch.float64))


@pytest.mark.parametrize("name", GRAPHS)
def test_vertices_read_chebyshev_polynomials_of_the_random_walk_from_a_walk_with_the_grover_coin(name):
    edge_index, num_nodes = GRAPHS[name]
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    x = torch.randn(num_nodes, 3, dtype=torch.float64)
    features = ArcFeatures(x, line_graph)
    coin = Coin(6, kind="grover")
    propagate = Propagation(coin(x, line_graph), line_graph, hubs=coin.hubs(x, line_graph))
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    adjacency[line_graph.arcs[0], line_graph.arcs[1]] = 1
    walk, joined = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1), adjacency.sum(1) > 0
    state, before, now = features.dense(), walk @ x, x  # T_-1 = T_1
    for _ in range(6):
        state, before, now = propagate(state), now, 2 * walk @ now - before
        read = mean_of_incoming(state, line_graph)
        torch.testing.assert_close(read[joined], torch.cat([before, now], dim=1)[joined])


@LAYERS
@pytest.mark.parametrize("on_features", [False, True])
@pytest.mark.parametrize("width", [4, 3])
def test_a_pruned_layer_learns_and_what_was_pruned_does_not(name, on_features, width):
    propagate, features = setting("grid", 0)
    layer, h = layer_of(name, 4, width), features._replace(x=features.x.detach())
    h = h if on_features else h.dense()
    random_unstructured(layer.lin, "weight", 0.5)
    for _ in range(2):  # a pruned weight is computed anew when the layer is called
        layer(h, propagate).sum().backward()
    pruned = layer.lin.weight_mask == 0
    assert not layer.lin.weight_orig.grad[pruned].any()
    assert layer.lin.weight_orig.grad[~pruned].all()


@LAYERS
@pytest.mark.parametrize("width", [4, 3])
def test_the_hooks_of_a_layer_see_rows_and_change_what_it_returns(name, width):
    propagate, features = setting("random", 0)
    layer, seen = layer_of(name, 4, width), []
    linear = [module for module in layer.modules() if isinstance(module, torch.nn.Linear)]
    plain = layer(features, propagate)
    hooks = [module.register_forward_hook(lambda _, inputs, out: seen.append(inputs[0])) for module in linear]
    torch.testing.assert_close(layer(features, propagate), plain)
    assert [h.shape[0] for h in seen] == [features.line_graph.num_arcs] * len(linear)
    for hook in hooks:
        hook.remove()
    layer.lin.register_forward_hook(lambda _, inputs, out: out + 1)
    assert not torch.allclose(layer(features, propagate), plain)


@LAYERS
def test_what_was_pruned_is_so_in_a_layer_that_loads_it(name):
    propagate, features = setting("random", 0)
    layer, other = layer_of(name, 4, 3), layer_of(name, 4, 3)
    random_unstructured(layer.lin, "weight", 0.5)
    identity(other.lin, "weight")
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(features, propagate), layer(features, propagate))


@pytest.mark.parametrize(
    ("name", "value"), [("alpha", -0.1), ("alpha", 1.5), ("theta", -1.0), ("theta", math.inf), ("layer", 0), ("layer", -1)]
)
def test_the_gcnii_flavor_refuses_what_is_no_share_or_rate(name, value):
    with pytest.raises(ValueError, match=f"'{name}' must be"):
        layer_of("ArcGCNIIConv", 4, 4, **{name: value})


@LAYERS
@pytest.mark.parametrize(("operator", "kind"), [(GRAPHS["random"][0], "Tensor"), (None, "NoneType"), ([], "list")])
def test_what_is_not_the_operator_is_refused(name, operator, kind):
    with pytest.raises(
        TypeError, match=rf"'propagate' must be a gump.nn.Propagation, .* \(got {kind}\); gump.nn.GUMP takes x and edge_index"
    ):
        layer_of(name, 4, 4)(torch.randn(GRAPHS["random"][1], 4, dtype=torch.float64), operator)
