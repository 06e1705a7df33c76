"""The kernel of the polar factor against the plain computation, in double precision."""

import pytest
import torch

import gump.linalg.polar
import gump.nn.coin
from gump.kernels.polar import bounded_factors, unit_iterates
from gump.kernels.tiling import MAX_DEGREE
from gump.linalg import polar_factor, unitarity_error
from gump.linalg.polar import newton_schulz_quintics, quintics_within
from gump.nn import Coin

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
every_degree = pytest.mark.parametrize("d", [2, 3, 4, 5, 6, 8, 11, 16, 17, 30, 40, MAX_DEGREE])


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def within(bounds, num_blocks, d):
    """Blocks whose singular values fill an interval, its ends included; half of them turn, half of them reflect."""
    left, right = torch.linalg.qr(normal(2, num_blocks, d, d).double())[0]
    left[::2, 0] *= -1
    return (left @ torch.linspace(*bounds, d, dtype=torch.float64, device=DEVICE).diag() @ right).float()


def extreme(d):
    """Scores with ties, at their limits, without any size, and larger than scores can be."""
    ties = normal(4, d, d).tanh()
    ties[:2, 1] = ties[:2, 0]
    ties[1:3, :, 1] = ties[1:3, :, 0]
    ties[3] = ties[3, :1, :1]
    signs = normal(2, d, d, seed=1).sign()
    identity = torch.eye(d, device=DEVICE).expand(2, d, d) * torch.tensor([1.0, -1.0], device=DEVICE).view(2, 1, 1)
    ones = torch.ones(2, d, d, device=DEVICE) * torch.tensor([1.0, -1.0], device=DEVICE).view(2, 1, 1)
    zero = torch.zeros(1, d, d, device=DEVICE)
    return torch.cat([ties, signs, identity, ones, zero, 1e-20 * signs, 1e6 * ties, 1e15 * signs])


def of_scores(scores, beta):
    return bounded_factors([scores], quintics_within((1 - beta, 1 + beta), scores.dtype), beta)[0]


def assert_same(kernel, plain, blocks, atol, grad_atol):
    """A kernel's values and gradients are those that the plain way has in double precision."""
    leaves = [blocks.clone().requires_grad_(), blocks.double().requires_grad_()]
    results = [kernel(leaves[0]), plain(leaves[1])]
    assert unitarity_error(results[0].detach()).max() < 1e-6 * max(1, blocks.size(-1) / 10)
    torch.testing.assert_close(results[0].double(), results[1], rtol=0, atol=atol * max(1, blocks.size(-1) / 10))
    weight = normal(*blocks.shape, seed=2)
    ours, theirs = (torch.autograd.grad((r * weight).sum(), leaf)[0] for r, leaf in zip(results, leaves, strict=True))
    assert theirs.abs().max() > 0.01
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=grad_atol * float(theirs.abs().max()))


@every_degree
def test_coins_and_their_gradients_are_the_plain_ones_also_at_ties_and_extremes(d):
    scores = torch.cat([extreme(d), normal(7, d, d).tanh()])  # not a multiple of what a tile holds
    assert_same(lambda b: of_scores(b, 0.9), Coin(2, beta=0.9).project, scores, atol=1e-6, grad_atol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("d", [2, 3, 4])
def test_coins_are_the_plain_ones_for_every_beta(d, beta):
    scores = extreme(d)
    factor = of_scores(scores, beta)
    assert unitarity_error(factor).max() < 1e-6
    torch.testing.assert_close(
        factor.double(), Coin(2, beta=beta).project(scores.double()), rtol=0, atol=2e-5 if beta > 0.9 else 1e-6
    )


@every_degree
def test_factors_of_blocks_within_bounds_are_the_plain_ones(d):
    bounds = (0.1, 1.9)
    assert_same(
        lambda b: bounded_factors([b], quintics_within(bounds, b.dtype))[0],
        lambda b: polar_factor(b, bounds=bounds),
        within(bounds, 5, d),
        atol=2e-6,
        grad_atol=1e-5,
    )


def steps_of(blocks, num_steps):
    return unit_iterates([blocks], newton_schulz_quintics(num_steps))[0]


@pytest.mark.parametrize("num_steps", [0, 1, 5, 10])
@every_degree
def test_the_papers_iterates_and_their_gradients_are_the_plain_ones_also_far_from_orthogonal(d, num_steps):
    ties = normal(4, d, d)
    ties[:2, 1] = ties[:2, 0]
    ties[1:3, :, 1] = ties[1:3, :, 0]
    blocks = torch.cat(
        [ties, normal(7, d, d, seed=3).tanh(), within((1e-3, 1.0), 2, d), 1e15 * normal(1, d, d), 1e-15 * normal(1, d, d)]
    )
    leaves = [blocks.clone().requires_grad_(), blocks.double().requires_grad_()]
    ours, theirs = steps_of(leaves[0], num_steps), polar_factor(leaves[1], num_steps=num_steps)
    rounding = 2e-6 + 1.2e-7 * (15 / 8) ** num_steps  # which grows in every step as the least singular values do
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=rounding)
    weight = normal(*blocks.shape, seed=2)
    ours, theirs = (
        torch.autograd.grad((r * weight).sum(), leaf)[0].double() for r, leaf in ((ours, leaves[0]), (theirs, leaves[1]))
    )
    size = blocks.double().flatten(1).norm(dim=1)[:, None, None]  # a gradient is as large as its block is small
    largest = (theirs * size).abs().amax((1, 2), keepdim=True)
    torch.testing.assert_close(ours * size / largest, theirs * size / largest, rtol=0, atol=10 * rounding)


def test_the_iterate_of_zero_is_zero_and_so_is_its_gradient():
    for zero in (torch.zeros(3, 4, 4, device=DEVICE), torch.zeros(3, 1, 1, device=DEVICE)):
        leaf = zero.requires_grad_()
        out = steps_of(leaf, 10)
        out.sum().backward()
        assert not out.any()
        assert not leaf.grad.any()


def test_a_number_turns_no_gradient_back_however_small_it_is():
    leaf = torch.tensor([1e-39, -2.0], device=DEVICE).view(2, 1, 1).requires_grad_()
    out = steps_of(leaf, 10)
    out.sum().backward()
    assert out.flatten().tolist() == [1, -1]
    assert not leaf.grad.any()


def test_iterates_of_all_degrees_go_together_and_replicas_equal_each_alone():
    blocks = [normal(2, n, d, d) for d, n in ((1, 20), (2, 9), (3, 1), (5, 4), (20, 3), (33, 2))]
    together = torch.vmap(lambda *b: tuple(unit_iterates(b, newton_schulz_quintics(10))))(*blocks)
    for own, found in zip(blocks, together, strict=True):
        for replica in range(2):
            assert torch.equal(found[replica], steps_of(own[replica], 10))


def test_by_hand():
    blocks = torch.tensor([[[0.0, 0.5], [-1.5, 0.0]], [[0.0, 0.5], [1.5, 0.0]]], device=DEVICE)
    factor = bounded_factors([blocks], quintics_within((0.5, 1.5), torch.float32))[0]
    expected = torch.tensor([[[0.0, 1.0], [-1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], device=DEVICE)
    torch.testing.assert_close(factor, expected, rtol=0, atol=2e-7)


def test_the_factor_of_a_number_is_its_sign():
    numbers = torch.tensor([0.5, -0.5, 1.5, -1.5], device=DEVICE).view(-1, 1, 1)
    (factor,) = bounded_factors([numbers], quintics_within((0.5, 1.5), torch.float32))
    assert factor.flatten().tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_a_block_does_not_see_its_neighbors(d):
    scores = normal(9, d, d).tanh()
    alone = torch.cat([of_scores(b.unsqueeze(0), 0.9) for b in scores])
    torch.testing.assert_close(of_scores(scores, 0.9), alone, rtol=0, atol=1e-6)  # a sum may begin elsewhere


def test_blocks_of_all_degrees_go_together():
    scores = [normal(n, d, d).tanh().requires_grad_() for d, n in ((1, 20), (2, 9), (3, 1), (5, 4), (16, 2), (20, 3), (33, 2))]
    together = bounded_factors(scores, quintics_within((0.1, 1.9), torch.float32), 0.9)
    assert bool((together[0] == 1).all())
    grads = torch.autograd.grad(sum(f.pow(3).sum() for f in together), scores)
    for own, factor, grad in zip(scores, together, grads, strict=True):
        alone = of_scores(own, 0.9)
        assert torch.equal(alone, factor)
        assert torch.equal(torch.autograd.grad(alone.pow(3).sum(), own)[0], grad)


def test_what_is_no_number_stays_in_its_replica():
    scores = normal(2, 5, 3, 3).tanh()
    scores[1, 2, 0, 0] = float("nan")
    factors = torch.vmap(lambda s: of_scores(s, 0.9))(scores)
    assert torch.equal(factors[0], of_scores(scores[0], 0.9))
    assert factors[1, 2].isnan().all()


@pytest.mark.parametrize("d", [2, 3, 5])
def test_no_blocks_are_no_work(d):
    scores = torch.zeros(0, d, d, device=DEVICE, requires_grad=True)
    factor = of_scores(scores, 0.9)
    factor.sum().backward()
    assert factor.shape == scores.grad.shape == (0, d, d)


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=rf"'sizes' must have degrees up to {MAX_DEGREE} \(got {MAX_DEGREE + 1}\)"):
        of_scores(torch.zeros(1, MAX_DEGREE + 1, MAX_DEGREE + 1), 0.9)


@pytest.mark.parametrize("in_dim", [0, 1, 3])
def test_replicas_side_by_side_equal_each_alone(in_dim):
    scores = normal(3, 7, 4, 4).tanh()
    grad, values = torch.vmap(torch.func.grad_and_value(lambda b: of_scores(b, 0.9).pow(3).sum()), in_dims=in_dim)(
        scores.movedim(0, in_dim)
    )
    for replica in range(3):
        leaf = scores[replica].clone().requires_grad_()
        alone = of_scores(leaf, 0.9).pow(3).sum()
        torch.testing.assert_close(values[replica], alone.detach())
        torch.testing.assert_close(grad[replica], torch.autograd.grad(alone, leaf)[0])


def test_the_layout_of_blocks_and_gradients_does_not_matter():
    scores, weight = normal(5, 4, 4).tanh(), normal(5, 4, 4, seed=1)
    leaves = [scores.clone().requires_grad_(), scores.mT.contiguous().mT.requires_grad_()]
    ours, theirs = (
        torch.autograd.grad((of_scores(x, 0.9) * w).sum(), x)[0]
        for x, w in zip(leaves, (weight, weight.mT.clone().mT), strict=True)
    )
    assert torch.equal(ours, theirs)
    (expanded,) = torch.autograd.grad(of_scores(leaves[0], 0.9).sum(), leaves[0])
    (full,) = torch.autograd.grad((of_scores(leaves[0], 0.9) * torch.ones_like(scores)).sum(), leaves[0])
    assert torch.equal(expanded, full)


@pytest.mark.parametrize("d", [1, 2, 4, MAX_DEGREE + 1])
def test_coin_and_polar_factor_use_it_where_they_may(monkeypatch, d):
    used = []
    monkeypatch.setattr(gump.nn.coin, "runs_kernels", lambda *tensors: True)
    monkeypatch.setattr(gump.linalg.polar, "runs_kernels", lambda *tensors: True)
    monkeypatch.setattr(
        gump.kernels.polar, "bounded_factors", lambda *arguments: used.append(len(arguments)) or bounded_factors(*arguments)
    )
    coin, scores = Coin(2), normal(6, d, d).tanh()
    expected = coin.project(scores.double()) if d == 1 else polar_factor(coin.perturbed(scores.double()))
    torch.testing.assert_close(coin.project_all([scores])[0].double(), expected, rtol=0, atol=2e-6)
    factor = polar_factor(coin.perturbed(scores.view(2, 3, d, d)), bounds=(0.1, 1.9))
    torch.testing.assert_close(factor.double(), expected.view(2, 3, d, d), rtol=0, atol=2e-6)
    assert used == ([3, 2] if d <= MAX_DEGREE else [])


@pytest.mark.parametrize("d", [1, 2, 4, MAX_DEGREE + 1])
def test_the_papers_coin_and_polar_factor_use_it_where_they_may(monkeypatch, d):
    used, coin, scores = [], Coin(2, kind="newton_schulz", num_steps=7), normal(6, d, d).tanh()
    expected = polar_factor(scores.double(), num_steps=7)
    monkeypatch.setattr(gump.nn.coin, "runs_kernels", lambda *tensors: True)
    monkeypatch.setattr(gump.linalg.polar, "runs_kernels", lambda *tensors: True)
    monkeypatch.setattr(gump.kernels.polar, "unit_iterates", lambda *arguments: used.append(1) or unit_iterates(*arguments))
    torch.testing.assert_close(coin.project_all([scores])[0].double(), expected, rtol=0, atol=3e-6)
    torch.testing.assert_close(polar_factor(scores, num_steps=7).double(), expected, rtol=0, atol=3e-6)
    assert len(used) == (2 if d <= MAX_DEGREE else 0)


def test_it_is_differentiable_once():
    scores = normal(2, 3, 3).requires_grad_()
    (grad,) = torch.autograd.grad(of_scores(scores, 0.9).pow(3).sum(), scores, create_graph=True)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        grad.sum().backward()
