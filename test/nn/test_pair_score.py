"""Attention scores of all pairs of arcs that meet at a vertex."""

import pytest
import torch
from torch.autograd import gradcheck

import gump.nn.pair_score
from gump.nn.pair_score import pair_score, pair_scores


def inputs(num_blocks, d, width):
    generator = torch.Generator().manual_seed(d)
    shapes = [(num_blocks, d, width), (num_blocks, d, width), (width,)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


def plain(row, column, weight, negative_slope):
    pair = row[:, :, None] + column[:, None]
    return torch.tanh(torch.where(pair > 0, pair, negative_slope * pair) @ weight)


def test_by_hand():
    row, column = torch.tensor([[[1.0], [-2.0]]]), torch.tensor([[[0.5], [3.0]]])
    expected = torch.tensor([[[1.5, 4.0], [-0.15, 1.0]]]).tanh()
    torch.testing.assert_close(pair_score(row, column, torch.ones(1), 0.1), expected)


@pytest.mark.parametrize("negative_slope", [0.01, 0.2, 1.0])
@pytest.mark.parametrize(("num_blocks", "d", "width"), [(1, 1, 1), (3, 1, 4), (2, 3, 5), (4, 6, 2)])
def test_values_and_gradients_are_those_of_the_plain_formula(num_blocks, d, width, negative_slope):
    arguments = inputs(num_blocks, d, width)
    results = [score(*arguments, negative_slope) for score in (pair_score, plain)]
    torch.testing.assert_close(*results)
    weight = torch.linspace(-1, 1, results[0].numel(), dtype=torch.float64).view_as(results[0])
    for ours, theirs in zip(*(torch.autograd.grad((r * weight).sum(), arguments) for r in results), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_gradients_are_those_of_finite_differences(d):
    assert gradcheck(lambda *arguments: pair_score(*arguments, 0.01), inputs(2, d, 3))


@pytest.mark.parametrize("chunk", [1, 20, 60, 10_000])
def test_in_chunks_values_and_gradients_are_the_same(chunk, monkeypatch):
    monkeypatch.setattr(gump.nn.pair_score, "CHUNK", chunk)
    arguments = inputs(4, 3, 5)
    results = [pair_score(*arguments, 0.01, keep=keep) for keep in (True, False)]
    torch.testing.assert_close(*results, rtol=0, atol=1e-14)
    weight = torch.linspace(-1, 1, results[0].numel(), dtype=torch.float64).view_as(results[0])
    for kept, again in zip(*(torch.autograd.grad((r * weight).sum(), arguments) for r in results), strict=True):
        torch.testing.assert_close(kept, again, rtol=0, atol=1e-13)


def test_in_chunks_only_rows_columns_and_scores_are_kept():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        pair_score(*inputs(2, 6, 5), 0.01, keep=False)
    assert sorted(kept) == [5, 60, 60, 72]


def test_in_chunks_replicas_have_weights_of_their_own():
    row, column, weight = (torch.stack([x, 2 * x]).detach() for x in inputs(2, 3, 4))
    together = torch.vmap(lambda *x: pair_score(*x, 0.01, keep=False))(row, column, weight)
    for number in range(2):
        torch.testing.assert_close(together[number], plain(row[number], column[number], weight[number], 0.01))


def test_the_arguments_are_left_alone():
    arguments = inputs(2, 3, 4)
    before = [argument.detach().clone() for argument in arguments]
    pair_score(*arguments, 0.01).sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True))


def test_the_layout_of_the_arguments_does_not_matter():
    row, column, weight = inputs(2, 3, 4)
    strided = [t.detach().mT.contiguous().mT.requires_grad_() for t in (row, column)]
    pair_score(row, column, weight, 0.01).sum().backward()
    pair_score(*strided, weight.detach(), 0.01).sum().backward()
    torch.testing.assert_close(strided[0].grad, row.grad)
    torch.testing.assert_close(strided[1].grad, column.grad)


SIZES = [(1, 3), (2, 4), (5, 1)]


def flat_inputs(*lead):
    generator = torch.Generator().manual_seed(0)
    num_rows = sum(d * n for d, n in SIZES)
    shapes = [(*lead, num_rows, 4), (*lead, num_rows, 4), (*lead, 4)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


def plain_of_several(row, column, weight):
    parts = [d * n for d, n in SIZES]
    vectors = zip(SIZES, row.split(parts), column.split(parts), strict=True)
    return [plain(p.view(n, d, -1), q.view(n, d, -1), weight, 0.01) for (d, n), p, q in vectors]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("keep", [True, False])
def test_several_degrees_together_are_each_by_itself(keep, dtype):
    arguments = [argument.detach().to(dtype).requires_grad_() for argument in flat_inputs()]
    results = pair_scores(*arguments, 0.01, SIZES, keep), plain_of_several(*arguments)
    torch.testing.assert_close(*results)
    grads = [torch.autograd.grad(sum(block.pow(3).sum() for block in blocks), arguments) for blocks in results]
    torch.testing.assert_close(*grads)
    results = pair_scores(*arguments, 0.01, SIZES, keep), plain_of_several(*arguments)
    grads = [torch.autograd.grad(blocks[1].sum(), arguments) for blocks in results]  # the others are read by nobody
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("keep", [True, False])
def test_several_degrees_of_replicas_have_weights_of_their_own(keep):
    arguments = flat_inputs(3)

    def loss(*arguments):
        return sum(block.pow(3).sum() for block in pair_scores(*arguments, 0.01, SIZES, keep))

    together = torch.vmap(lambda *x: tuple(pair_scores(*x, 0.01, SIZES, keep)))(*arguments)
    for number in range(3):
        torch.testing.assert_close([b[number] for b in together], plain_of_several(*(x[number] for x in arguments)))
    ours = torch.autograd.grad(sum(block.pow(3).sum() for block in together), arguments)
    theirs = torch.autograd.grad(sum(loss(*(x[number] for x in arguments)) for number in range(3)), arguments)
    torch.testing.assert_close(ours, theirs)


def test_no_degree_no_scores():
    assert pair_scores(torch.empty(0, 4), torch.empty(0, 4), torch.ones(4), 0.01, []) == []


@pytest.mark.parametrize("keep", [True, False])
def test_gradients_can_be_taken_side_by_side(keep):
    arguments = [torch.stack([x.detach(), 2 * x.detach()]) for x in inputs(3, 2, 4)]
    together = torch.vmap(torch.func.grad(lambda *x: pair_score(*x, 0.01, keep).sum(), argnums=(0, 1, 2)))(*arguments)
    for number in range(2):
        alone = [x[number].requires_grad_() for x in arguments]
        expected = torch.autograd.grad(plain(*alone, 0.01).sum(), alone)
        torch.testing.assert_close([g[number] for g in together], list(expected))
