"""Attention scores of all pairs of arcs that meet at a vertex."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu


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
    scores: Tensor = _PairScore.apply(row, column, weight, negative_slope)
    return scores


class _PairScore(torch.autograd.Function):
    """Keeps one tensor of the size of all pairs, where composing the operations would keep three."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> Tensor:
        pair = leaky_relu(row.unsqueeze(2) + column.unsqueeze(1), negative_slope, inplace=True)  # [n, d, d, F]
        scores = (pair @ weight).tanh_()
        ctx.negative_slope = negative_slope
        ctx.save_for_backward(pair, weight, scores)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        pair, weight, scores = ctx.saved_tensors
        grad = torch.ops.aten.tanh_backward(grad, scores)
        outer = grad.unsqueeze(-1) * weight
        grad_pair = torch.ops.aten.leaky_relu_backward(outer, pair, ctx.negative_slope, True)  # the sign of pair is all it needs
        grad_weight = grad.reshape(-1) @ pair.reshape(-1, pair.size(-1))
        return grad_pair.sum(2), grad_pair.sum(1), grad_weight, None
