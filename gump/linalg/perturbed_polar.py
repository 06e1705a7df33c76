"""The orthogonal factors of matrices near known orthogonal ones, for many sizes together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gump.kernels.once_differentiable import once_differentiable
from gump.linalg.polar import factor_within, grad_within


def perturbed_polar(scores: Sequence[Tensor], centers: Sequence[Tensor], beta: float) -> list[Tensor]:
    r"""Computes the polar factors of bounded perturbations of orthogonal matrices, for blocks of several sizes.

    .. math::
        \mathsf{U}\left[\mathbf{C} + \beta \mathbf{B} / \sqrt{1 + \lVert \mathbf{B} \rVert_F^2}\right]

    What :func:`gump.linalg.polar_factor` makes of :func:`perturbed`, with a derivative of its own that keeps :math:`\mathbf{B}` and the factor
    alone. One step for all sizes: where blocks are small, calls cost more than arithmetic. Differentiable once.

    Args:
        scores: The matrices :math:`\mathbf{B}`, those of one size together, in single or double precision.
        centers: The orthogonal matrix :math:`\mathbf{C}` for each size.
        beta: How far to leave it, at least 0 and below 1.

    Shapes:
        - **scores:** :math:`(n, d, d)` each
        - **centers:** :math:`(d, d)` each
        - **output:** :math:`(n, d, d)` each

    Example:
        >>> perturbed_polar([torch.zeros(1, 2, 2)], [torch.eye(2)], beta=0.9)
        [tensor([[[1., 0.],
                 [0., 1.]]])]
    """
    return list(_PerturbedPolar.apply(beta, tuple(centers), *scores)) if scores else []


def perturbed(scores: Tensor, center: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    r"""The matrix :math:`\mathbf{C} + \beta s \mathbf{B}` and the factor :math:`s = (1 + \lVert \mathbf{B} \rVert_F^2)^{-1/2}` in it."""
    scale = (1 + scores.square().sum((-2, -1), keepdim=True)).rsqrt()
    return torch.addcmul(center, scale, scores, value=beta), scale


def perturbed_bounds(beta: float) -> tuple[float, float]:
    """Between which the singular values of :func:`perturbed` lie, since those of its center are one."""
    return 1 - beta, 1 + beta


class _PerturbedPolar(torch.autograd.Function):
    """All sizes in one node of the graph."""

    @staticmethod
    def forward(beta: float, centers: tuple[Tensor, ...], *scores: Tensor) -> tuple[Tensor, ...]:
        factors = []
        with torch.autocast(scores[0].device.type, enabled=False):
            for block, center in zip(scores, centers, strict=True):
                if block.size(-1) == 1:  # a number keeps its sign
                    factors.append(center.expand_as(block).clone())
                else:
                    factors.append(factor_within(perturbed(block, center, beta)[0], perturbed_bounds(beta)))
        return tuple(factors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.beta, ctx.centers, *scores = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*scores, *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # can be had once where states are computed again
        scores, factors = saved[: len(grads)], saved[len(grads) :]
        results: list[Tensor | None] = []
        with torch.autocast(scores[0].device.type, enabled=False):
            for block, factor, center, grad in zip(scores, factors, ctx.centers, grads, strict=True):
                if grad is None:
                    results.append(None)
                elif block.size(-1) == 1:  # zero and not none, for those who wait for all gradients
                    results.append(torch.zeros_like(block))
                else:
                    results.append(_pulled(block, factor, center, grad, ctx.beta))
        return None, None, *results

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], beta: float, centers: tuple[Tensor, ...], *scores: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        number = info.batch_size
        stacked = [
            block.expand(number, *block.shape) if dim is None else block.movedim(dim, 0)
            for block, dim in zip(scores, in_dims[2:], strict=True)
        ]
        factors = _PerturbedPolar.apply(beta, centers, *(block.flatten(0, 1) for block in stacked))
        return tuple(f.view(s.shape) for f, s in zip(factors, stacked, strict=True)), (0,) * len(scores)


def _pulled(scores: Tensor, factor: Tensor, center: Tensor, grad: Tensor, beta: float) -> Tensor:
    r"""Pulls a gradient with respect to the factor back to the scores: with :math:`\mathbf{G}` that of the matrix,
    :math:`\beta s (\mathbf{G} - s^2 \langle\mathbf{G}, \mathbf{B}\rangle \mathbf{B})`."""
    matrix, scale = perturbed(scores, center, beta)
    grad = grad_within(matrix, factor, grad, perturbed_bounds(beta))
    along = (grad * scores).sum((-2, -1), keepdim=True) * scale.square()
    return torch.addcmul(grad, along, scores, value=-1).mul_(scale * beta)
