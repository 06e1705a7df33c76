"""The orthogonal factor of many small matrices, exact or by the paper's iteration."""

import math

import pytest
import scipy.linalg
import torch
from torch.autograd import gradcheck

from gump.linalg import polar, polar_factor, unitarity_error

BOUNDS = (0.1, 1.9)
MODES = {"exact": {}, "bounded": {"bounds": BOUNDS}, **{f"{k} steps": {"num_steps": k} for k in (0, 1, 5, 10)}}


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def with_singular_values(sigma, num_blocks=2, seed=0):
    left, right = torch.linalg.qr(normal(2, num_blocks, len(sigma), len(sigma), seed=seed))[0]
    return left @ torch.tensor(sigma, dtype=torch.float64).diag() @ right


def spread(d):
    """Blocks whose singular values fill the inside of the bounds."""
    return with_singular_values([0.2 + 1.6 * i / max(d - 1, 1) for i in range(d)])


def iterate(blocks, num_steps):
    """Algorithm 2 as it is printed."""
    x = blocks / torch.linalg.matrix_norm(blocks, keepdim=True)
    for _ in range(num_steps):
        x = 15 / 8 * x - 5 / 4 * (x @ x.mT @ x) + 3 / 8 * (x @ (x.mT @ x) @ (x.mT @ x))
    return x


def tied(d):
    """Blocks with two equal rows and two equal columns."""
    index = torch.arange(d).clamp_min(min(1, d - 1))
    return normal(100, d, d)[:, index][:, :, index]


HARD = {
    "generic": lambda d: normal(400, d, d),
    "nearly singular": lambda d: with_singular_values([*[1.0] * (d - 1), 1e-9], 100),
    "badly scaled": lambda d: with_singular_values([10.0 ** (-i) for i in range(d)], 100),
    "equal rows": lambda d: normal(100, 1, d).expand(100, d, d),
    "equal columns": lambda d: normal(100, d, 1).expand(100, d, d),
    "ties": tied,
    "zero": lambda d: torch.zeros(3, d, d, dtype=torch.float64),
    "tiny": lambda d: 1e-20 * normal(100, d, d),
    "huge": lambda d: 1e20 * normal(100, d, d),
}


def test_by_hand():
    assert polar_factor(torch.tensor([[0.0, 2.0], [-3.0, 0.0]])).tolist() == [[0, 1], [-1, 0]]
    assert polar_factor(torch.tensor([[[5.0]], [[-0.1]], [[1e-30]]])).flatten().tolist() == [1, -1, 1]


def test_a_number_that_is_zero_has_the_factor_one():
    assert polar_factor(torch.tensor([[[0.0]], [[-0.0]]])).flatten().tolist() == [1, 1]


@pytest.mark.parametrize("d", [*range(1, 10), 25])
def test_exact_is_what_scipy_finds(d):
    blocks = torch.cat([spread(d), normal(5, d, d)])
    expected = torch.stack([torch.from_numpy(scipy.linalg.polar(block.numpy())[0]) for block in blocks])
    torch.testing.assert_close(polar_factor(blocks), expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(polar_factor(blocks[:2], bounds=BOUNDS), expected[:2], rtol=0, atol=1e-13)


@pytest.mark.parametrize("d", [*range(1, 10), 25])
@pytest.mark.parametrize("kind", HARD)
def test_in_float32_every_block_is_orthogonal_and_as_close_as_can_be(kind, d):
    blocks = HARD[kind](d).float()
    factor = polar_factor(blocks)
    assert unitarity_error(factor).max() < 1e-5
    agreement = (factor.double() * blocks.double()).sum((-2, -1))  # largest for the closest orthogonal matrix, the sum of sigma
    torch.testing.assert_close(agreement, torch.linalg.matrix_norm(blocks.double(), "nuc"), rtol=1e-5, atol=0)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_right_on_generic_blocks_and_at_repeated_singular_values(mode, d):
    repeated = 0.7 * torch.linalg.qr(normal(2, d, d))[0]
    for blocks in (spread(d), repeated):
        assert gradcheck(lambda b: polar_factor(b, **MODES[mode]), blocks.requires_grad_())


@pytest.mark.parametrize("sigma", [(1.0, 1e-5), (1.0, 0.5, 1e-5), (1.0, 1e-5, 1e-5), (1.0, 0.5, 0.2, 1e-5), (1.0, 0.7, 1e-5, 1e-5)])
def test_gradients_are_right_where_singular_values_are_small(sigma):
    blocks = with_singular_values(sigma).requires_grad_()
    assert gradcheck(polar_factor, blocks, eps=1e-9, rtol=1e-3, atol=1e-4)
    assert gradcheck(lambda b: polar_factor(b, num_steps=10), blocks, eps=1e-8)


@pytest.mark.parametrize("sigma", [(0.1, 0.1, 0.1, 0.1), (0.1, 0.1, 1.0, 1.9, 1.9), (1.9, 1.9, 1.9, 1.9, 1.9)])
def test_bounds_change_neither_the_factor_nor_its_gradient(sigma):
    blocks, weight = with_singular_values(sigma).requires_grad_(), normal(len(sigma), len(sigma), seed=1)
    results = [polar_factor(blocks), polar_factor(blocks, bounds=BOUNDS)]
    torch.testing.assert_close(*results, rtol=0, atol=1e-13)
    torch.testing.assert_close(*(torch.autograd.grad((r * weight).sum(), blocks)[0] for r in results), rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_gradients_scale_inversely_with_the_block(scale, d):
    blocks, weight = normal(20, d, d).float(), normal(20, d, d, seed=1).float()
    grads = []
    for factor in (1.0, scale):
        scaled = (factor * blocks).requires_grad_()
        grads.append(torch.autograd.grad((polar_factor(scaled) * weight).sum(), scaled)[0].double() * factor)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("deficit", [1, 2, 99])
def test_where_the_rank_is_deficient_the_factor_is_orthogonal_and_the_gradient_finite(deficit, d, dtype):
    rank = max(d - deficit, 0)
    blocks = with_singular_values([1.0 + i for i in range(rank)] + [0.0] * (d - rank), 20).to(dtype).requires_grad_()
    factor = polar_factor(blocks)
    assert unitarity_error(factor.detach()).max() < (1e-13 if dtype == torch.float64 else 1e-6)
    (factor * normal(20, d, d, seed=1)).sum().backward()
    assert blocks.grad.isfinite().all()
    assert rank > 0 or not blocks.grad.any()


@pytest.mark.parametrize("num_steps", [0, 1, 5, 10, 15])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_iterate_and_its_gradient_are_those_of_the_printed_loop(d, num_steps):
    for blocks in (normal(20, d, d), tied(d), 1e-6 * normal(20, d, d)):
        weight, leaves = normal(*blocks.shape, seed=1), [blocks.clone().requires_grad_() for _ in range(2)]
        results = [polar_factor(leaves[0], num_steps=num_steps), iterate(leaves[1], num_steps)]
        torch.testing.assert_close(*results, rtol=0, atol=1e-11)
        grads = [torch.autograd.grad((r * weight).sum(), leaf)[0] for r, leaf in zip(results, leaves, strict=True)]
        torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-9 / blocks.abs().max().item())


@pytest.mark.parametrize("mode", MODES)
def test_separate_permutations_of_rows_and_columns_commute_with_it_at_full_rank(mode):
    blocks, rows, columns = spread(5), torch.tensor([3, 0, 4, 1, 2]), torch.tensor([1, 2, 0, 4, 3])
    permuted = polar_factor(blocks[:, rows][:, :, columns], **MODES[mode])
    torch.testing.assert_close(permuted, polar_factor(blocks, **MODES[mode])[:, rows][:, :, columns], rtol=0, atol=1e-13)


@pytest.mark.parametrize("d", [3, 6])
def test_what_rounding_makes_of_ties_is_small_after_ten_steps_and_large_after_thirty(d):
    blocks = tied(d).float()
    rounded = blocks * (1 + torch.finfo(torch.float32).eps * normal(100, d, d, seed=1).float())

    def error(**settings):
        return float((polar_factor(blocks, **settings) - polar_factor(rounded, **settings)).abs().amax((-2, -1)).median())

    assert error(num_steps=10) < 1e-4
    assert error(num_steps=30) > 1e-2


@pytest.mark.parametrize("settings", [{}, {"bounds": BOUNDS}, {"num_steps": 1}, {"num_steps": 40}])
def test_two_matrices_per_block_are_kept_however_many_steps_there_were(settings):
    blocks, kept = spread(6).requires_grad_(), {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.update({t.data_ptr(): t.nbytes}) or t, lambda t: t):
        factor = polar_factor(blocks, **settings)
    assert 0 < sum(kept.values()) <= blocks.nbytes + factor.nbytes


@pytest.mark.parametrize("settings", [{}, {"bounds": BOUNDS}, {"num_steps": 20}])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_and_autocast_give_float32_and_the_same_gradient(dtype, settings):
    blocks, results = spread(5).to(dtype).requires_grad_(), []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            factor = polar_factor(blocks, **settings)
            results.append((factor.detach(), *torch.autograd.grad(factor.pow(3).sum(), blocks)))
    assert results[0][0].dtype == results[1][0].dtype == torch.float32
    assert unitarity_error(results[0][0]).max() < 1e-6
    assert results[0][1].norm() > 0.1
    assert all(torch.equal(outside, inside) for outside, inside in zip(*results, strict=True))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("mode", ["exact", "bounded", "5 steps"])
def test_batch_dimensions_are_free(mode, shape):
    blocks = spread(4)[0] * torch.linspace(0.6, 1.0, max(1, torch.Size(shape).numel()), dtype=torch.float64).view(*shape, 1, 1)
    factor = polar_factor(blocks, **MODES[mode])
    expected = [polar_factor(block, **MODES[mode]) for block in blocks.reshape(-1, 4, 4)]
    torch.testing.assert_close(factor, torch.stack(expected).view(blocks.shape), rtol=0, atol=1e-14)


@pytest.mark.parametrize("mode", ["exact", "bounded", "5 steps"])
def test_it_is_differentiable_once(mode):
    blocks = spread(3).requires_grad_()
    (grad,) = torch.autograd.grad(polar_factor(blocks, **MODES[mode]).pow(3).sum(), blocks, create_graph=True)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        grad.sum().backward()


@pytest.mark.parametrize(
    ("blocks", "settings", "message"),
    [
        (torch.zeros(2, 3), {}, r"'blocks' must be square matrices of shape \[..., d, d\] \(got \[2, 3\]\)"),
        (torch.ones(2, 2, dtype=torch.int), {}, r"'blocks' must be real floating-point matrices \(got torch.int32\)"),
        (torch.zeros(0, 2, 2), {}, r"'blocks' must not be empty \(got \[0, 2, 2\]\)"),
        (torch.tensor([[float("nan")]]), {}, r"'blocks' must be finite \(got 1 entries that are NaN or infinite\)"),
        (torch.full((2, 2), float("inf")), {}, r"'blocks' must be finite \(got 4 entries that are NaN or infinite\)"),
        ([[1.0]], {}, r"'blocks' must be a tensor \(got list\); pass torch.as_tensor\(blocks\)"),
        (torch.eye(2), {"num_steps": 2.5}, r"'num_steps' must be an integer \(got 2.5\)"),
        (
            2 * torch.eye(3),
            {"bounds": (0.9, 1.1)},
            r"'bounds' must hold every singular value of 'blocks' \(got \(0.9, 1.1\), which leave",
        ),
        (99 * torch.eye(3), {"bounds": (0.9, 1.1)}, r"'bounds' must hold every singular value .* a unitarity error of (inf|nan)\)"),
        (torch.eye(2), {"num_steps": -1}, r"'num_steps' must not be negative \(got -1\)"),
        (torch.eye(2), {"num_steps": 1, "bounds": BOUNDS}, r"'bounds' must be left out with 'num_steps' \(got both\)"),
        (torch.eye(3), {"bounds": (0.0, 1.0)}, r"'bounds' must satisfy 0 < bounds\[0\] <= bounds\[1\] \(got \(0.0, 1.0\)\)"),
    ],
)
def test_what_has_no_factor_is_refused(blocks, settings, message):
    with pytest.raises(ValueError, match=message):
        polar_factor(blocks, **settings)


@pytest.mark.parametrize("d", [3, 4, 5, 6, 7])
def test_a_block_has_one_factor_however_many_are_beside_it(d):
    torch.manual_seed(d)
    blocks = torch.eye(d, dtype=torch.float64) + 0.8 * torch.randn(300, d, d, dtype=torch.float64) / d
    together = polar_factor(blocks)
    alone = torch.cat([polar_factor(block.unsqueeze(0)) for block in blocks])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bounds", [(0.9, 1.1), (0.1, 1.9), (1e-4, 1.0), (1e-6, 10.0)])
@pytest.mark.parametrize("d", [1, 2, 3, 8, 65])
def test_bounds_that_hold_are_never_refused(d, bounds, dtype):
    left, right = torch.linalg.qr(torch.randn(2, 3, d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    sigma = torch.logspace(*(math.log10(bound) for bound in bounds), d, dtype=torch.float64)
    factor = polar_factor(((left * sigma) @ right).to(dtype), bounds=bounds)
    assert unitarity_error(factor).max() < 64 * torch.finfo(dtype).eps


def test_whoever_does_not_look_gets_what_bounds_make_of_it():
    assert unitarity_error(polar_factor(2 * torch.eye(3), bounds=(0.9, 1.1), check_finite=False)) > 1


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_three_by_three_blocks_is_that_of_the_general_way_at_any_rank(rank, dtype):
    blocks = with_singular_values([0.8, 0.5, 0.3][:rank] + [0.0] * (3 - rank), 20).to(dtype)
    factor, grad = polar_factor(blocks), torch.randn_like(blocks)
    product, stretch = factor.mT @ grad, factor.mT @ blocks
    general = factor @ polar._solve_lyapunov((stretch + stretch.mT) / 2, product - product.mT, None)
    torch.testing.assert_close(polar.grad_within(blocks, factor, grad, None), general, rtol=1e-3, atol=1e-4)
    assert (general.norm() > 1) == (rank > 0)
