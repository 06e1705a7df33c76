"""Attention scores of all pairs without ever writing down the pairs: what the backward needs of them is computed again."""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED

TILE = 1024
"""How many entries of rows a program holds at a time."""

MAX_DEGREE = 32
"""The largest block that is worth a compilation: there is one for each degree."""


@triton.jit
def _tanh(x):
    """The hyperbolic tangent, near zero by the polynomial of the Cephes library, since the quotient would lose the digits of small values."""
    square = x * x
    near = -5.70498872745e-3
    near = near * square + 2.06390887954e-2
    near = near * square - 5.37397155531e-2
    near = near * square + 1.33314422036e-1
    near = near * square - 3.33332819422e-1
    near = near * square * x + x
    size = tl.abs(x)
    far = 1.0 - 2.0 / (tl.exp(2.0 * size) + 1.0)
    return tl.where(size < 0.625, near, tl.where(x < 0, -far, far))


@triton.jit(do_not_specialize=["num_rows"])
def _forward(
    row, column, weight, scores, slope, num_rows, DEGREE: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr, PADDED: tl.constexpr
):  # fmt: skip
    group = tl.program_id(1).to(tl.int64)
    local = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    feature = tl.arange(0, PADDED)
    there = local < num_rows
    mask = there[:, None] & (feature < WIDTH)[None, :]
    mine = group * num_rows + local
    first = mine - local % DEGREE  # of the same block
    w = tl.load(weight + group * WIDTH + feature, mask=feature < WIDTH, other=0.0)[None, :]
    p = tl.load(row + mine[:, None] * WIDTH + feature[None, :], mask=mask, other=0.0)
    for j in range(DEGREE):
        pair = p + tl.load(column + (first + j)[:, None] * WIDTH + feature[None, :], mask=mask, other=0.0)
        score = tl.sum(w * tl.where(pair > 0, pair, slope * pair), axis=1)
        tl.store(scores + mine * DEGREE + j, _tanh(score), mask=there)


@triton.jit(do_not_specialize=["num_rows"])
def _backward(
    row, column, weight, scores, grad, grad_row, grad_column, grad_weight, slope, num_rows, DEGREE: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr,
    PADDED: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1).to(tl.int64)
    local = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    feature = tl.arange(0, PADDED)
    there = local < num_rows
    mask = there[:, None] & (feature < WIDTH)[None, :]
    mine = group * num_rows + local
    place = local % DEGREE
    first = mine - place  # of the same block
    w = tl.load(weight + group * WIDTH + feature, mask=feature < WIDTH, other=0.0)[None, :]
    entry = mine[:, None] * WIDTH + feature[None, :]
    p = tl.load(row + entry, mask=mask, other=0.0)
    q = tl.load(column + entry, mask=mask, other=0.0)
    to_row = tl.zeros([SIZE, PADDED], dtype=tl.float32)
    to_column = tl.zeros([SIZE, PADDED], dtype=tl.float32)
    to_weight = tl.zeros([SIZE, PADDED], dtype=tl.float32)
    for k in range(DEGREE):
        other = (first + k)[:, None] * WIDTH + feature[None, :]
        score = tl.load(scores + mine * DEGREE + k, mask=there, other=0.0)
        pulled = (tl.load(grad + mine * DEGREE + k, mask=there, other=0.0) * (1.0 - score * score))[:, None]
        pair = p + tl.load(column + other, mask=mask, other=0.0)
        to_row += tl.where(pair > 0, pulled, slope * pulled)
        to_weight += pulled * tl.where(pair > 0, pair, slope * pair)
        score = tl.load(scores + (first + k) * DEGREE + place, mask=there, other=0.0)
        pulled = (tl.load(grad + (first + k) * DEGREE + place, mask=there, other=0.0) * (1.0 - score * score))[:, None]
        pair = q + tl.load(row + other, mask=mask, other=0.0)
        to_column += tl.where(pair > 0, pulled, slope * pulled)
    tl.store(grad_row + entry, w * to_row, mask=mask)
    tl.store(grad_column + entry, w * to_column, mask=mask)
    share = group * tl.num_programs(0) + tl.program_id(0)
    tl.store(grad_weight + share * WIDTH + feature, tl.sum(to_weight, axis=0), mask=feature < WIDTH)


class PairScore(torch.autograd.Function):
    """Scores all pairs of rows and columns of a block; consecutive equal shares of the blocks have weights of their own."""

    @staticmethod
    def forward(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> Tensor:
        """Computes the scores."""
        scores = row.new_empty(*row.shape[:2], row.size(1))
        _launch(_forward, [row, column, weight, scores], negative_slope)
        return scores

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: Tensor) -> None:
        """Keeps the inputs, which are smaller than the pairs."""
        *tensors, ctx.negative_slope = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Pulls a gradient back to rows, columns and weights."""
        return *_Pulled.apply(*ctx.saved_tensors, grad, ctx.negative_slope), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], row: Tensor, column: Tensor, weight: Tensor, negative_slope: float
    ) -> tuple[Tensor, int]:
        """Puts the blocks of all replicas one after the other."""
        flat = _side_by_side(info, in_dims, row, column, weight)
        return PairScore.apply(*flat, negative_slope).unflatten(0, (info.batch_size, -1)), 0


class _Pulled(torch.autograd.Function):
    """The gradients of the inputs from that of the scores; a function of its own, so that ``torch.func`` can run over the backward too.

    What each program adds to the weights is summed in a fixed order.
    """

    @staticmethod
    def forward(
        row: Tensor, column: Tensor, weight: Tensor, scores: Tensor, grad: Tensor, negative_slope: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        grad_row, grad_column = torch.empty_like(row), torch.empty_like(column)
        shares = weight.new_zeros(weight.size(0), _num_programs(row, weight), weight.size(1))
        _launch(_backward, [row, column, weight, scores, grad.contiguous(), grad_row, grad_column, shares], negative_slope)
        return grad_row, grad_column, shares.sum(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, int, int]]:
        *tensors, negative_slope = inputs
        grads = _Pulled.apply(*_side_by_side(info, in_dims, *tensors), negative_slope)
        return tuple(grad.unflatten(0, (info.batch_size, -1)) for grad in grads), (0, 0, 0)


def _side_by_side(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> list[Tensor]:
    """Stacks what ``vmap`` runs over along the first dimension, also where all share it."""
    stacked = (
        x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0) for x, dim in zip(tensors, in_dims, strict=False)
    )
    return [x.flatten(0, 1).contiguous() for x in stacked]


def pair_score(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float) -> Tensor:
    r"""Scores every row against every column of its block in one launch.

    What :func:`gump.nn.pair_score.pair_score` computes, in one pass over float32 rows and columns on a GPU.

    Args:
        row: The vectors :math:`\mathbf{p}_i`.
        column: The vectors :math:`\mathbf{q}_j`.
        weight: The vector :math:`\mathbf{w}` of each of :math:`G` consecutive equal shares of the blocks.
        negative_slope: Of the LeakyReLU.

    Shapes:
        - **row, column:** :math:`(n, d, F)`
        - **weight:** :math:`(G, F)`
        - **output:** :math:`(n, d, d)`
    """
    LAUNCHED.add("pair_score")
    if row.size(1) > MAX_DEGREE:
        raise ValueError(f"'row' must have at most {MAX_DEGREE} vectors in a block (got {row.size(1)})")
    if row.size(0) % weight.size(0):
        raise ValueError(f"'row' must have as many blocks for each of the {weight.size(0)} weights (got {row.size(0)} in all)")
    scores: Tensor = PairScore.apply(row.contiguous(), column.contiguous(), weight.contiguous(), negative_slope)
    return scores


def _rows_per_program(width: int) -> int:
    return max(TILE // triton.next_power_of_2(width), 1)


def _num_programs(row: Tensor, weight: Tensor) -> int:
    """How many programs share the rows that have one weight."""
    return triton.cdiv(row.size(0) // weight.size(0) * row.size(1), _rows_per_program(row.size(2)))


def _launch(kernel: Any, tensors: list[Tensor], negative_slope: float) -> None:
    """Runs a kernel over the rows of all weights."""
    row, _, weight = tensors[:3]
    num_blocks, degree, width = row.shape
    if row.numel() == 0:
        return
    num_rows = num_blocks // weight.size(0) * degree
    grid, size = (_num_programs(row, weight), weight.size(0)), _rows_per_program(width)
    settings = {"DEGREE": degree, "WIDTH": width, "SIZE": size, "PADDED": triton.next_power_of_2(width), "num_warps": 4}
    with torch.cuda.device_of(row):
        kernel[grid](*tensors, negative_slope, num_rows, **settings)
