"""The kernel of the attention scores against the plain computation, in double precision."""

import pytest
import torch

import gump.nn.pair_score
from gump.kernels.pair_score import pair_score
from gump.kernels.tiling import MAX_DEGREE

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def inputs(sizes, width, scale=1.0):
    generator = torch.Generator().manual_seed(len(sizes))
    num_rows = sum(d * n for d, n in sizes)
    shapes = [(num_rows, width), (num_rows, width), (width,)]
    return [(scale * torch.randn(shape, generator=generator)).to(DEVICE).requires_grad_() for shape in shapes]


def plain(row, column, weight, negative_slope, sizes):
    first, blocks = 0, []
    for d, n in sizes:
        p, q = (t[first : first + d * n].view(n, d, -1) for t in (row, column))
        pair = p[:, :, None] + q[:, None]
        blocks.append(torch.tanh((torch.where(pair > 0, pair, negative_slope * pair) * weight).sum(-1)))
        first += d * n
    return blocks


def flat(blocks):
    return torch.cat([block.flatten() for block in blocks])


def grads(blocks, arguments):
    scores = flat(blocks)
    weight = torch.linspace(-1, 1, scores.numel(), device=DEVICE, dtype=scores.dtype)
    return torch.autograd.grad((scores * weight).sum(), arguments)


@pytest.mark.parametrize("negative_slope", [0.01, 1.0])
@pytest.mark.parametrize(
    ("sizes", "width"),
    [
        (((1, 1),), 1),
        (((1, 70),), 32),
        (((2, 3), (3, 50)), 5),
        (((1, 5), (2, 9), (3, 50), (4, 7), (16, 2), (17, 3), (40, 1)), 32),
        (((5, 6),), 24),
        (((MAX_DEGREE, 3),), 32),
        (((3, 2),), 300),
    ],
)
def test_values_and_gradients_are_those_of_the_plain_formula(sizes, width, negative_slope):
    arguments = inputs(sizes, width, scale=0.5)
    doubled = [argument.detach().double().requires_grad_() for argument in arguments]
    scores, expected = pair_score(*arguments, negative_slope, sizes), plain(*doubled, negative_slope, sizes)
    assert [s.shape for s in scores] == [(n, d, d) for d, n in sizes]
    torch.testing.assert_close(flat(scores).double(), flat(expected), rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(grads(scores, arguments), grads(expected, doubled), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=2e-6 * max(1.0, float(theirs.abs().max())))


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e-3, 0.1, 1.0, 1e3, 1e10])
def test_small_scores_keep_their_digits_and_large_ones_reach_one(scale):
    sizes = ((1, 200),)
    row, _, weight = inputs(sizes, 1)
    row, weight = scale * row.detach(), weight.detach().abs() + 0.5
    (scores,) = pair_score(row, torch.zeros_like(row), weight, 1.0, sizes)
    (expected,) = plain(row.double(), torch.zeros_like(row).double(), weight.double(), 1.0, sizes)
    torch.testing.assert_close(scores.double(), expected, rtol=2e-6, atol=0)
    assert scale < 100 or (scores.abs() == 1).any()


def test_what_is_no_number_stays_in_its_pairs():
    sizes = ((3, 2),)
    row, column, weight = (argument.detach() for argument in inputs(sizes, 4))
    row[1, 2] = float("nan")
    (scores,) = pair_score(row, column, weight, 0.01, sizes)
    assert scores[0, 1].isnan().all()
    assert int(scores.isnan().sum()) == 3


def test_at_zero_the_slope_is_the_negative_one_as_in_torch():
    row, column = torch.ones(1, 1, device=DEVICE, requires_grad=True), -torch.ones(1, 1, device=DEVICE)
    pair_score(row, column, torch.ones(1, device=DEVICE), 0.25, ((1, 1),))[0].backward()
    assert row.grad.item() == 0.25


def test_no_blocks_are_no_work():
    sizes = ((3, 0),)
    arguments = inputs(sizes, 4)
    (scores,) = pair_score(*arguments, 0.01, sizes)
    scores.sum().backward()
    assert scores.shape == (0, 3, 3)
    assert not arguments[2].grad.any()


def test_larger_blocks_go_the_plain_way_through_the_public_door(monkeypatch):
    sizes = ((2, 3), (MAX_DEGREE + 1, 1))
    row, column, weight = (t.detach() for t in inputs(sizes, 2))
    monkeypatch.setattr(gump.nn.pair_score, "runs_kernels", lambda *tensors: True)
    ours, theirs = gump.nn.pair_score.pair_scores(row, column, weight, 0.01, sizes), plain(row, column, weight, 0.01, sizes)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_repetition_gives_the_same_bits():
    sizes = ((4, 40),)
    arguments = inputs(sizes, 32)
    first, second = ([*s, *grads(s, arguments)] for s in (pair_score(*arguments, 0.01, sizes) for _ in range(2)))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_layout_of_the_arguments_does_not_matter():
    sizes = ((3, 5),)
    arguments = inputs(sizes, 4)
    strided = [t.detach().t().contiguous().t().requires_grad_() for t in arguments]
    assert torch.equal(pair_score(*arguments, 0.01, sizes)[0], pair_score(*strided, 0.01, sizes)[0])
    pulled = [torch.autograd.grad(pair_score(*a, 0.01, sizes)[0].mT.sum(), a) for a in (arguments, strided)]
    for ours, theirs in zip(*pulled, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("shared", [None, 0, 2])
def test_replicas_side_by_side_equal_each_alone_through_the_public_door(monkeypatch, shared):
    monkeypatch.setattr(gump.nn.pair_score, "runs_kernels", lambda *tensors: True)
    sizes = ((2, 4), (3, 5))

    def score(row, column, weight):
        return flat(gump.nn.pair_score.pair_scores(row, column, weight, 0.01, sizes)).pow(3).sum()

    stacked = [torch.stack([t.detach() * k for k in (1, 2, -1)]) for t in inputs(sizes, 8)]
    dims = [None if k == shared else 0 for k in range(3)]
    given = [t[0] if k == shared else t for k, t in enumerate(stacked)]
    grads, values = torch.vmap(torch.func.grad_and_value(score, argnums=(0, 1, 2)), in_dims=tuple(dims))(*given)
    for replica in range(3):
        leaves = [(t if k == shared else t[replica]).double().requires_grad_() for k, t in enumerate(given)]
        alone = flat(plain(*leaves, 0.01, sizes)).pow(3).sum()
        torch.testing.assert_close(values[replica].double(), alone.detach(), rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(grads, torch.autograd.grad(alone, leaves), strict=True):
            torch.testing.assert_close(ours[replica].double(), theirs, rtol=1e-5, atol=1e-5)
