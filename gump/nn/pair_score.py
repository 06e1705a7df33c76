"""Attention scores of all pairs of arcs that meet at a vertex."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from gump.kernels import runs_kernels
from gump.nn.rows import replicas_first


def pair_score(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> Tensor:
    r"""Scores every row against every column of its block (equation 1).

    .. math::
        \mathbf{B}_{ij} = \tanh(\mathbf{w}^{\top} \mathrm{LeakyReLU}(\mathbf{p}_i + \mathbf{q}_j))

    Args:
        row: The vectors :math:`\mathbf{p}_i`.
        column: The vectors :math:`\mathbf{q}_j`.
        weight: The vector :math:`\mathbf{w}`.
        negative_slope: Of the LeakyReLU, above zero.

    Shapes:
        - **row, column:** :math:`(n, d, F)`
        - **weight:** :math:`(F)`
        - **output:** :math:`(n, d, d)`
    """
    if runs_kernels(row, column, weight):
        from gump.kernels.pair_score import MAX_DEGREE
        from gump.kernels.pair_score import pair_score as in_one_pass

        if row.size(1) <= MAX_DEGREE:
            return in_one_pass(row, column, weight.unsqueeze(0), negative_slope)
    scores: Tensor = _PairScore.apply(row, column, weight.unsqueeze(0), negative_slope)[0]
    return scores


class _PairScore(torch.autograd.Function):
    """Keeps one tensor of the size of all pairs, where composing the operations would keep three.

    Consecutive vertices may have weights of their own, as many of them for each row of ``weight``: so replicas are computed side by side.
    """

    @staticmethod
    def forward(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> tuple[Tensor, Tensor]:
        pair = leaky_relu(row.unsqueeze(2) + column.unsqueeze(1), negative_slope, inplace=True)  # [n, d, d, F]
        scores = torch.bmm(pair.reshape(weight.size(0), -1, weight.size(1)), weight.unsqueeze(-1)).tanh_()
        return scores.view(pair.shape[:-1]), pair

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, Tensor]) -> None:
        scores, pair = output
        ctx.mark_non_differentiable(pair)
        ctx.set_materialize_grads(False)
        ctx.negative_slope = inputs[3]
        ctx.save_for_backward(pair, inputs[2], scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        if grad is None:
            return None, None, None, None
        pair, weight, scores = ctx.saved_tensors
        groups = weight.size(0)
        grad = torch.ops.aten.tanh_backward(grad, scores).view(groups, -1, 1)
        outer = (grad * weight.unsqueeze(1)).view(pair.shape)
        grad_pair = torch.ops.aten.leaky_relu_backward(outer, pair, ctx.negative_slope, True)  # the sign of pair is all it needs
        grad_weight = torch.bmm(grad.mT, pair.reshape(groups, -1, pair.size(-1))).squeeze(1)
        return grad_pair.sum(2), grad_pair.sum(1), grad_weight, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], row: Tensor, column: Tensor, weight: Tensor, negative_slope: float
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        row, column, weight = (replicas_first(info, dim, x) for dim, x in zip(in_dims, (row, column, weight), strict=False))
        scores, pair = _PairScore.apply(row.flatten(0, 1), column.flatten(0, 1), weight.flatten(0, 1), negative_slope)
        size = (info.batch_size, row.size(1))
        return (scores.unflatten(0, size), pair.unflatten(0, size)), (0, 0)
