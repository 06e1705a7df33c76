"""The kernel of the attention scores against the plain computation, in double precision."""

import pytest
import torch

import gump.nn.pair_score
from gump.kernels.pair_score import MAX_DEGREE, pair_score

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def inputs(num_blocks, d, width, groups=1, scale=1.0):
    generator = torch.Generator().manual_seed(d)
    shapes = [(num_blocks, d, width), (num_blocks, d, width), (groups, width)]
    return [(scale * torch.randn(shape, generator=generator)).to(DEVICE).requires_grad_() for shape in shapes]


def plain(row, column, weight, negative_slope):
    pair = row[:, :, None] + column[:, None]
    weight = weight.repeat_interleave(row.size(0) // weight.size(0), 0)
    return torch.tanh((torch.where(pair > 0, pair, negative_slope * pair) * weight[:, None, None]).sum(-1))


def grads(scores, arguments):
    weight = torch.linspace(-1, 1, scores.numel(), device=DEVICE, dtype=scores.dtype).view_as(scores)
    return torch.autograd.grad((scores * weight).sum(), arguments)


@pytest.mark.parametrize("negative_slope", [0.01, 1.0])
@pytest.mark.parametrize(
    ("num_blocks", "d", "width", "groups"),
    [
        (1, 1, 1, 1),
        (70, 1, 32, 1),
        (3, 2, 5, 3),
        (50, 3, 32, 2),
        (7, 4, 32, 1),
        (6, 5, 24, 3),
        (4, MAX_DEGREE, 32, 2),
        (2, 3, 1500, 2),
    ],
)
def test_values_and_gradients_are_those_of_the_plain_formula(num_blocks, d, width, groups, negative_slope):
    arguments = inputs(num_blocks, d, width, groups, scale=0.5)
    doubled = [argument.detach().double().requires_grad_() for argument in arguments]
    scores, expected = pair_score(*arguments, negative_slope), plain(*doubled, negative_slope)
    torch.testing.assert_close(scores.double(), expected, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(grads(scores, arguments), grads(expected, doubled), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=2e-6 * max(1.0, float(theirs.abs().max())))


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e-3, 0.1, 1.0, 1e3, 1e10])
def test_small_scores_keep_their_digits_and_large_ones_reach_one(scale):
    row, _, weight = inputs(200, 1, 1)
    row = scale * row.detach()
    scores = pair_score(row, torch.zeros_like(row), weight.detach().abs() + 0.5, 1.0)
    expected = plain(row.double(), torch.zeros_like(row).double(), weight.detach().double().abs() + 0.5, 1.0)
    torch.testing.assert_close(scores.double(), expected, rtol=2e-6, atol=0)
    assert scale < 100 or (scores.abs() == 1).any()


def test_what_is_no_number_stays_in_its_pairs():
    row, column, weight = (argument.detach() for argument in inputs(2, 3, 4))
    row[0, 1, 2] = float("nan")
    scores = pair_score(row, column, weight, 0.01)
    assert scores[0, 1].isnan().all()
    assert int(scores.isnan().sum()) == 3


def test_at_zero_the_slope_is_the_negative_one_as_in_torch():
    row, column = torch.ones(1, 1, 1, device=DEVICE, requires_grad=True), -torch.ones(1, 1, 1, device=DEVICE)
    pair_score(row, column, torch.ones(1, 1, device=DEVICE), 0.25).backward()
    assert row.grad.item() == 0.25


def test_no_blocks_are_no_work():
    arguments = inputs(0, 3, 4, groups=2)
    scores = pair_score(*arguments, 0.01)
    scores.sum().backward()
    assert scores.shape == (0, 3, 3)
    assert not arguments[2].grad.any()


def test_unequal_shares_are_refused():
    with pytest.raises(ValueError, match=r"'row' must have as many blocks for each of the 2 weights \(got 3 in all\)"):
        pair_score(*inputs(3, 2, 4, groups=2), 0.01)


def test_larger_blocks_are_refused_here_and_go_the_plain_way_through_the_public_door(monkeypatch):
    row, column, weight = (t.detach() for t in inputs(1, MAX_DEGREE + 1, 2))
    with pytest.raises(ValueError, match=rf"'row' must have at most {MAX_DEGREE} vectors in a block \(got {MAX_DEGREE + 1}\)"):
        pair_score(row, column, weight, 0.01)
    monkeypatch.setattr(gump.nn.pair_score, "runs_kernels", lambda *tensors: True)
    torch.testing.assert_close(gump.nn.pair_score.pair_score(row, column, weight[0], 0.01), plain(row, column, weight, 0.01))


def test_repetition_gives_the_same_bits():
    arguments = inputs(40, 4, 32, groups=2)
    first, second = ([s, *grads(s, arguments)] for s in (pair_score(*arguments, 0.01) for _ in range(2)))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_layout_of_the_arguments_does_not_matter():
    arguments = inputs(5, 3, 4)
    strided = [t.detach().mT.contiguous().mT.requires_grad_() for t in arguments]
    assert torch.equal(pair_score(*arguments, 0.01), pair_score(*strided, 0.01))
    for ours, theirs in zip(*(torch.autograd.grad(pair_score(*a, 0.01).mT.sum(), a) for a in (arguments, strided)), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("shared", [None, 0, 2])
def test_replicas_side_by_side_equal_each_alone_through_the_public_door(monkeypatch, shared):
    monkeypatch.setattr(gump.nn.pair_score, "runs_kernels", lambda *tensors: True)
    score = gump.nn.pair_score.pair_score
    stacked = [torch.stack([t.detach() * k for k in (1, 2, -1)]) for t in inputs(5, 3, 8)]
    stacked[2] = stacked[2][:, 0]
    dims = [None if k == shared else 0 for k in range(3)]
    given = [t[0] if k == shared else t for k, t in enumerate(stacked)]
    run = torch.func.grad_and_value(lambda *a: score(*a, 0.01).pow(3).sum(), argnums=(0, 1, 2))
    grads, values = torch.vmap(run, in_dims=tuple(dims))(*given)
    for replica in range(3):
        leaves = [(t if k == shared else t[replica]).double().requires_grad_() for k, t in enumerate(given)]
        alone = plain(*leaves[:2], leaves[2].unsqueeze(0), 0.01).pow(3).sum()
        torch.testing.assert_close(values[replica].double(), alone.detach(), rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(grads, torch.autograd.grad(alone, leaves), strict=True):
            torch.testing.assert_close(ours[replica].double(), theirs, rtol=1e-5, atol=1e-5)
