"""Attention scores of all pairs of arcs that meet at a vertex."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from gump.kernels import runs_kernels
from gump.nn.rows import replicas_first

CHUNK = 2**20
"""How many numbers are held for pairs at a time, where not all are kept."""


def pair_scores(
    row: Tensor, column: Tensor, weight: Tensor, negative_slope: float, sizes: Sequence[tuple[int, int]], keep: bool = True
) -> list[Tensor]:
    r"""Scores every row against every column of its block, for blocks of several degrees, by a kernel where there is one.

    Args:
        row: The vectors :math:`\mathbf{p}_i`, those of a block one after the other.
        column: The vectors :math:`\mathbf{q}_j`.
        weight: The vector :math:`\mathbf{w}`.
        negative_slope: Of the LeakyReLU, above zero.
        sizes: Degrees, from the smallest, and how many blocks have each, in the order of the rows.
        keep: As for :func:`pair_score`. A kernel computes the pairs again in any case.

    Shapes:
        - **row, column:** :math:`(A, F)`
        - **weight:** :math:`(F)`
        - **output:** :math:`(n, d, d)` for every degree
    """
    blocks: list[Tensor] = []
    if runs_kernels(row, column, weight):
        from gump.kernels.pair_score import pair_score as in_one_pass
        from gump.kernels.tiling import MAX_DEGREE

        if small := tuple(size for size in sizes if size[0] <= MAX_DEGREE):
            num_rows = sum(degree * num_blocks for degree, num_blocks in small)
            blocks = in_one_pass(row[:num_rows], column[:num_rows], weight, negative_slope, small)
    parts = [degree * num_blocks for degree, num_blocks in sizes]
    for (degree, num_blocks), p, q in list(zip(sizes, row.split(parts), column.split(parts), strict=True))[len(blocks) :]:
        shape = (num_blocks, degree, row.size(-1))
        blocks.append(pair_score(p.view(shape), q.view(shape), weight, negative_slope, keep))
    return blocks


def pair_score(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float, keep: bool = True) -> Tensor:
    r"""Scores every row against every column of its block (equation 1).

    .. math::
        \mathbf{B}_{ij} = \tanh(\mathbf{w}^{\top} \mathrm{LeakyReLU}(\mathbf{p}_i + \mathbf{q}_j))

    Args:
        row: The vectors :math:`\mathbf{p}_i`.
        column: The vectors :math:`\mathbf{q}_j`.
        weight: The vector :math:`\mathbf{w}`.
        negative_slope: Of the LeakyReLU, above zero.
        keep: Whether to keep :math:`F` numbers for every pair until the backward, which is fast; otherwise a part of the pairs is held at a
            time, and computed again in the backward.

    Shapes:
        - **row, column:** :math:`(n, d, F)`
        - **weight:** :math:`(F)`
        - **output:** :math:`(n, d, d)`
    """
    scores: Tensor = (_PairScore if keep else _PairScoreInChunks).apply(row, column, weight.unsqueeze(0), negative_slope)[0]
    return scores


class _PairScore(torch.autograd.Function):
    """Keeps one tensor of the size of all pairs, where composing the operations would keep three.

    Consecutive vertices may have weights of their own, as many of them for each row of ``weight``: so replicas are computed side by side.
    """

    @staticmethod
    def forward(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> tuple[Tensor, Tensor]:
        pair = _pairs(row, column, negative_slope)
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
        return *_grad(grad, scores, pair, weight, ctx.negative_slope), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], row: Tensor, column: Tensor, weight: Tensor, negative_slope: float
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return _side_by_side(_PairScore, info, in_dims, (row, column, weight), negative_slope)


class _PairScoreInChunks(torch.autograd.Function):
    """The same for some rows of some blocks at a time. What it returns second is empty."""

    @staticmethod
    def forward(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> tuple[Tensor, Tensor]:
        scores = row.new_empty(*row.shape[:2], column.size(1))
        for number, blocks, rows in _chunks(row, weight.size(0)):
            part = _PairScore.forward(row[blocks, rows], column[blocks], weight[number : number + 1], negative_slope)[0]
            scores[blocks, rows] = part
        return scores, row.new_empty(row.size(0), 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.negative_slope = inputs[3]
        ctx.save_for_backward(*inputs[:3], output[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        if grad is None:
            return None, None, None, None
        row, column, weight, scores = ctx.saved_tensors
        grad_row, grad_column, grad_weight = torch.empty_like(row), torch.zeros_like(column), torch.zeros_like(weight)
        for number, blocks, rows in _chunks(row, weight.size(0)):
            own = weight[number : number + 1]
            pair = _pairs(row[blocks, rows], column[blocks], ctx.negative_slope)
            part = _grad(grad[blocks, rows], scores[blocks, rows], pair, own, ctx.negative_slope)
            grad_row[blocks, rows] = part[0]
            grad_column[blocks] += part[1]
            grad_weight[number : number + 1] += part[2]
        return grad_row, grad_column, grad_weight, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], row: Tensor, column: Tensor, weight: Tensor, negative_slope: float
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return _side_by_side(_PairScoreInChunks, info, in_dims, (row, column, weight), negative_slope)


def _chunks(row: Tensor, groups: int) -> Iterator[tuple[int, slice, slice]]:
    """Walks over all rows of all blocks: the number of a weight, some of its blocks, and some of their rows."""
    num_blocks, degree, width = row.shape
    blocks = max(CHUNK // (degree * degree * width), 1)
    rows = min(max(CHUNK // (degree * width), 1), degree)
    per_group = num_blocks // groups
    for number in range(groups):
        for block in range(0, per_group, blocks):
            first = number * per_group
            these = slice(first + block, first + min(block + blocks, per_group))
            for start in range(0, degree, rows):
                yield number, these, slice(start, start + rows)


def _pairs(row: Tensor, column: Tensor, negative_slope: float) -> Tensor:
    return leaky_relu(row.unsqueeze(2) + column.unsqueeze(1), negative_slope, inplace=True)  # [n, d, d, F]


def _grad(grad: Tensor, scores: Tensor, pair: Tensor, weight: Tensor, negative_slope: float) -> tuple[Tensor, Tensor, Tensor]:
    """Pulls a gradient back to rows, columns and weights."""
    groups = weight.size(0)
    grad = torch.ops.aten.tanh_backward(grad, scores).reshape(groups, -1, 1)
    outer = (grad * weight.unsqueeze(1)).view(pair.shape)
    grad_pair = torch.ops.aten.leaky_relu_backward(outer, pair, negative_slope, True)  # the sign of pair is all it needs
    grad_weight = torch.bmm(grad.mT, pair.reshape(groups, -1, pair.size(-1))).squeeze(1)
    return grad_pair.sum(2), grad_pair.sum(1), grad_weight


def _side_by_side(
    function: type[torch.autograd.Function], info: Any, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...], slope: float
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    """Stacks the blocks of all replicas, each with its weights."""
    row, column, weight = (replicas_first(info, dim, x) for dim, x in zip(in_dims, tensors, strict=False))
    scores, pair = function.apply(row.flatten(0, 1), column.flatten(0, 1), weight.flatten(0, 1), slope)
    size = (info.batch_size, row.size(1))
    return (scores.unflatten(0, size), pair.unflatten(0, size)), (0, 0)
