"""The orthogonal factors of matrices near known orthogonal ones."""

import pytest
import torch
from torch.autograd import gradcheck

from gump.linalg import grover, polar_factor, unitarity_error
from gump.linalg.perturbed_polar import perturbed, perturbed_polar

SIZES = {1: 4, 2: 5, 3: 700, 4: 3, 7: 2}


def identity(degree, like):
    return torch.eye(degree, dtype=like.dtype)


CENTERS = {"grover": grover, "identity": identity}


def setting(center, dtype=torch.float64, sizes=SIZES):
    generator = torch.Generator().manual_seed(0)
    scores = [torch.randn(n, d, d, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for d, n in sizes.items()]
    return scores, [CENTERS[center](d, scores[0].detach()) for d in sizes]


def test_by_hand_a_turn():
    quarter = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    (factor,) = perturbed_polar([quarter], [torch.eye(2)], beta=0.9)
    angle = torch.tensor(0.9 / 3**0.5).atan()  # I + 0.9 Q / sqrt(1 + 2) is a turn and a stretch
    torch.testing.assert_close(factor[0], torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("center", CENTERS)
def test_values_and_gradients_are_those_of_one_after_the_other(center, beta, dtype):
    scores, centers = setting(center, dtype)
    ours = perturbed_polar(scores, centers, beta)
    plain = [polar_factor(perturbed(s, c, beta)[0], bounds=(1 - beta, 1 + beta)) for s, c in zip(scores, centers, strict=True)]
    torch.testing.assert_close(ours, plain)
    weights = [torch.linspace(-1, 2, s.numel(), dtype=dtype).view_as(s) for s in scores]
    grads = [
        torch.autograd.grad(sum((w * f).sum() for w, f in zip(weights[1:], fs[1:], strict=True)), scores[1:])
        for fs in (ours, plain)
    ]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("center", CENTERS)
def test_factors_are_orthogonal_and_gradients_those_of_finite_differences(center):
    scores, centers = setting(center, sizes={1: 2, 2: 2, 3: 2, 4: 1, 5: 1})
    assert all(unitarity_error(f.detach()).max() < 1e-13 for f in perturbed_polar(scores, centers, 0.9))
    assert gradcheck(lambda *scores: tuple(perturbed_polar(scores, centers, 0.9)), scores)


def test_a_size_that_nobody_reads_gets_no_gradient():
    scores, centers = setting("grover")
    perturbed_polar(scores, centers, 0.9)[2].pow(3).sum().backward()
    assert [s.grad is None for s in scores] == [True, True, False, True, True]


def test_huge_scores_and_zeros_have_finite_gradients():
    for scale in (0.0, 1e18):
        scores, centers = setting("grover", torch.float32)
        scores = [(scale * s).detach().requires_grad_() for s in scores]
        sum(f.pow(3).sum() for f in perturbed_polar(scores, centers, 0.9)).backward()
        assert all(s.grad is None or bool(s.grad.isfinite().all()) for s in scores)


def test_replicas_side_by_side_are_one_after_the_other():
    scores, centers = setting("grover", sizes={1: 2, 2: 3, 3: 2})
    stacked = [torch.stack([s, -s, 2 * s]).detach().movedim(0, k) for k, s in enumerate(scores)]
    run = torch.vmap(lambda *scores: tuple(perturbed_polar(scores, centers, 0.9)), in_dims=(0, 1, 2))
    for sign, number in ((1, 0), (-1, 1), (2, 2)):
        alone = perturbed_polar([sign * s.detach() for s in scores], centers, 0.9)
        torch.testing.assert_close([f[number] for f in run(*stacked)], alone)


def test_no_size_no_factor():
    assert perturbed_polar([], [], 0.9) == []


def test_replicas_may_share_the_blocks_of_one_size():
    scores, centers = setting("grover", sizes={2: 3, 3: 2})
    first, second = (s.detach() for s in scores)
    run = torch.vmap(lambda s: tuple(perturbed_polar([s, second], centers, 0.9)))
    stacked = run(torch.stack([first, -first]))
    torch.testing.assert_close([f[1] for f in stacked], perturbed_polar([-first, second], centers, 0.9))
