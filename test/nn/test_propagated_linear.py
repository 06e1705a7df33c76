"""Linear layers of propagated states."""

import pytest
import torch
from graphs import SYMMETRIC, path, random_graph
from torch.autograd import gradcheck
from torch.nn.utils.prune import random_unstructured

from gump import EulerianLineGraph
from gump.nn import ArcGCNConv, ArcGINConv, Coin, Propagation
from gump.nn.propagated_linear import propagated_linear

GRAPHS = {**SYMMETRIC, "path": path(4), "random": random_graph(0)}
ACTS = {"none": None, "relu": torch.relu, "module": torch.nn.ReLU(inplace=True), "tanh": torch.tanh}
needs_mkl = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="the operator is one sparse matrix where torch has MKL"
)


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


def setting(name, dtype=torch.float64, **kwargs):
    """A line graph, blocks without any structure, states, a layer and a scale."""
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name], **kwargs)
    blocks = [normal(g.num_blocks, g.degree, g.degree, dtype=dtype, seed=g.degree) for g in line_graph.groups]
    torch.manual_seed(0)
    return line_graph, blocks, normal(line_graph.num_arcs, 3, dtype=dtype), torch.nn.Linear(3, 5).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("name", GRAPHS)
def test_values_and_gradients_are_those_of_one_after_the_other(name, act, scaled, directed, dtype):
    line_graph, blocks, h, layer = setting(name, dtype, directed=directed)
    scale = torch.tensor(1.5, dtype=dtype, requires_grad=True) if scaled else None
    inputs = [*blocks, h, *layer.parameters(), *([scale] if scaled else [])]
    plain = layer(Propagation(blocks, line_graph, sparse=False)(h, scale))
    plain = plain if ACTS[act] is None else ACTS[act](plain)
    ours = propagated_linear(layer, h, Propagation(blocks, line_graph), scale, ACTS[act])
    torch.testing.assert_close(ours, plain)
    grads = [torch.autograd.grad(out.pow(2).sum(), inputs) for out in (ours, plain)]
    torch.testing.assert_close(
        *grads, rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=1e-3 if dtype == torch.float32 else 1e-10
    )


@needs_mkl
def test_gradients_are_those_of_finite_differences():
    line_graph, blocks, h, layer = setting("random")
    scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)

    def run(h, scale, *blocks):
        return propagated_linear(layer, h, Propagation(list(blocks), line_graph), scale, torch.relu)

    assert gradcheck(run, (h, scale, *blocks))


@needs_mkl
@pytest.mark.parametrize("wanted", ["blocks", "h", "weight", "bias", "scale"])
def test_one_gradient_does_not_need_the_others(wanted):
    line_graph, blocks, h, layer = setting("random")
    leaves = {
        "blocks": blocks[0],
        "h": h,
        "weight": layer.weight,
        "bias": layer.bias,
        "scale": torch.tensor(1.5, dtype=torch.float64),
    }
    for leaf in (*blocks, *leaves.values()):
        leaf.requires_grad_(False)
    leaves[wanted].requires_grad_()
    results = [
        propagated_linear(layer, h, Propagation(blocks, line_graph), leaves["scale"], torch.relu),
        layer(Propagation(blocks, line_graph)(h, leaves["scale"])).relu(),
    ]
    torch.testing.assert_close(*(torch.autograd.grad(out.pow(2).sum(), leaves[wanted]) for out in results))


@needs_mkl
def test_only_the_input_and_the_result_are_kept_for_every_arc():
    line_graph, blocks, h, layer = setting("grid")
    propagate, kept = Propagation(blocks, line_graph), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):
        propagated_linear(layer, h, propagate, act=torch.relu)
    assert sorted(shape[1] for shape in kept if shape[:1] == (line_graph.num_arcs,) and len(shape) == 2) == [3, 5]


def test_hubs_padding_and_half_precision_go_one_after_the_other():
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS["star"])
    torch.manual_seed(0)
    coin, x, layer = Coin(6, 5, max_block=3), torch.randn(6, 3), torch.nn.Linear(3, 5)
    h = torch.randn(line_graph.num_arcs, 3)
    propagate = Propagation(coin(x, line_graph), line_graph, hubs=coin.hubs(x, line_graph))
    assert propagate.operator is None
    torch.testing.assert_close(propagated_linear(layer, h, propagate), layer(propagate(h)))
    blocks = Coin(6, 5)(x, line_graph)
    mask = torch.tensor([True] * 9 + [False])
    padded = Propagation(blocks, line_graph, mask=mask)
    assert padded.operator is None
    torch.testing.assert_close(propagated_linear(layer, h, padded), layer(padded(h)))
    propagate = Propagation(blocks, line_graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert propagated_linear(layer, h, propagate).dtype == torch.bfloat16


@pytest.mark.parametrize("flavor", [ArcGCNConv, ArcGINConv])
def test_a_graph_without_edges_is_legal(flavor):
    line_graph = EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 2)
    out = flavor(3, 5)(torch.empty(0, 3, requires_grad=True), Propagation([], line_graph), torch.relu)
    assert out.shape == (0, 5)
    out.sum().backward()


@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_of_many_results_at_once_are_those_of_each(scaled):
    line_graph, blocks, h, layer = setting("random")
    scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True) if scaled else None
    inputs = [*blocks, h, *layer.parameters(), *([scale] if scaled else [])]
    out, weights = (
        propagated_linear(layer, h, Propagation(blocks, line_graph), scale, torch.relu),
        normal(4, *h.shape[:1], 5).detach(),
    )
    together = torch.autograd.grad(out, inputs, weights, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(out, inputs, weight, retain_graph=True) for weight in weights]
    torch.testing.assert_close(together, tuple(map(torch.stack, zip(*each, strict=True))))


def test_states_of_other_arcs_are_refused():
    line_graph, blocks, h, layer = setting("random")
    with pytest.raises(
        ValueError, match=rf"'h' must have a row for each of the {len(h)} arcs of 'line_graph' \(got {len(h) - 1}\)"
    ):
        propagated_linear(layer, h[1:], Propagation(blocks, line_graph))


def test_layers_with_hooks_are_called():
    line_graph, h = EulerianLineGraph.from_edge_index(*path(5)), normal(8, 6, dtype=torch.float32).requires_grad_()
    propagate = Propagation(Coin(4)(normal(5, 2, dtype=torch.float32), line_graph), line_graph)
    layer, seen = torch.nn.Linear(6, 3), []
    random_unstructured(layer, "weight", 0.5)
    layer.register_forward_hook(lambda *_: seen.append(1))
    for _ in range(2):  # a pruned weight is computed anew when the layer is called
        propagated_linear(layer, h, propagate).sum().backward(retain_graph=True)
    assert len(seen) == 2
    assert not layer.weight_orig.grad[layer.weight_mask == 0].any()
