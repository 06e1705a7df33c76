import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import scipy.linalg
import torch
from graphs import SYMMETRIC, random_graph, ring, star
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, Explanation, GNNExplainer, ModelConfig
from torch_geometric.nn import GCN

from gump import EulerianLineGraph
from gump.linalg import unitarity_error
from gump.nn import COINS, GUMP, PRESETS, ArcFeatures, Propagation
from gump.nn.norm import NoNorm
from gump.transforms import AddLineGraph

CONVS, BASES = ("gcn", "gin", "graph", "gcnii"), ("gcn", "gin", None)
EQUIVARIANT = [coin for coin in COINS if coin != "polar"]  # polar is not, on ties


def permuted(x: torch.Tensor, edge_index: torch.Tensor, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same graph with other numbers for its vertices: vertex v becomes label[v]."""
    label = torch.randperm(x.size(0), generator=torch.Generator().manual_seed(seed))
    return x[label.argsort()], label[edge_index], label


def arc_permutation(before: EulerianLineGraph, after: EulerianLineGraph, label: torch.Tensor) -> torch.Tensor:
    """For every arc of the relabeled graph, which arc of the original it was."""
    number = {tuple(arc): i for i, arc in enumerate(label[before.arcs].t().tolist())}
    return torch.tensor([number[tuple(arc)] for arc in after.arcs.t().tolist()])


GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("equal_features", [True, False])
@pytest.mark.parametrize("coin", EQUIVARIANT)
def test_relabeling_permutes_operator_and_output_and_nothing_else(name: str, equal_features: bool, coin: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    x = torch.ones(num_nodes, 3).double() if equal_features else torch.randn(num_nodes, 3).double()
    model = GUMP(3, 8, 6, coin=coin).double().eval()
    x2, edge_index2, label = permuted(x, edge_index)
    order = arc_permutation(*(EulerianLineGraph.from_edge_index(e, num_nodes) for e in (edge_index, edge_index2)), label)
    matrix, matrix2 = model.propagation_matrix(x, edge_index).to_dense(), model.propagation_matrix(x2, edge_index2).to_dense()
    assert (matrix[order][:, order] - matrix2).abs().max() < 1e-10
    assert (model(x, edge_index) - model(x2, edge_index2)[label]).abs().max() < 1e-7


@pytest.mark.parametrize(("conv", "base"), list(itertools.product(CONVS, BASES)))
def test_a_batch_of_graphs_equals_its_members(conv: str, base: str | None) -> None:
    torch.manual_seed(0)
    members = []
    for edge_index, num_nodes in [*GRAPHS.values(), (torch.empty(2, 0, dtype=torch.long), 2)]:
        members.append(AddLineGraph()(Data(x=torch.randn(num_nodes, 3).double(), edge_index=edge_index)))
    batch = Batch.from_data_list(members)
    model = GUMP(3, 8, 4, conv=conv, base=base).double().eval()
    together = model(batch.x, batch.edge_index, batch=batch.batch, line_graph=EulerianLineGraph.from_data(batch))
    alone = torch.cat([model(g.x, g.edge_index) for g in members])
    assert (together - alone).abs().max() < 1e-12


@pytest.mark.parametrize("coin", ["bounded", "polar"])
def test_the_operator_is_the_polar_factor_of_the_whole_matrix(coin: str) -> None:
    edge_index, num_nodes = random_graph(1)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, 3).double()
    model = GUMP(3, 8, 2, coin=coin, base=None).double()
    start = model.start(x, edge_index)
    scores = model.coin.scores(*start)
    blocks = scores if coin == "polar" else [model.coin.perturbed(b) for b in scores]
    dense = Propagation(blocks, start.line_graph).matrix().to_dense()
    assert torch.linalg.svdvals(dense)[-1] > 1e-6
    expected = torch.from_numpy(scipy.linalg.polar(dense.detach().numpy())[0])
    assert (model.propagation_matrix(x, edge_index).to_dense() - expected).abs().max() < 1e-6


def test_one_layer_of_the_gcn_flavor_is_the_formula() -> None:
    edge_index, num_nodes = random_graph(2)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, 3).double()
    model = GUMP(3, 8, 2, base=None, norm=None).double()
    x0 = model.encoder(x)
    source, target = EulerianLineGraph.from_edge_index(edge_index, num_nodes).arcs
    operator = model.propagation_matrix(x, edge_index).to_dense()
    h = torch.cat([x0[source], x0[target]], dim=1)
    for conv in model.convs:
        h = torch.relu(operator @ h @ conv.lin.weight.t() + conv.lin.bias)
    states = [h[target == v].mean(0) if bool((target == v).any()) else torch.zeros(8) for v in range(num_nodes)]
    assert (model(x, edge_index) - torch.cat([x0, torch.stack(states)], dim=1)).abs().max() < 1e-12


@pytest.mark.parametrize("dropout", [0.0, 1.0])
def test_three_layers_of_the_gcnii_flavor_are_the_formula_with_first_states_from_before_dropout(dropout: float) -> None:
    edge_index, num_nodes = random_graph(2)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, 3).double()
    model = GUMP(3, 8, 3, conv="gcnii", base=None, norm=None, alpha=0.3, theta=0.8, dropout=dropout).double()
    last: list[torch.Tensor] = []
    model.convs[2].register_forward_hook(lambda module, args, out: last.append(out))
    model(x, edge_index)
    x0 = model.encoder(x)
    source, target = EulerianLineGraph.from_edge_index(edge_index, num_nodes).arcs
    operator = model.propagation_matrix(x, edge_index).to_dense()
    first = h = torch.relu(operator @ torch.cat([x0[source], x0[target]], dim=1) @ model.convs[0].lin.weight.t())
    for k in (1, 2):
        mixed = 0.7 * (1 - dropout) * operator @ h + 0.3 * first
        beta = math.log(0.8 / k + 1)
        h = torch.relu((1 - beta) * mixed + beta * mixed @ model.convs[k].lin.weight.t())
    assert (last[0] - h).abs().max() < 1e-12


def test_a_linear_walk_without_weights_is_a_filter_of_vertex_features() -> None:
    edge_index, num_nodes = random_graph(2)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, 3).double()
    settings: dict[str, Any] = {"conv": "gcnii", "base": None, "norm": None, "coin": "grover", "alpha": 0.3, "theta": 0.0}
    model = GUMP(3, 8, 5, linear=True, **settings).double()
    source, target = EulerianLineGraph.from_edge_index(edge_index, num_nodes).arcs
    adjacency = torch.zeros(num_nodes, num_nodes).double()
    adjacency[source, target] = 1
    walk = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
    x0, weight = model.encoder(x), model.convs[0].lin.weight
    polynomials = [x0, walk @ x0]
    while len(polynomials) < 6:
        polynomials.append(2 * walk @ polynomials[-1] - polynomials[-2])
    amounts = [0.3, 0.3 * 0.7, 0.3 * 0.7**2, 0.3 * 0.7**3, 0.7**4]
    pairs = [torch.cat(pair, dim=1) for pair in itertools.pairwise(polynomials)]
    expected = sum(amount * pair @ weight.t() for amount, pair in zip(amounts, pairs, strict=True))
    joined = adjacency.sum(1) > 0
    assert (model(x, edge_index)[:, 8:] - expected)[joined].abs().max() < 1e-12
    assert (GUMP(3, 8, 5, **settings).double()(x, edge_index)[:, 8:] >= 0).all(), "with the nonlinearity"


@pytest.mark.parametrize("conv", CONVS)
def test_layers_of_a_linear_model_keep_the_energy_of_a_signal_at_first(conv: str) -> None:
    torch.manual_seed(0)
    weights = [
        layer.weight
        for layer in GUMP(3, 200, 3, conv=conv, linear=True, theta=0.5).convs.modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    for weight in weights:
        assert abs(float(weight.var() * weight.size(1)) - 1) < 0.05


@pytest.mark.parametrize(("conv", "coin"), list(itertools.product(CONVS, ["bounded", "polar", "newton_schulz"])))
def test_a_hundred_layers_stay_finite(conv: str, coin: str) -> None:
    edge_index, num_nodes = ring(20)
    torch.manual_seed(0)
    model = GUMP(3, 16, 100, conv=conv, coin=coin)
    out = model(torch.randn(num_nodes, 3), edge_index)
    out.square().mean().backward()
    assert out.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_without_norm_first_and_last_of_a_hundred_layers_get_gradients_of_one_order() -> None:
    edge_index, num_nodes = SYMMETRIC["grid"]
    torch.manual_seed(0)
    model = GUMP(3, 32, 100, norm=None)
    model(torch.randn(num_nodes, 3), edge_index).square().mean().backward()
    first, last = (model.convs[k].lin.weight.grad.norm() for k in (1, -1))
    assert 1e-2 < first / last < 1e2


@pytest.mark.parametrize("conv", CONVS)
def test_after_fifty_steps_the_operator_is_still_unitary_and_has_moved(conv: str) -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    x, y = torch.randn(num_nodes, 3), torch.randint(2, (num_nodes,))
    model = GUMP(3, 16, 5, out_channels=2, conv=conv)
    before = model.propagation_matrix(x, edge_index).to_dense().detach()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(50):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edge_index), y).backward()
        optimizer.step()
    after = model.propagation_matrix(x, edge_index).to_dense().detach()
    assert unitarity_error(after) < 1e-5
    assert (after - before).abs().max() > 1e-2


def test_gradients_reach_every_parameter_of_the_coin() -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    model = GUMP(3, 8, 3)
    model(torch.randn(num_nodes, 3), edge_index).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.coin.parameters())


@pytest.mark.parametrize("name", ["star", "barbell", "random 0"])
@pytest.mark.parametrize("equal_features", [True, False])
@pytest.mark.parametrize("max_block", [1, 2, 3])
def test_with_bilinear_scores_the_largest_block_is_a_matter_of_speed_alone(name: str, equal_features: bool, max_block: int) -> None:
    edge_index, num_nodes = GRAPHS[name]
    x = torch.ones(num_nodes, 3).double() if equal_features else torch.randn(num_nodes, 3).double()
    results = []
    for largest in (max_block, 100):
        torch.manual_seed(0)
        model = GUMP(3, 8, 4, norm="layer", scores="bilinear", max_block=largest).double()
        out = model(x, edge_index)
        (out**3).sum().backward()
        results.append([out, model.propagation_matrix(x, edge_index).to_dense(), *(p.grad for p in model.parameters())])
    for hubs, dense in zip(*results, strict=True):
        torch.testing.assert_close(hubs, dense, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scores", ["additive", "bilinear"])
def test_hubs_of_different_degrees_keep_the_operator_unitary_and_train(scores: str) -> None:
    edge_index, num_nodes = random_graph(3, num_nodes=40, num_edges=300)
    torch.manual_seed(0)
    model, x = GUMP(3, 8, 3, scores=scores, max_block=8), torch.randn(num_nodes, 3)
    matrix = model.propagation_matrix(x, edge_index).to_dense().detach()
    torch.testing.assert_close(matrix.t() @ matrix, torch.eye(matrix.size(0)), rtol=0, atol=1e-5)
    model(x, edge_index).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad is not None and p.grad.norm() > 0 for p in model.coin.parameters())


def test_two_stars_are_what_each_is_alone() -> None:
    graphs = [Data(x=torch.randn(n + 1, 3).double(), edge_index=star(n)[0]) for n in (70, 100)]
    torch.manual_seed(0)
    model = GUMP(3, 8, 3, max_block=4).double().eval()
    batch = Batch.from_data_list(graphs)
    torch.testing.assert_close(model(batch.x, batch.edge_index), torch.cat([model(g.x, g.edge_index) for g in graphs]))


@pytest.mark.parametrize("max_block", [4, 200])
@pytest.mark.parametrize("coin", ["bounded", "grover", "ones"])
@pytest.mark.parametrize("broken", [0, 1])
def test_what_is_no_number_in_one_star_stays_there(max_block: int, coin: str, broken: int) -> None:
    graphs = [Data(x=torch.randn(n + 1, 3), edge_index=star(n)[0]) for n in (70, 100)]
    model = GUMP(3, 8, 3, coin=coin, max_block=max_block, norm="layer", base_norm="layer")
    alone = model(graphs[1 - broken].x, graphs[1 - broken].edge_index)
    graphs[broken].x[5] = torch.nan
    batch = Batch.from_data_list(graphs)
    torch.testing.assert_close(model(batch.x, batch.edge_index)[batch.batch != broken], alone)


def test_on_a_ring_with_equal_features_every_seed_learns() -> None:
    edge_index = ring(28)[0]
    graphs = [Data(x=torch.ones(28, 5), edge_index=edge_index) for _ in range(5)]
    for label, graph in enumerate(graphs):
        graph.x[0], graph.x[14] = 0, torch.eye(5)[label]
    batch = Batch.from_data_list(graphs)
    line_graph = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
    for seed in range(10):
        torch.manual_seed(seed)
        model = GUMP(5, 32, 15, out_channels=5)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(100):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index, line_graph=line_graph)[::28]
            torch.nn.functional.cross_entropy(out, torch.arange(5)).backward()
            optimizer.step()
        out = model.eval()(batch.x, batch.edge_index, line_graph=line_graph)[::28]
        assert out.argmax(-1).tolist() == [0, 1, 2, 3, 4], seed


@pytest.mark.parametrize("base", BASES)
def test_one_orientation_both_or_duplicates_are_the_same_graph(base: str | None) -> None:
    edge_index, num_nodes = SYMMETRIC["barbell"]
    torch.manual_seed(0)
    x, weight = torch.randn(num_nodes, 3).double(), torch.rand(edge_index.size(1)).double()
    model = GUMP(3, 8, 4, base=base, edge_dim=1).double().eval()
    out = model(x, edge_index, edge_weight=weight)
    for columns in ([edge_index, edge_index.flip(0)], [edge_index.flip(0)], [edge_index, edge_index]):
        other = model(x, torch.cat(columns, dim=1), edge_weight=weight.repeat(len(columns)))
        assert (out - other).abs().max() < 1e-10


def test_it_is_called_like_the_models_of_pyg() -> None:
    edge_index, num_nodes = random_graph(0)
    x, weight, batch = torch.randn(num_nodes, 3), torch.rand(edge_index.size(1)), torch.zeros(num_nodes, dtype=torch.long)
    for model in (GUMP(3, 8, 2, 4), GCN(3, 8, 2, 4)):
        assert model(x, edge_index, edge_weight=weight, batch=batch).shape == (num_nodes, 4)
    assert GUMP(3, 8, 2)(x, edge_index).shape == (num_nodes, 16)
    assert GUMP(3, 8, 2).out_channels == 16


def test_edge_weights_and_attributes_change_the_output() -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    x, weight, attr = torch.randn(num_nodes, 3), torch.rand(edge_index.size(1)), torch.rand(edge_index.size(1), 2)
    for edge_dim, base, given in [
        (0, "gcn", {"edge_weight": weight}),
        (1, "gin", {"edge_weight": weight}),
        (2, "gin", {"edge_attr": attr}),
        (3, "gcn", {"edge_attr": attr, "edge_weight": weight}),
        (2, "gcn", {"edge_attr": attr, "edge_weight": weight}),
    ]:
        model = GUMP(3, 8, 2, edge_dim=edge_dim, base=base).eval()
        other = {key: value + 1 + value.roll(1, 0) for key, value in given.items()}
        assert (model(x, edge_index, **given) - model(x, edge_index, **other)).abs().max() > 1e-4


def test_attributes_without_a_place_are_refused() -> None:
    edge_index, num_nodes = random_graph(0)
    x, attr = torch.randn(num_nodes, 3), torch.rand(edge_index.size(1), 2)
    with pytest.raises(ValueError, match=r"'edge_dim' must be the number of edge attributes, 2 \(got 0\); pass edge_dim=2$"):
        GUMP(3, 8, 2)(x, edge_index, edge_attr=attr)
    for base in ("gin", None):
        with pytest.raises(ValueError, match=r"'edge_dim' must be .* 1 \(got 0\); pass edge_dim=1 or leave the weights out$"):
            GUMP(3, 8, 2, base=base)(x, edge_index, edge_weight=attr[:, 0])
    with pytest.raises(ValueError, match=r"'edge_attr' must have the 2 columns that 'edge_dim' says \(got none\)"):
        GUMP(3, 8, 2, edge_dim=2)(x, edge_index)


def test_a_directed_graph_differs_from_its_reverse_and_reads_listed_arcs_only() -> None:
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    torch.manual_seed(0)
    x = torch.randn(4, 3)
    model = GUMP(3, 8, 2, directed=True).eval()
    out = model(x, edge_index)
    assert (out - model(x, edge_index.flip(0))).abs().max() > 1e-3
    assert bool((out[0, 8:] == 0).all()), "no listed arc ends at the first vertex"
    assert bool((out[1:, 8:] != 0).any(1).all())


def test_a_graph_without_edges_trains() -> None:
    model = GUMP(3, 8, 2)
    out = model(torch.randn(4, 3), torch.empty(2, 0, dtype=torch.long))
    out.sum().backward()
    assert bool((out[:, 8:] == 0).all())
    assert model(torch.randn(1, 3), torch.empty(2, 0, dtype=torch.long)).shape == (1, 16)
    assert model.propagation_matrix(torch.randn(1, 3), torch.empty(2, 0, dtype=torch.long)).shape == (0, 0)


@pytest.mark.parametrize("feed_forward", [False, True])
def test_checkpointing_changes_memory_and_nothing_else(feed_forward: bool) -> None:
    edge_index, num_nodes = ring(30)
    x = torch.randn(num_nodes, 3, dtype=torch.double)
    results = []
    for checkpoint in (False, True):
        torch.manual_seed(0)
        model = GUMP(3, 8, 12, checkpoint=checkpoint, dropout=0.1, feed_forward=feed_forward).double()
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: s.append(t.nbytes) or t, lambda t: t):
            out = model(x, edge_index)
        torch.manual_seed(1)
        out.square().sum().backward()
        results.append((out, model.convs[0].lin.weight.grad, sum(sizes)))
    (out, grad, kept), (out2, grad2, kept2) = results
    assert torch.equal(out, out2)
    assert (grad - grad2).abs().max() < 1e-12
    assert kept2 < kept / 2


def test_orthogonal_weights_stay_orthogonal() -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    model = GUMP(3, 8, 3, orthogonal_weights=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(num_nodes, 3), edge_index).square().mean().backward()
        optimizer.step()
    trained = [conv.lin.weight.detach() for conv in model.convs]
    model.reset_parameters()
    drawn = [conv.lin.weight.detach() for conv in model.convs]
    assert all((w @ w.t() - torch.eye(8)).abs().max() < 1e-5 for w in trained + drawn)
    assert all((old - new).abs().max() > 1e-2 for old, new in zip(trained, drawn, strict=True))


@pytest.mark.parametrize("conv", CONVS)
def test_the_nonlinearity_is_the_one_that_was_named(conv: str) -> None:
    names = {type(module).__name__ for module in GUMP(3, 8, 2, conv=conv, act="tanh").modules()}
    assert "Tanh" in names
    assert "ReLU" not in names


def test_layers_can_be_averaged_with_learned_weights() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    model = GUMP(3, 8, 3, jk="weighted").eval()
    first = model(x, edge_index)
    with torch.no_grad():
        model.layer_weight.copy_(torch.tensor([-100.0, -100.0, 100.0]))
    last = model(x, edge_index)
    model.layer_weight = None
    assert (first - last).abs().max() > 1e-4
    assert (last - model(x, edge_index)).abs().max() < 1e-6


def test_residual_layers_add_to_their_input() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    torch.manual_seed(0)
    model = GUMP(3, 8, 3, residual=True).eval()
    _, h = model(x, edge_index, return_arcs=True)
    with torch.no_grad():
        for conv, norm in zip(model.convs[1:], model.norms[1:], strict=True):
            conv.lin.weight.zero_()
            norm.bias.zero_()
    _, first = model(x, edge_index, return_arcs=True)
    model.num_layers = 1
    assert (model(x, edge_index, return_arcs=True)[1] - first).abs().max() < 1e-6
    assert (h - first).abs().max() > 1e-4


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("conv", ["gcn", "gin", "graph"])
def test_feed_forward_blocks_follow_every_layer(conv: str, residual: bool) -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3, dtype=torch.double)
    torch.manual_seed(0)
    model = GUMP(3, 8, 3, conv=conv, residual=residual, feed_forward=True).double().eval()
    start = model.start(x, edge_index)
    propagate = Propagation(model.coin(*start), start.line_graph, hubs=model.coin.hubs(*start))
    h: Any = ArcFeatures(start.x, start.line_graph, start.arc_attr)
    for k, layer in enumerate(model.convs):
        new = torch.relu(model.norms[k](layer(h, propagate)))
        h = model.blocks[k](h + new if residual and k else new)
    torch.testing.assert_close(model(x, edge_index, return_arcs=True)[1], h)
    assert not model.encoder.blocks
    assert not GUMP(3, 8, 3, num_base_layers=2, base_feed_forward=True).blocks


def test_arc_states_come_in_the_order_of_the_line_graph() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    out, h = GUMP(3, 8, 2).eval()(x, edge_index, return_arcs=True)
    target = EulerianLineGraph.from_edge_index(edge_index, num_nodes).arcs[1]
    assert (out[target[0], 8:] - h[target == target[0]].mean(0)).abs().max() < 1e-6


def test_the_paper_is_one_name_away() -> None:
    model = GUMP(3, 8, 2, **PRESETS["paper"])
    assert (model.coin.kind, model.coin.num_steps, model.residual) == ("newton_schulz", 10, False)
    assert all(isinstance(norm, NoNorm) for norm in model.norms)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("beta", 0.5, lambda m: m.coin.beta),
        ("num_steps", 3, lambda m: m.coin.num_steps),
        ("scores", "bilinear", lambda m: "bilinear" if m.coin.bilinear else "additive"),
        ("max_block", 7, lambda m: m.coin.max_block),
        ("attention_channels", 5, lambda m: m.coin.lin_score.in_features),
        ("dropout", 0.3, lambda m: m.dropout.p),
        ("dropout", 0.3, lambda m: m.encoder.dropout.p),
        ("num_base_layers", 3, lambda m: m.encoder.num_layers),
        ("base_feed_forward", True, lambda m: bool(m.encoder.blocks)),
        ("base_norm", "layer", lambda m: "layer" if "LayerNorm" in str(type(m.encoder.norms[0])) else "batch"),
        ("norm", "layer", lambda m: "layer" if "LayerNorm" in str(type(m.norms[0])) else "batch"),
    ],
)
def test_arguments_arrive(name: str, value: object, read: Callable[[GUMP], object]) -> None:
    settings = {"num_base_layers": 2, name: value}
    assert read(GUMP(3, 8, 2, **settings)) == value
    assert read(GUMP(3, 8, 2, num_base_layers=2)) != value


def test_dropout_drops_in_training_only() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    model = GUMP(3, 8, 2, base=None, norm=None, dropout=0.5)
    assert not torch.equal(model(x, edge_index), model(x, edge_index))
    model.eval()
    assert torch.equal(model(x, edge_index), model(x, edge_index))


def test_a_directed_model_is_the_formula_with_a_flag() -> None:
    edge_index = torch.tensor([[0, 1, 2, 2], [1, 2, 3, 0]])
    torch.manual_seed(0)
    x = torch.randn(4, 3).double()
    model = GUMP(3, 8, 1, base="gcn", norm=None, base_norm=None, directed=True).double()
    line_graph = EulerianLineGraph.from_edge_index(edge_index, 4, directed=True)
    x0 = torch.relu(model.encoder(x, edge_index))
    source, target = line_graph.arcs
    h = torch.cat([x0[source], x0[target], line_graph.listed.double().unsqueeze(1)], dim=1)
    operator = model.propagation_matrix(x, edge_index).to_dense()
    h = torch.relu(operator @ h @ model.convs[0].lin.weight.t() + model.convs[0].lin.bias)
    real = line_graph.listed
    states = torch.stack([h[real & (target == v)].mean(0) for v in range(4)])
    assert (model(x, edge_index) - torch.cat([x0, states], dim=1)).abs().max() < 1e-12


def test_validating_in_inference_mode_first_does_not_spoil_training() -> None:
    edge_index, num_nodes = random_graph(0)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    model = GUMP(3, 8, 2)
    with torch.inference_mode():
        model(torch.randn(num_nodes, 3), edge_index, line_graph=line_graph)
    model(torch.randn(num_nodes, 3), edge_index, line_graph=line_graph).sum().backward()
    assert model.coin.lin_score.weight.grad is not None


def test_a_model_in_half_precision_runs() -> None:
    edge_index, num_nodes = random_graph(0)
    model = GUMP(3, 8, 2).bfloat16()
    assert model(torch.randn(num_nodes, 3).bfloat16(), edge_index).dtype == torch.bfloat16


def test_an_edgeless_graph_may_have_attributes() -> None:
    empty = torch.empty(2, 0, dtype=torch.long)
    assert GUMP(3, 8, 2, edge_dim=3)(torch.randn(1, 3), empty, edge_attr=torch.empty(0, 3)).shape == (1, 16)


def test_zero_base_layers_mean_no_base() -> None:
    assert GUMP(3, 8, 2, num_base_layers=0).base is None
    assert isinstance(GUMP(3, 8, 2, base=None).encoder, torch.nn.Linear)


def test_reset_parameters_draws_new_ones() -> None:
    model = GUMP(3, 8, 2, jk="weighted", feed_forward=True, base_feed_forward=True, num_base_layers=2)
    before = {name: value.clone() for name, value in model.named_parameters()}
    model.reset_parameters()
    changed = [name for name, value in model.named_parameters() if "weight" in name and "norm" not in name and value.dim() > 1]
    assert changed
    assert all(not torch.equal(before[name], dict(model.named_parameters())[name]) for name in changed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"conv": "gat"}, r"'conv' must be one of 'gcn', 'gin', 'graph', 'gcnii' \(got 'gat'\)"),
        ({"conv": "gcnii", "residual": True}, r"'residual' must be False with conv='gcnii'"),
        ({"base_feed_forward": True}, r"'base_feed_forward' must be False without .*base='gcn' and num_base_layers=1\)"),
        ({"base_feed_forward": True, "base": None, "num_base_layers": 2}, "'base_feed_forward' must be False without .*base=None"),
        ({"base": "gat"}, r"'base' must be one of 'gcn', 'gin', 'graph', None \(got 'gat'\)"),
        ({"norm": "pair"}, "'norm' must be one of"),
        ({"base_norm": "pair"}, "'base_norm' must be one of"),
        ({"jk": "cat"}, "'jk' must be one of"),
        ({"coin": "fair"}, "'coin' must be one of"),
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"num_base_layers": -1}, r"'num_base_layers' must be at least 0 \(got -1\)"),
        ({"edge_dim": -1}, "'edge_dim' must be at least 0"),
    ],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GUMP(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_a_line_graph_of_another_graph_is_refused() -> None:
    edge_index, num_nodes = random_graph(0)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes + 1)
    with pytest.raises(ValueError, match=r"'x' must have a row for each of the 10 vertices of 'line_graph' \(got 9\)"):
        GUMP(3, 8, 2)(torch.randn(num_nodes, 3), edge_index, line_graph=line_graph)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    with pytest.raises(ValueError, match=r"'line_graph' must be that of 'edge_index' with its 13 columns \(got one of 14\)"):
        GUMP(3, 8, 2)(torch.randn(num_nodes, 3), edge_index[:, 1:], line_graph=line_graph)
    with pytest.raises(ValueError, match=r"'line_graph' must be that of 'edge_index' \(got that of other edges\)"):
        GUMP(3, 8, 2)(torch.randn(num_nodes, 3), (edge_index + 1) % num_nodes, line_graph=line_graph)
    with pytest.raises(ValueError, match="'line_graph' must be built with directed=True"):
        GUMP(3, 8, 2, directed=True)(torch.randn(num_nodes, 3), edge_index, line_graph=line_graph)


def test_repr() -> None:
    expected = (
        "GUMP(3, 8, num_layers=2, out_channels=16, conv='gcn', base='gcn', num_base_layers=1, coin=Coin('bounded', beta=0.9))"
    )
    assert repr(GUMP(3, 8, 2)) == expected


def test_base_dropout_drops_features_and_what_the_base_makes_of_them_in_training_alone() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.ones(num_nodes, 4)
    torch.manual_seed(0)
    model = GUMP(4, 32, 2, base=None, norm=None, base_dropout=0.5)
    whole, dropped = model.eval().start(x, edge_index).x, model.train().start(x, edge_index).x
    assert 0.3 < float((dropped == 0).float().mean()) < 0.7, "the result"
    kept = dropped != 0
    assert not torch.allclose(dropped[kept], 2 * whole[kept]), "the features, too"
    torch.testing.assert_close(model.eval().start(x, edge_index).x, whole)
    model.base_dropout.p = 0.0
    torch.testing.assert_close(model.train().start(x, edge_index).x, whole)


def explained(edge_mask_type: str | None, model: GUMP | None = None) -> Explanation:
    torch.manual_seed(0)
    model = model or GUMP(2, 8, 1, out_channels=1, norm=None, base_norm=None, act="tanh")
    explainer = Explainer(
        model,
        GNNExplainer(epochs=20, lr=0.1),
        explanation_type="model",
        node_mask_type="object",
        edge_mask_type=edge_mask_type,
        model_config=ModelConfig(mode="regression", task_level="node", return_type="raw"),
    )
    path = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]])
    return explainer(torch.randn(7, 2), path, index=0)


def test_explainers_of_pyg_find_the_vertices_that_decide() -> None:
    mask = explained(None).node_mask.flatten()
    assert mask[:2].min() > 0
    assert mask[4:].abs().max() == 0, "what is beyond the reach of base GNN, layer and read-out explains nothing"


def test_a_mask_of_edges_is_refused_since_it_would_be_laid_on_others() -> None:
    model = GUMP(2, 8, 1, out_channels=1)
    with pytest.raises(ValueError, match=r"'edge_mask_type' of an explainer must be None for GUMP"):
        explained("object", model)
    assert explained(None, model).node_mask is not None, "the advice helps"
    assert model(torch.randn(2, 2), torch.tensor([[0], [1]])).isfinite().all()


def test_dropout_that_makes_states_grow_with_depth_is_warned_of_by_as_much_as_they_grow() -> None:
    torch.manual_seed(0)
    edge_index, _ = ring(40)
    with pytest.warns(
        UserWarning, match=r"dropout=0.5 without a norm .* 24 layers some 4e\+03 times as large in training .* at most 0.042"
    ):
        model = GUMP(4, 32, 24, norm=None, base_norm=None, dropout=0.5)
    sizes = {}
    with torch.no_grad():
        x = torch.randn(40, 4)
        for training in (False, True):
            states = model.train(training)(x, edge_index)[:, 32:]
            sizes[training] = states.pow(2).mean().sqrt().item()
    assert 400 < sizes[True] / sizes[False] < 40000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("settings", [{"norm": "batch"}, {"conv": "gcnii", "alpha": 0.5}, {"dropout": 0.04}, {"num_layers": 16}])
def test_dropout_that_does_not_is_not(settings: dict[str, Any]) -> None:
    GUMP(**{"in_channels": 4, "hidden_channels": 8, "num_layers": 24, "norm": None, "dropout": 0.5} | settings)


def test_whole_edge_weights_are_what_they_are_as_numbers() -> None:
    torch.manual_seed(0)
    model, x = GUMP(2, 8, 2, edge_dim=1, norm=None, base_norm=None), torch.randn(3, 2)
    edge_index, weight = torch.tensor([[0, 0, 1], [1, 1, 2]]), torch.tensor([1, 2, 4])
    torch.testing.assert_close(model(x, edge_index, edge_weight=weight), model(x, edge_index, edge_weight=weight.float()))


def test_a_learned_nonlinearity_is_drawn_anew_too() -> None:
    model = GUMP(2, 8, 2, act="prelu")
    torch.nn.init.constant_(model.act.weight, 5.0)
    model.reset_parameters()
    assert model.act.weight.item() == 0.25


@pytest.mark.parametrize("num_layers", [2, 5])
def test_in_single_precision_equal_features_are_no_reason_to_tell_vertices_apart_in_training(num_layers: int) -> None:
    """The vertices of one side of a complete bipartite graph differ in the rounding of their sums alone, of which batch norm must make nothing."""
    sides = torch.cartesian_prod(torch.arange(5), torch.arange(5, 25)).t()
    for seed in range(5):
        torch.manual_seed(seed)
        model, x = GUMP(4, 16, num_layers, conv="gin", base="gin"), torch.randn(1, 4).expand(25, 4)
        order = torch.randperm(25)
        torch.testing.assert_close(model(x, order[sides])[order], model(x, sides), atol=1e-2, rtol=1e-2)


def test_orthogonal_weights_whose_signal_dies_behind_relus_are_warned_of_by_as_much_as_it_shrinks() -> None:
    torch.manual_seed(0)
    with pytest.warns(
        UserWarning, match=r"orthogonal_weights=True with a ReLU and without a norm leaves states of 40 layers some 1e-06 of"
    ):
        model = GUMP(4, 32, 40, base=None, norm=None, base_norm=None, orthogonal_weights=True)
    edge_index, num_nodes = ring(40)
    with torch.no_grad():
        x = torch.randn(num_nodes, 4)
        sizes = [m(x, edge_index)[:, 32:].pow(2).mean().sqrt().item() for m in (model, GUMP(4, 32, 40, base=None, norm=None))]
    assert 1e-8 < sizes[0] / sizes[1] < 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fine in ({"norm": "batch"}, {"residual": True}, {"act": "tanh"}, {"conv": "gcnii"}):
            GUMP(4, 8, 40, **{"norm": None, "orthogonal_weights": True} | fine)


@pytest.mark.parametrize("norm", ["batch", "layer", None])
@pytest.mark.parametrize("conv", CONVS)
def test_hooks_on_any_module_see_what_it_returns_and_change_nothing(conv: str, norm: str | None) -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, 3, dtype=torch.double, requires_grad=True)
    model = GUMP(3, 8, 2, conv=conv, norm=norm, base_norm=norm).double()
    expected = model(x, edge_index)
    kept, pulled = [], []
    for module in set(model.modules()) - {model.coin}:  # which returns a list, of which torch's hooks of gradients know nothing
        module.register_forward_hook(lambda _, given, out: kept.append((out, out.clone())))
        module.register_full_backward_hook(lambda module, *_: pulled.append(module))
    out = model(x, edge_index)
    out.square().sum().backward()
    torch.testing.assert_close(out, expected)
    assert all(torch.equal(*pair) for pair in kept)
    assert {model.act, model.encoder, model.base_norm, *model.convs} <= set(pulled)
    assert norm is None or set(model.norms) <= set(pulled)


def test_a_nonlinearity_that_is_handed_over_is_not_changed() -> None:
    act = torch.nn.ReLU()
    GUMP(4, 8, 2, act=act)  # type: ignore[arg-type]
    assert not act.inplace
