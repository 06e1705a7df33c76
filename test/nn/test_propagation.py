"""The propagation operator: a coin at every vertex, then the shift."""

import re
import sys
import types

import pytest
import torch
from graphs import SYMMETRIC, path, random_graph
from torch.autograd import gradcheck

import gump.nn.propagation
from gump import EulerianLineGraph
from gump.linalg import LowRankBlocks, Tiles, polar_factor
from gump.nn import GUMP, ArcFeatures, ArcGCNConv, Coin, Propagation

GRAPHS = {
    **SYMMETRIC,
    "path": path(4),
    "random": random_graph(0),
    "denser": random_graph(1, num_nodes=6, num_edges=20),
    "small": random_graph(0, 5, 6),
}
PATHS = pytest.mark.parametrize("sparse", [False, True] if torch.backends.mkl.is_available() else [False])


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def setting(name):
    """A line graph, blocks without any structure, and states."""
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    blocks = [normal(g.num_blocks, g.degree, g.degree, seed=g.degree) for g in line_graph.groups]
    return line_graph, blocks, normal(line_graph.num_arcs, 3)


def dense(line_graph, blocks):
    """Row (u, v) holds the block of v: its row is that of arc (v, u), its columns are the arcs (v, w)."""
    matrix = torch.zeros(line_graph.num_arcs, line_graph.num_arcs, dtype=torch.float64)
    arcs = line_graph.arcs.t().tolist()
    for group, members in zip(line_graph.groups, blocks, strict=True):
        for b, block in enumerate(members):
            out = range(group.first_arc + b * group.degree, group.first_arc + (b + 1) * group.degree)
            for i, arc in enumerate(out):
                for j, other in enumerate(out):
                    matrix[arcs.index(arcs[arc][::-1]), other] = block[i, j]
    return matrix


def test_on_a_path_the_middle_mixes_and_the_ends_reflect():
    line_graph = EulerianLineGraph.from_edge_index(*path(3))  # arcs (0, 1), (2, 1), (1, 0), (1, 2)
    blocks = [torch.tensor([[[5.0]], [[7.0]]]), torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])]
    expected = [[0, 0, 1, 2], [0, 0, 3, 4], [5, 0, 0, 0], [0, 7, 0, 0]]
    assert Propagation(blocks, line_graph).matrix().to_dense().tolist() == expected
    assert Propagation(blocks, line_graph)(torch.eye(4)).tolist() == expected


@PATHS
@pytest.mark.parametrize("name", GRAPHS)
def test_a_step_is_the_product_with_the_matrix(name, sparse):
    line_graph, blocks, h = setting(name)
    propagate = Propagation(blocks, line_graph, sparse)
    matrix = dense(line_graph, blocks)
    assert torch.equal(propagate.matrix().to_dense(), matrix)
    torch.testing.assert_close(propagate(h), matrix @ h)
    torch.testing.assert_close(propagate(h.t().contiguous().t()), matrix @ h)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_matrix_gathers_at_arc_uv_from_arcs_vw(name):
    line_graph, blocks, _ = setting(name)
    row, column = Propagation(blocks, line_graph).matrix().indices()
    assert row.numel() == line_graph.num_transitions
    assert torch.equal(line_graph.arcs[1, row], line_graph.arcs[0, column])


@PATHS
@pytest.mark.parametrize("name", ["path", "small", "star"])
def test_gradients_are_those_of_finite_differences(name, sparse):
    line_graph, blocks, h = setting(name)
    leaves = [t.requires_grad_() for t in (h, *blocks)]
    assert gradcheck(lambda h, *blocks: Propagation(list(blocks), line_graph, sparse)(h), leaves)


@PATHS
@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_of_many_steps_are_those_of_the_dense_product(name, sparse):
    line_graph, blocks, h = setting(name)
    leaves = [t.requires_grad_() for t in (h, *blocks)]
    propagate = Propagation(blocks, line_graph, sparse)
    ours = torch.autograd.grad(propagate(propagate(propagate(h))).sum(), leaves)
    theirs = torch.autograd.grad(torch.linalg.matrix_power(dense(line_graph, blocks), 3).mm(h).sum(), leaves)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@PATHS
@pytest.mark.parametrize("name", GRAPHS)
def test_orthogonal_blocks_preserve_the_norm(name, sparse):
    line_graph, blocks, h = setting(name)
    propagate = Propagation([polar_factor(b) for b in blocks], line_graph, sparse)
    matrix, out = propagate.matrix().to_dense(), h
    torch.testing.assert_close(matrix.t() @ matrix, torch.eye(line_graph.num_arcs, dtype=torch.float64))
    for _ in range(10):
        out = propagate(out)
    torch.testing.assert_close(out.norm(dim=0), h.norm(dim=0))


def with_hubs(name, max_block):
    """The same, with hubs whose blocks have rank two and the identity."""
    line_graph, blocks, h = setting(name)
    sizes = {degree: count for degree, count in line_graph.block_sizes.items() if degree > max_block}
    tiles = Tiles.of(sizes)
    factors = [normal(tiles.place.numel(), 2).requires_grad_(), normal(tiles.num_blocks, 2, 2, seed=1).requires_grad_()]
    return line_graph, blocks[: len(blocks) - len(sizes)], h, LowRankBlocks(tiles.cut(factors[0]), factors[1], -1.0, tiles), factors


@PATHS
@pytest.mark.parametrize("max_block", [0, 2, 3])
@pytest.mark.parametrize("name", ["star", "barbell", "grid", "clique", "denser"])
def test_hubs_are_propagated_as_if_they_were_blocks(name, max_block, sparse):
    line_graph, blocks, h, hubs, factors = with_hubs(name, max_block)
    leaves = [t.requires_grad_() for t in (h, *factors, *blocks)]
    propagate = Propagation(blocks, line_graph, sparse, hubs)
    built = Propagation(blocks + hubs.dense(), line_graph, sparse)
    assert torch.equal(propagate.matrix().to_dense(), built.matrix().to_dense())
    results = [p(p(h)) for p in (propagate, built)]
    torch.testing.assert_close(*results)
    for ours, theirs in zip(*(torch.autograd.grad((r**2).sum(), leaves, retain_graph=True) for r in results), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_a_kernel_leaves_in_the_rows_of_hubs_reaches_nothing(monkeypatch):
    line_graph, blocks, h, hubs, _ = with_hubs("denser", 3)

    class Kernel(torch.autograd.Function):
        """Makes both moves for blocks and leaves NaN wherever the kernel writes nothing."""

        @staticmethod
        def forward(ctx, h, reverse, num_rows, *blocks):
            ctx.save_for_backward(reverse, *blocks)
            ctx.num_rows = num_rows
            mixed = torch.block_diag(*[b for group in blocks for b in group]) @ h[:num_rows]
            return torch.full_like(h, torch.nan).index_copy(0, reverse[:num_rows], mixed)

        @staticmethod
        def backward(ctx, grad):
            reverse, *blocks = ctx.saved_tensors
            pulled = torch.block_diag(*[b for group in blocks for b in group]).t() @ grad[reverse[: ctx.num_rows]]
            rest = torch.full((grad.size(0) - ctx.num_rows, grad.size(1)), torch.nan, dtype=grad.dtype)
            return torch.cat([pulled, rest]), None, None, *[None] * len(blocks)

    num_rows = sum(b.size(0) * b.size(1) for b in blocks)
    unflatten = pytest.importorskip("gump.kernels.tiling", reason="needs Triton").unflatten

    def coin_shift(h, reverse, values, sizes, scale, mask):
        return Kernel.apply(h, reverse, num_rows, *unflatten(values, sizes))

    kernel = types.SimpleNamespace(coin_shift=coin_shift)
    expected = Propagation(blocks, line_graph, False, hubs)(h.requires_grad_())
    (expected_grad,) = torch.autograd.grad((expected**2).sum(), h, retain_graph=True)
    monkeypatch.setattr(gump.nn.propagation, "runs_kernels", lambda *tensors: True)
    monkeypatch.setitem(sys.modules, "gump.kernels.coin_shift", kernel)
    out = Propagation(blocks, line_graph, False, hubs)(h)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(torch.autograd.grad((out**2).sum(), h)[0], expected_grad)


def test_kernels_are_for_blocks_that_fit_into_a_tile(monkeypatch):
    pytest.importorskip("triton", reason="needs Triton")
    monkeypatch.setattr(gump.nn.propagation, "runs_kernels", lambda *tensors: True)
    for num_leaves in (64, 65):
        edge_index = torch.stack([torch.zeros(num_leaves, dtype=torch.long), torch.arange(1, num_leaves + 1)])
        line_graph = EulerianLineGraph.from_edge_index(edge_index, num_leaves + 1)
        blocks = [torch.randn(g.num_blocks, g.degree, g.degree) for g in line_graph.groups]
        h = torch.randn(line_graph.num_arcs, 3)
        propagate = Propagation(blocks, line_graph, sparse=False)
        torch.testing.assert_close(propagate(h), propagate.shift(propagate.coin(h)), atol=1e-4, rtol=1e-4)


def test_a_propagation_that_was_used_without_gradients_still_has_them(monkeypatch):
    pytest.importorskip("triton", reason="needs Triton")
    monkeypatch.setattr(gump.nn.propagation, "runs_kernels", lambda *tensors: True)
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
    blocks = [torch.randn(g.num_blocks, g.degree, g.degree, requires_grad=True) for g in line_graph.groups]
    propagate, h = Propagation(blocks, line_graph, sparse=False), torch.randn(line_graph.num_arcs, 3)
    with torch.no_grad():
        propagate(h)
    propagate(h).sum().backward()
    assert all(block.grad is not None for block in blocks)


def test_blocks_without_those_of_the_hubs_are_refused():
    line_graph, blocks, *_ = with_hubs("star", 3)
    with pytest.raises(ValueError, match=r"'blocks' and 'hubs' must cover the 2 degrees of 'line_graph' \(got 1\)"):
        Propagation(blocks, line_graph)


@PATHS
@pytest.mark.parametrize("shape", [(4, 1, 1), (6, 1, 1), (5, 1, 2), (5, 2, 1), (1, 5, 1, 1), (5,)])
def test_blocks_of_another_shape_are_refused(shape, sparse):
    line_graph, (_, center), _ = setting("star")
    message = (
        rf"'blocks' must have shape \[5, 1, 1\] for the vertices of degree 1 in 'line_graph' \(got {re.escape(str(list(shape)))}\)"
    )
    with pytest.raises(ValueError, match=message):
        Propagation([normal(*shape), center], line_graph, sparse)


@PATHS
def test_states_of_other_arcs_are_refused(sparse):
    line_graph, blocks, _ = setting("star")
    with pytest.raises(ValueError, match=r"'h' must have a row for each of the 10 arcs of 'line_graph' \(got 11\)"):
        Propagation(blocks, line_graph, sparse)(normal(11, 3))


@pytest.mark.parametrize("at_hubs", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_under_the_transforms_of_torch_func_a_step_is_the_same(inside, at_hubs):
    line_graph, blocks, h, hubs = with_hubs("denser", 2)[:4] if at_hubs else (*setting("denser"), None)
    outside = Propagation(blocks, line_graph, hubs=hubs)

    def step(h):
        return (Propagation(blocks, line_graph, hubs=hubs) if inside else outside)(h)

    matrix, many = outside.matrix().to_dense().detach(), torch.stack([h, 2 * h + 1, h.cos()])
    for dim in range(3):
        out = torch.func.vmap(step, in_dims=dim, out_dims=dim)(many.movedim(0, dim).contiguous())
        torch.testing.assert_close(out, (matrix @ many).movedim(0, dim))
    torch.testing.assert_close(torch.func.grad(lambda h: step(h).pow(2).sum())(h), 2 * matrix.t() @ matrix @ h)
    torch.testing.assert_close(step(h), matrix @ h)


def test_gradients_of_many_results_at_once_are_those_of_each():
    line_graph, blocks, h = setting("denser")
    leaves = [t.requires_grad_() for t in (h, *blocks)]
    out, weights = Propagation(blocks, line_graph)(h), normal(4, *h.shape, seed=2)
    each = [torch.autograd.grad(out, leaves, weight, retain_graph=True) for weight in weights]
    expected = tuple(map(torch.stack, zip(*each, strict=True)))
    torch.testing.assert_close(torch.autograd.grad(out, leaves, weights, is_grads_batched=True, retain_graph=True), expected)
    pull = torch.func.vmap(lambda weight: torch.autograd.grad(out, leaves, weight, retain_graph=True))
    torch.testing.assert_close(pull(weights), expected)


@pytest.mark.parametrize("settings", [{}, {"coin": "grover"}, {"conv": "gin"}, {"scores": "bilinear"}], ids=str)
def test_a_model_under_the_transforms_of_torch_func_is_the_same(settings):
    edge_index, num_nodes = GRAPHS["denser"]
    torch.manual_seed(0)
    models = [GUMP(3, 4, 2, **settings).double().eval() for _ in range(2)]
    line_graph, many = EulerianLineGraph.from_edge_index(edge_index, num_nodes), normal(2, num_nodes, 3)

    def run(x, model=models[0]):
        return model(x, edge_index, line_graph=line_graph)

    jacobian = torch.autograd.functional.jacobian(run, many[0])
    torch.testing.assert_close(torch.func.jacrev(run)(many[0]), jacobian)
    torch.testing.assert_close(torch.func.grad(lambda x: run(x).sum())(many[0]), jacobian.sum((0, 1)))
    torch.testing.assert_close(torch.func.vmap(run)(many), torch.stack([run(x) for x in many]))
    torch.testing.assert_close(torch.autograd.functional.jacobian(run, many[0], vectorize=True), jacobian)
    state = torch.func.stack_module_state(models)
    answers = torch.func.vmap(lambda *s: torch.func.functional_call(models[0], s, (many[0], edge_index)))(*state)
    torch.testing.assert_close(answers, torch.stack([run(many[0], model) for model in models]))


@PATHS
def test_a_graph_without_edges_stays_as_it_is(sparse):
    line_graph = EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    propagate = Propagation([], line_graph, sparse)
    assert propagate(torch.zeros(0, 4)).shape == (0, 4)
    assert propagate.matrix().to_dense().shape == (0, 0)


@PATHS
def test_under_autocast_half_precision_states_are_propagated_in_float32(sparse):
    line_graph, blocks, h = setting("random")
    with torch.autocast("cpu", torch.bfloat16):
        out = Propagation([b.float() for b in blocks], line_graph, sparse)(h.bfloat16())
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), dense(line_graph, blocks) @ h.bfloat16().double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [None, torch.tensor(2.0, dtype=torch.float64)])
def test_padding_cannot_grow(scale):
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 1, 1], [1, 0, 2]]), 3)
    blocks = [torch.full((g.num_blocks, g.degree, g.degree), 1e3, dtype=torch.float64) for g in line_graph.groups]
    mask = torch.zeros(line_graph.num_arcs, dtype=torch.bool)
    mask[0] = True
    propagate = Propagation(blocks, line_graph, False, mask=mask)
    h = torch.full((line_graph.num_arcs, 2), 1e300, dtype=torch.float64)
    for _ in range(5):
        h = torch.where(mask.unsqueeze(-1), 1.0, propagate(h, scale))
    assert bool((h[~mask] == 0).all())


def test_states_attributes_and_features_that_are_not_those_of_the_line_graph_are_refused():
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
    propagate = Propagation(Coin(8)(torch.randn(3, 4), line_graph), line_graph)
    with pytest.raises(ValueError, match=r"'h' must be real floating-point states \(got torch.int64\); call .float\(\)"):
        propagate(torch.ones(4, 2, dtype=torch.long))
    for num_rows in (2, 7):
        with pytest.raises(
            ValueError, match=rf"a row for each of the 4 arcs of 'line_graph' \(got shape \[{num_rows}, 1\]\); .*arc_attr"
        ):
            Coin(9)(torch.randn(3, 4), line_graph, torch.randn(num_rows, 1))
    with pytest.raises(ValueError, match=r"'in_channels' must be twice the width of 'x' .* 10 \+ 0 \(got 8\)"):
        Coin(8)(torch.randn(3, 5), line_graph)
    with pytest.raises(ValueError, match=r"'x' must have a row for each of the 3 vertices of 'line_graph' \(got 5\)"):
        ArcGCNConv(8, 2)(ArcFeatures(torch.randn(5, 4), line_graph), propagate)
    with pytest.raises(TypeError, match=r"'line_graph' must be a gump.EulerianLineGraph \(got Tensor\); pass .*from_edge_index"):
        Coin(8)(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))
    for shape in ([4], [4, 2, 2]):
        with pytest.raises(ValueError, match=rf"'h' must have shape \[num_arcs, channels\] \(got {re.escape(str(shape))}\)"):
            propagate(torch.ones(shape))


def test_features_of_other_arcs_are_refused_and_a_copy_of_the_line_graph_will_do():
    line_graph, other = (
        EulerianLineGraph.from_edge_index(torch.tensor(edges), 3) for edges in ([[0, 1], [1, 2]], [[1, 0], [0, 2]])
    )
    propagate, x, layer = Propagation(Coin(8)(torch.randn(3, 4), line_graph), line_graph), torch.randn(3, 4), ArcGCNConv(8, 2)
    with pytest.raises(ValueError, match="'h' must be features of the arcs of 'propagate'"):
        layer(ArcFeatures(x, other), propagate)
    assert torch.equal(layer(ArcFeatures(x, line_graph.to("cpu")), propagate), layer(ArcFeatures(x, line_graph), propagate))


def test_gradients_of_many_results_at_once_are_those_of_each_also_at_hubs():
    torch.manual_seed(0)
    star = torch.stack([torch.zeros(70, dtype=torch.long), torch.arange(1, 71)])
    model, x = GUMP(4, 8, 2).double().eval(), torch.randn(71, 4, dtype=torch.double)
    at_once, each = (torch.autograd.functional.jacobian(lambda x: model(x, star)[0], x, vectorize=v) for v in (True, False))
    torch.testing.assert_close(at_once, each)
