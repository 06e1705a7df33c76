"""Attention scores of all pairs of arcs that meet at a vertex."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from gump.kernels import runs_kernels
from gump.kernels.once_differentiable import once_differentiable
from gump.linalg.tiles import below_each_other
from gump.nn.rows import replicas_first

CHUNK = 2**20
"""How many numbers are held for pairs at a time, where not all are kept."""

Sizes = Sequence[tuple[int, int]]
"""Degrees, from the smallest, and how many blocks have each, in the order of the rows."""


def pair_scores(
    row: Tensor, column: Tensor, weight: Tensor, negative_slope: float, sizes: Sizes, keep: bool = True
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
            row, column, sizes = row[num_rows:], column[num_rows:], sizes[len(small) :]
    if keep and sizes and not torch.compiler.is_compiling():
        scores = _PairScores.apply(row, column, weight, negative_slope, tuple(sizes))[0]
        parts = scores.split([num_blocks * degree**2 for degree, num_blocks in sizes])
        return blocks + [part.view(num_blocks, degree, degree) for part, (degree, num_blocks) in zip(parts, sizes, strict=True)]
    parts = [num_blocks * degree for degree, num_blocks in sizes]
    for (degree, num_blocks), p, q in zip(sizes, row.split(parts), column.split(parts), strict=True):
        p, q = (x.view(num_blocks, degree, -1) for x in (p, q))
        if torch.compiler.is_compiling():  # what to keep is then for the compiler to say
            blocks.append(_scores(_pairs(p, q, negative_slope), weight))
        else:
            blocks.append(pair_score(p, q, weight, negative_slope, keep=False))
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
    num_blocks, degree, _ = row.shape
    if keep:
        sizes = ((degree, num_blocks),)
        scores: Tensor = _PairScores.apply(row.flatten(0, 1), column.flatten(0, 1), weight, negative_slope, sizes)[0]
        return scores.view(num_blocks, degree, degree)
    scores = _PairScoreInChunks.apply(row, column, weight.unsqueeze(0), negative_slope)[0]
    return scores


class _PairScores(torch.autograd.Function):
    """Keeps one tensor of the size of all pairs, where composing the operations would keep three.

    All degrees are computed together, but for sums and their gradients. Tensors may have a dimension in front, for replicas with weights of
    their own.
    """

    @staticmethod
    def forward(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float, sizes: Sizes) -> tuple[Tensor, Tensor]:
        pair = row.new_empty(*row.shape[:-2], sum(n * d**2 for d, n in sizes), row.size(-1))
        for both, p, q in zip(_pairs_of(pair, sizes), _rows_of(row, sizes), _rows_of(column, sizes), strict=True):
            torch.add(p.unsqueeze(-2), q.unsqueeze(-3), out=both)
        leaky_relu(pair, negative_slope, inplace=True)
        return _scores(pair, weight), pair

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float, Sizes], output: tuple[Tensor, Tensor]) -> None:
        scores, pair = output
        ctx.mark_non_differentiable(pair)
        ctx.set_materialize_grads(False)
        ctx.negative_slope, ctx.sizes = inputs[3:]
        ctx.save_for_backward(pair, inputs[2], scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None, None, None
        pair, weight, scores = ctx.saved_tensors
        grad_pair, grad_weight = _grad(grad, scores, pair, weight, ctx.negative_slope)
        parts = _pairs_of(grad_pair, ctx.sizes)
        grad_row, grad_column = (torch.cat([below_each_other(part.sum(k)) for part in parts], dim=-2) for k in (-2, -3))
        return grad_row, grad_column, grad_weight, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], row: Tensor, column: Tensor, weight: Tensor, negative_slope: float, sizes: Sizes
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        stacked = (replicas_first(info, dim, x) for dim, x in zip(in_dims, (row, column, weight), strict=False))
        return _PairScores.apply(*stacked, negative_slope, sizes), (0, 0)


class _PairScoreInChunks(torch.autograd.Function):
    """The same for blocks of one degree, some of their rows at a time. What it returns second is empty.

    Consecutive blocks may have weights of their own, as many of them for each row of ``weight``: so replicas are computed side by side.
    """

    @staticmethod
    def forward(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> tuple[Tensor, Tensor]:
        scores = row.new_empty(*row.shape[:2], column.size(1))
        for number, blocks, rows in _chunks(row, weight.size(0)):
            pair = _pairs(row[blocks, rows], column[blocks], negative_slope)
            scores[blocks, rows] = _scores(pair, weight[number])
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
            pair = _pairs(row[blocks, rows], column[blocks], ctx.negative_slope)
            own = grad[blocks, rows].flatten(), scores[blocks, rows].flatten(), pair.flatten(0, 2), weight[number]
            grad_pair, grad_own = _grad(*own, ctx.negative_slope)
            grad_row[blocks, rows] = grad_pair.view_as(pair).sum(2)
            grad_column[blocks] += grad_pair.view_as(pair).sum(1)
            grad_weight[number] += grad_own
        return grad_row, grad_column, grad_weight, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], row: Tensor, column: Tensor, weight: Tensor, negative_slope: float
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        row, column, weight = (replicas_first(info, dim, x) for dim, x in zip(in_dims, (row, column, weight), strict=False))
        scores, empty = _PairScoreInChunks.apply(row.flatten(0, 1), column.flatten(0, 1), weight.flatten(0, 1), negative_slope)
        size = (info.batch_size, row.size(1))
        return (scores.unflatten(0, size), empty.unflatten(0, size)), (0, 0)


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


def _scores(pair: Tensor, weight: Tensor) -> Tensor:
    return torch.matmul(pair, weight.unsqueeze(-1)).squeeze(-1).tanh_()


def _rows_of(rows: Tensor, sizes: Sizes) -> list[Tensor]:
    """Rows as the blocks that they belong to, :math:`(*, n, d, F)` for every degree."""
    parts = rows.split([n * d for d, n in sizes], -2)
    return [part.unflatten(-2, (n, d)) for part, (d, n) in zip(parts, sizes, strict=True)]


def _pairs_of(pairs: Tensor, sizes: Sizes) -> list[Tensor]:
    """Pairs as the blocks that they belong to, :math:`(*, n, d, d, F)` for every degree."""
    parts = pairs.split([n * d**2 for d, n in sizes], -2)
    return [part.reshape(*part.shape[:-2], n, d, d, part.size(-1)) for part, (d, n) in zip(parts, sizes, strict=True)]


def _grad(grad: Tensor, scores: Tensor, pair: Tensor, weight: Tensor, negative_slope: float) -> tuple[Tensor, Tensor]:
    """Pulls a gradient back to pairs and weights."""
    grad = torch.ops.aten.tanh_backward(grad, scores).unsqueeze(-1)
    outer = grad * weight.unsqueeze(-2)
    grad_pair = torch.ops.aten.leaky_relu_backward(outer, pair, negative_slope, True)  # the sign of pair is all it needs
    return grad_pair, torch.matmul(grad.mT, pair).squeeze(-2)
