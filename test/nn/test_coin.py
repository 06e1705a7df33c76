"""The coin: one small matrix per vertex, by name."""

import pytest
import torch
from graphs import SYMMETRIC, random_graph, star
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import leaky_relu
from torch.nn.utils.prune import identity, random_unstructured

import gump.nn.coin
from gump import EulerianLineGraph
from gump.linalg import polar_factor, unitarity_error
from gump.nn import COINS, ArcFeatures, Coin

GRAPHS = {**SYMMETRIC, "random": random_graph(0), "other": random_graph(1)}
LEARNED = [kind for kind in COINS if kind not in ("grover", "ones")]
AT_HUBS = ("bounded", "grover", "ones")
ORTHOGONAL = ("bounded", "near_identity", "polar", "grover")
every_graph = pytest.mark.parametrize("name", GRAPHS)


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def coin_of(kind, in_channels=6, **kwargs):
    torch.manual_seed(0)
    return Coin(in_channels, attention_channels=5, kind=kind, **kwargs).double()


def features(num_nodes, ties):
    """Equal features, features that two vertices each share, or features of their own."""
    vertices = torch.arange(num_nodes)
    groups = {"all": 0 * vertices, "pairs": vertices // 2, "none": vertices}
    return normal(num_nodes, 3)[groups[ties]]


def by_walks(blocks, line_graph):
    """The weights as a table over vertices: entry (u, v, w) is the weight of the transition from arc (v, w) to arc (u, v)."""
    gathers, gathered = line_graph.transitions()
    table = torch.zeros((line_graph.num_nodes,) * 3, dtype=torch.float64)
    table[(*line_graph.arcs[:, gathers], line_graph.arcs[1, gathered])] = torch.cat([b.double().flatten() for b in blocks])
    return table


@every_graph
@pytest.mark.parametrize("ties", ["all", "pairs", "none"])
@pytest.mark.parametrize("kind", COINS)
def test_every_coin_is_one_matrix_per_vertex_and_orthogonal_if_projected_exactly(kind, ties, name):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    blocks = coin_of(kind)(features(line_graph.num_nodes, ties), line_graph)
    assert [tuple(b.shape) for b in blocks] == [(g.num_blocks, g.degree, g.degree) for g in line_graph.groups]
    assert all(b.dtype == torch.float64 and b.isfinite().all() for b in blocks)
    assert kind not in ORTHOGONAL or max(unitarity_error(b.detach()).max() for b in blocks) < 1e-13


@every_graph
@pytest.mark.parametrize("ties", ["all", "pairs", "none"])
@pytest.mark.parametrize("kind", [kind for kind in COINS if kind != "polar"])  # which is equivariant at full rank only
def test_relabeling_the_vertices_relabels_the_coins(kind, ties, name):
    (edge_index, num_nodes), coin = GRAPHS[name], coin_of(kind)
    permutation = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(1))
    x, inverse = features(num_nodes, ties), permutation.argsort()
    before, after = (EulerianLineGraph.from_edge_index(e, num_nodes) for e in (edge_index, permutation[edge_index]))
    relabeled = by_walks(coin(x[inverse], after), after)[permutation][:, permutation][:, :, permutation]
    torch.testing.assert_close(relabeled, by_walks(coin(x, before), before), rtol=0, atol=1e-12)


def test_with_ties_newton_schulz_stays_a_partial_isometry_as_documented():
    line_graph = EulerianLineGraph.from_edge_index(*star(4))
    center = coin_of("newton_schulz", num_steps=30)(features(5, "all"), line_graph)[-1]
    torch.testing.assert_close(unitarity_error(center), torch.tensor([0.75**0.5], dtype=torch.float64))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 9), exponent=st.floats(-6, 8), beta=st.floats(0, 0.999))
def test_the_perturbed_matrix_keeps_its_singular_values_within_beta_of_one(seed, d, exponent, beta):
    scores = 10**exponent * normal(4, d, d, seed=seed)
    sigma = torch.linalg.svdvals(coin_of("bounded", beta=beta).perturbed(scores))
    assert 1 - beta - 1e-12 <= sigma.min()
    assert sigma.max() <= 1 + beta + 1e-12


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
@pytest.mark.parametrize(("d", "num_blocks"), [(2, 1000), (3, 20000), (6, 20000), (25, 500)])
def test_in_float32_the_bounded_coin_is_orthogonal_for_every_beta_and_score(d, num_blocks, beta):
    scores = torch.tanh(normal(num_blocks, d, d) * torch.logspace(-1, 1, num_blocks).view(-1, 1, 1)).float()
    scores[: num_blocks // 4] = scores[: num_blocks // 4, :1]  # equal rows
    assert unitarity_error(Coin(2, beta=beta).project(scores)).max() < 1e-5


@pytest.mark.parametrize("beta", [0.3, 0.9])
def test_the_derivative_of_the_bounded_coin_is_bounded_as_promised(beta):
    for scale in (1e-2, 1.0, 10.0):
        jacobian = torch.autograd.functional.jacobian(coin_of("bounded", beta=beta).project, scale * normal(1, 4, 4))
        assert 0 < torch.linalg.matrix_norm(jacobian.view(16, 16), 2) <= beta / (1 - beta)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_without_freedom_the_bounded_coins_are_grover_and_the_identity(d):
    expected = torch.full((d, d), 2 / d, dtype=torch.float64).fill_diagonal_(2 / d - 1).expand(4, d, d)
    torch.testing.assert_close(coin_of("bounded", beta=0.0).project(normal(4, d, d)), expected)
    identity = torch.eye(d, dtype=torch.float64).expand(4, d, d)
    torch.testing.assert_close(coin_of("near_identity", beta=0.0).project(normal(4, d, d)), identity)
    line_graph = EulerianLineGraph.from_edge_index(*star(d))
    torch.testing.assert_close(coin_of("grover")(features(d + 1, "none"), line_graph)[-1][-1], expected[0])


@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_perturbed_coin_is_what_the_bounded_one_projects(d):
    scores = normal(4, d, d)
    coin = coin_of("perturbed").project(scores)
    torch.testing.assert_close(polar_factor(coin), coin_of("bounded").project(scores))
    assert (unitarity_error(coin) > 1e-2).all()


@every_graph
@pytest.mark.parametrize("attr_width", [0, 2])
def test_scores_follow_equation_1(attr_width, name):
    line_graph, coin = EulerianLineGraph.from_edge_index(*GRAPHS[name]), coin_of("scores", 6 + attr_width, negative_slope=0.2)
    x, attr = features(line_graph.num_nodes, "none"), normal(line_graph.num_arcs, attr_width) if attr_width else None
    arcs = line_graph.arcs.t().tolist()
    h = ArcFeatures(x, line_graph, attr).dense()
    entries = iter(torch.cat([b.flatten() for b in coin(x, line_graph, attr)]))
    for v in line_graph.block_vertices.tolist():
        outgoing = [a for a, (source, _) in enumerate(arcs) if source == v]
        incoming = [arcs.index(arcs[a][::-1]) for a in outgoing]
        for i in incoming:
            for j in outgoing:
                hidden = leaky_relu(coin.lin_source.weight @ h[i] + coin.lin_target.weight @ h[j], 0.2)
                torch.testing.assert_close(next(entries), torch.tanh(coin.lin_score.weight[0] @ hidden))
    assert next(entries, None) is None


@every_graph
@pytest.mark.parametrize("kind", LEARNED)
def test_gradients_reach_every_weight(kind, name):
    line_graph, coin = EulerianLineGraph.from_edge_index(*GRAPHS[name]), coin_of(kind)
    table = by_walks(coin(features(line_graph.num_nodes, "none"), line_graph), line_graph)
    (table * normal(line_graph.num_nodes)).sum().backward()
    reached = [key for key, p in coin.named_parameters() if p.grad.isfinite().all() and p.grad.norm() > 1e-6]
    assert reached == ["lin_source.weight", "lin_target.weight", "lin_score.weight"]


@pytest.mark.parametrize("kind", COINS)
def test_only_learned_coins_have_scores_with_parameters_and_reset_draws_them_anew(kind):
    coin = coin_of(kind)
    before = [p.clone() for p in coin.parameters()]
    assert coin.has_scores == (kind in LEARNED)
    assert len(before) == (3 if kind in LEARNED else 0)
    coin.reset_parameters()
    assert not any(torch.equal(p, old) for p, old in zip(coin.parameters(), before, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", COINS)
def test_under_autocast_coins_are_float32_and_train(kind, dtype):
    line_graph, coin = EulerianLineGraph.from_edge_index(*GRAPHS["barbell"]), coin_of(kind).float()
    with torch.autocast("cpu", torch.bfloat16):
        blocks = coin(features(line_graph.num_nodes, "none").to(dtype), line_graph)
    assert {b.dtype for b in blocks} == {torch.float32}
    assert kind not in ORTHOGONAL or max(unitarity_error(b.detach()).max() for b in blocks) < 1e-6
    if kind in LEARNED:
        sum(b.pow(3).sum() for b in blocks).backward()
        assert all(p.grad.isfinite().all() for p in coin.parameters())


def test_a_graph_without_edges_has_no_coins():
    line_graph = EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    assert [coin_of(kind)(features(3, "none"), line_graph) for kind in COINS] == [[]] * len(COINS)


@pytest.mark.parametrize("kind", COINS)
def test_coins_that_cannot_fit_are_refused_and_the_hub_is_named(kind, monkeypatch):
    line_graph, x = EulerianLineGraph.from_edge_index(star(40)[0] + 2), features(43, "none")
    monkeypatch.setattr(gump.nn.coin, "LARGE", 0)
    monkeypatch.setattr(gump.nn.coin, "_available_memory", lambda device: 104_000.0)
    advice = "pass a 'max_block' below 40" if kind in AT_HUBS else "make it smaller"
    with pytest.raises(ValueError, match=rf"vertex 2 has degree 40: its dense coin would need .*; {advice}"):
        coin_of(kind)(x, line_graph)
    if kind in AT_HUBS:
        assert len(coin_of(kind, max_block=4)(x, line_graph)) == 1
    monkeypatch.setattr(gump.nn.coin, "_available_memory", lambda device: 1e9)
    assert len(coin_of(kind)(x, line_graph)) == 2


def test_a_coin_without_a_form_for_hubs_names_those_with_one(monkeypatch):
    line_graph, x = EulerianLineGraph.from_edge_index(star(80)[0]), features(81, "none")
    monkeypatch.setattr(gump.nn.coin, "LARGE", 0)
    monkeypatch.setattr(gump.nn.coin, "_available_memory", lambda device: 104_000.0)
    with pytest.raises(
        ValueError, match="make it smaller, or take another coin: those of linear size at hubs are 'bounded', 'grover', 'ones'"
    ):
        coin_of("polar")(x, line_graph)


def all_blocks(coin, x, line_graph, attr=None):
    """The coins of all vertices, those of hubs built."""
    hubs = coin.hubs(x, line_graph, attr)
    return coin(x, line_graph, attr) + ([] if hubs is None else hubs.dense())


@every_graph
@pytest.mark.parametrize("ties", ["all", "pairs", "none"])
@pytest.mark.parametrize("max_block", [1, 2, 3])
@pytest.mark.parametrize("attr_width", [0, 2])
def test_with_bilinear_scores_the_largest_block_changes_neither_coins_nor_gradients(attr_width, max_block, ties, name):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    x, attr = features(line_graph.num_nodes, ties), normal(line_graph.num_arcs, attr_width, seed=5) if attr_width else None
    results = []
    for largest in (max_block, 100):
        coin, leaf = coin_of("bounded", 6 + attr_width, scores="bilinear", max_block=largest), x.clone().requires_grad_()
        blocks = all_blocks(coin, leaf, line_graph, attr)
        sum((b * normal(*b.shape, seed=b.size(-1))).sum() for b in blocks).backward()
        results.append([*blocks, leaf.grad, *(p.grad for p in coin.parameters())])
    for hub, dense in zip(*results, strict=True):
        torch.testing.assert_close(hub, dense, rtol=0, atol=1e-9)


def test_bilinear_scores_follow_their_formula():
    line_graph, coin = EulerianLineGraph.from_edge_index(*star(4)), coin_of("scores", 8, scores="bilinear")
    x, attr = features(5, "none"), normal(line_graph.num_arcs, 2)
    h = ArcFeatures(x, line_graph, attr).dense()
    out = torch.arange(4, 8)  # the arcs of the center, which come last
    left = torch.tanh(h[line_graph.reverse[out]] @ coin.lin_source.weight.t())
    right = torch.tanh(h[out] @ coin.lin_target.weight.t())
    expected = torch.einsum("ic,c,jc->ij", left, coin.lin_score.weight[0], right)
    torch.testing.assert_close(coin(x, line_graph, attr)[-1][0], expected)


@every_graph
@pytest.mark.parametrize("ties", ["all", "pairs", "none"])
def test_with_additive_scores_hubs_have_bilinear_ones_and_the_others_stay(ties, name):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    x = features(line_graph.num_nodes, ties)
    mixed = all_blocks(coin_of("bounded", max_block=2), x, line_graph)
    additive, bilinear = (all_blocks(coin_of("bounded", scores=s), x, line_graph) for s in ("additive", "bilinear"))
    for group, *blocks in zip(line_graph.groups, mixed, additive, bilinear, strict=True):
        torch.testing.assert_close(blocks[0], blocks[1 if group.degree <= 2 else 2])


@every_graph
@pytest.mark.parametrize("ties", ["all", "pairs", "none"])
@pytest.mark.parametrize("kind", AT_HUBS)
def test_relabeling_the_vertices_relabels_the_coins_of_hubs(kind, ties, name):
    (edge_index, num_nodes), coin = GRAPHS[name], coin_of(kind, max_block=2)
    permutation = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(1))
    x, inverse = features(num_nodes, ties), permutation.argsort()
    before, after = (EulerianLineGraph.from_edge_index(e, num_nodes) for e in (edge_index, permutation[edge_index]))
    relabeled = by_walks(all_blocks(coin, x[inverse], after), after)[permutation][:, permutation][:, :, permutation]
    torch.testing.assert_close(relabeled, by_walks(all_blocks(coin, x, before), before), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["grover", "ones"])
def test_coins_without_scores_are_the_same_at_hubs(kind):
    line_graph, x = EulerianLineGraph.from_edge_index(*GRAPHS["barbell"]), features(8, "none")
    for hub, dense in zip(*(all_blocks(coin_of(kind, max_block=m), x, line_graph) for m in (1, 9)), strict=True):
        torch.testing.assert_close(hub, dense)


def test_a_hub_of_a_thousand_has_the_exact_coin_and_returns_the_energy_that_it_must():
    line_graph, coin = EulerianLineGraph.from_edge_index(*star(1000)), coin_of("bounded", scores="bilinear")
    x = features(1001, "none")
    (block,) = coin.hubs(x, line_graph).dense()[0]
    dense = Coin(6, 5, scores="bilinear", max_block=1000).double()
    dense.load_state_dict(coin.state_dict())
    expected = polar_factor(dense.perturbed(dense.scores(x, line_graph)[-1]))[0]
    torch.testing.assert_close(block, expected, rtol=0, atol=1e-10)
    assert block.diagonal().square().mean() >= (1 - 2 * 11 / 1000) ** 2


@pytest.mark.parametrize("ties", ["all", "pairs", "none"])
def test_in_float32_and_under_autocast_the_coins_of_hubs_are_orthogonal(ties):
    line_graph, coin = EulerianLineGraph.from_edge_index(*star(300)), coin_of("bounded").float()
    as_blocks = Coin(6, 5, scores="bilinear", max_block=300)
    as_blocks.load_state_dict(coin.state_dict())
    for dtype in (torch.float32, torch.bfloat16):
        x = features(301, ties).to(dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            hubs, block = coin.hubs(x, line_graph), as_blocks(x, line_graph)[-1]
            [dense] = hubs.dense()
        assert hubs.core.dtype == hubs.basis.dtype == torch.float32
        assert unitarity_error(dense).max() < 1e-5
        torch.testing.assert_close(dense, block, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in COINS if kind not in AT_HUBS])
def test_coins_that_have_no_form_for_hubs_have_blocks_of_every_size(kind):
    line_graph, coin = EulerianLineGraph.from_edge_index(*star(5)), coin_of(kind, max_block=4)
    x = features(6, "none")
    assert [block.size(-1) for block in coin(x, line_graph)] == [1, 5]
    assert coin.hubs(x, line_graph) is None


def test_attention_that_is_computed_again_is_the_same(monkeypatch):
    line_graph, x = EulerianLineGraph.from_edge_index(*GRAPHS["barbell"]), features(8, "none")
    kept = coin_of("bounded").scores(x, line_graph)
    monkeypatch.setattr(gump.nn.coin, "KEEP", 0)
    for again, once in zip(coin_of("bounded").scores(x, line_graph), kept, strict=True):
        torch.testing.assert_close(again, once, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", LEARNED)
def test_all_degrees_together_are_each_by_itself(kind):
    coin, sizes = coin_of(kind), {1: 3, 2: 4, 3: 2, 5: 1}
    scores = [normal(n, d, d, seed=d).requires_grad_() for d, n in sizes.items()]
    together, alone = coin.project_all(scores), [coin.project(block) for block in scores]
    torch.testing.assert_close(together, alone)
    grads = [torch.autograd.grad(sum(c.pow(3).sum() for c in coins[1:]), scores[1:]) for coins in (together, alone)]
    torch.testing.assert_close(*grads)


HOOKED = pytest.mark.parametrize("layer", ["lin_source", "lin_target", "lin_score"])
SCORES = pytest.mark.parametrize("scores", ["additive", "bilinear"])


@HOOKED
@SCORES
@pytest.mark.parametrize("max_block", [2, 64])
@pytest.mark.parametrize("attr_width", [0, 2])
def test_a_layer_with_hooks_is_called_and_the_coins_and_their_gradients_stay(attr_width, max_block, scores, layer):
    line_graph, results, calls = EulerianLineGraph.from_edge_index(*GRAPHS["random"]), [], []
    attr = normal(line_graph.num_arcs, attr_width, seed=5) if attr_width else None
    for hooked in (False, True):
        coin = coin_of("bounded", 6 + attr_width, scores=scores, max_block=max_block)
        if hooked:
            getattr(coin, layer).register_forward_hook(lambda *_: calls.append(1))
        x = features(line_graph.num_nodes, "none").requires_grad_()
        blocks = all_blocks(coin, x, line_graph, attr)
        sum((b * normal(*b.shape, seed=b.size(-1))).sum() for b in blocks).backward()
        results.append([*blocks, x.grad, *(p.grad for p in coin.parameters())])
    torch.testing.assert_close(*results)
    assert len(calls) == (2 if max_block < line_graph.max_degree else 1)


@HOOKED
@SCORES
@pytest.mark.parametrize("max_block", [2, 64])
def test_a_pruned_coin_learns_what_was_not_pruned_and_can_be_loaded(max_block, scores, layer):
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS["random"])
    x, (coin, other) = (
        features(line_graph.num_nodes, "none"),
        (coin_of("bounded", scores=scores, max_block=max_block) for _ in "ab"),
    )
    pruned = random_unstructured(getattr(coin, layer), "weight", 0.5)
    for _ in range(2):  # a pruned weight is computed anew when the layer is called
        sum((b * normal(*b.shape, seed=b.size(-1))).sum() for b in all_blocks(coin, x, line_graph)).backward()
    assert not pruned.weight_orig.grad[pruned.weight_mask == 0].any()
    assert pruned.weight_orig.grad[pruned.weight_mask == 1].all()
    identity(getattr(other, layer), "weight")
    other.load_state_dict(coin.state_dict())
    for ours, theirs in zip(all_blocks(other, x, line_graph), all_blocks(coin, x, line_graph), strict=True):
        assert torch.equal(ours, theirs)


@SCORES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_under_autocast_pruned_coins_are_those_of_the_weights(dtype, scores):
    line_graph, coin = EulerianLineGraph.from_edge_index(*GRAPHS["random"]), coin_of("bounded", scores=scores, max_block=2).float()
    x = features(line_graph.num_nodes, "none").to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        plain = all_blocks(coin, x, line_graph)
        for layer in coin.children():
            identity(layer, "weight")
        pruned = all_blocks(coin, x, line_graph)
    assert {b.dtype for b in pruned} == {torch.float32}
    torch.testing.assert_close(pruned, plain, rtol=0, atol=0.05)


@pytest.mark.parametrize("kind", COINS)
def test_features_of_more_vertices_than_the_line_graph_has_are_refused(kind):
    line_graph = EulerianLineGraph.from_edge_index(star(4)[0])
    with pytest.raises(
        ValueError, match=r"'x' must have a row for each of the 5 vertices of 'line_graph' \(got 7\); pass 'num_nodes'"
    ):
        coin_of(kind)(features(7, "none"), line_graph)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kind": "fair"},
            r"'coin' must be one of bounded, polar, newton_schulz, near_identity, perturbed, grover, scores, ones \(got 'fair'\)",
        ),
        ({"beta": -0.1}, r"'beta' must be at least 0 and below 1 \(got -0.1\)"),
        ({"beta": 1.0}, r"'beta' must be at least 0 and below 1 \(got 1.0\)"),
        ({"negative_slope": -0.1}, r"'negative_slope' must be at least 0 \(got -0.1\)"),
        ({"scores": "cubic"}, r"'scores' must be one of 'additive', 'bilinear' \(got 'cubic'\)"),
        ({"max_block": 0}, r"'max_block' must be at least 1 \(got 0\)"),
    ],
)
def test_unknown_names_and_a_beta_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Coin(4, **settings)


def test_repr_names_the_coin_and_its_setting():
    expected = [
        "Coin('bounded', beta=0.9)",
        "Coin('polar')",
        "Coin('newton_schulz', num_steps=10)",
        "Coin('near_identity', beta=0.9)",
        "Coin('perturbed', beta=0.9)",
        "Coin('grover')",
        "Coin('scores')",
    ]
    assert [repr(Coin(4, kind=kind)) for kind in COINS] == [*expected, "Coin('ones')"]
    assert repr(Coin(4, scores="bilinear", max_block=16)) == "Coin('bounded', beta=0.9, scores='bilinear', max_block=16)"
