"""Attention scores of all pairs without ever writing down the pairs: what the backward needs of them is computed again."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED
from gump.kernels.once_differentiable import once_differentiable
from gump.kernels.stacking import one_replica, stack_replicas
from gump.kernels.tiling import Sizes, find_entries, find_tile, tilings, unflatten

PAIRS = 128
"""A program holds so many features of every one of its rows' pairs at a time, over the side of its tile."""


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


@triton.jit(do_not_specialize=["num_arcs", "num_entries"])
def _forward(
    row, column, weight, scores, table, slope, num_arcs, num_entries, SIDE: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    first, entry, degree, num_rows = find_tile(table, tl.program_id(0), SIDE)
    place, known = find_entries(degree, num_rows, SIDE)
    arc = (replica * num_arcs + first + tl.arange(0, SIDE))[:, None] * WIDTH
    exists = (tl.arange(0, SIDE) < num_rows)[:, None]
    total = tl.zeros([SIDE, SIDE], dtype=tl.float32)
    for start in range(0, WIDTH, CHUNK):
        feature = start + tl.arange(0, CHUNK)
        inside = exists & (feature < WIDTH)[None, :]
        w = tl.load(weight + replica * WIDTH + feature, mask=feature < WIDTH, other=0.0)
        p = tl.load(row + arc + feature[None, :], mask=inside, other=0.0)
        q = tl.load(column + arc + feature[None, :], mask=inside, other=0.0)
        pair = p[:, None, :] + q[None, :, :]
        total += tl.sum(w[None, None, :] * tl.where(pair > 0, pair, slope * pair), axis=2)
    tl.store(scores + replica * num_entries + entry + place, _tanh(total), mask=known)


@triton.jit(do_not_specialize=["num_arcs", "num_entries", "first_program", "num_programs"])
def _backward(
    row, column, weight, scores, grad, grad_row, grad_column, grad_weight, table, slope, num_arcs, num_entries, first_program, num_programs,
    SIDE: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    first, entry, degree, num_rows = find_tile(table, tl.program_id(0), SIDE)
    place, known = find_entries(degree, num_rows, SIDE)
    at = replica * num_entries + entry + place
    score = tl.load(scores + at, mask=known, other=0.0)
    pulled = tl.load(grad + at, mask=known, other=0.0) * (1.0 - score * score)
    arc = (replica * num_arcs + first + tl.arange(0, SIDE))[:, None] * WIDTH
    exists = (tl.arange(0, SIDE) < num_rows)[:, None]
    share = (replica * num_programs + first_program + tl.program_id(0)) * WIDTH
    for start in range(0, WIDTH, CHUNK):
        feature = start + tl.arange(0, CHUNK)
        inside = exists & (feature < WIDTH)[None, :]
        w = tl.load(weight + replica * WIDTH + feature, mask=feature < WIDTH, other=0.0)
        p = tl.load(row + arc + feature[None, :], mask=inside, other=0.0)
        q = tl.load(column + arc + feature[None, :], mask=inside, other=0.0)
        pair = p[:, None, :] + q[None, :, :]
        slopes = tl.where(pair > 0, 1.0, slope) * pulled[:, :, None]
        tl.store(grad_row + arc + feature[None, :], w[None, :] * tl.sum(slopes, axis=1), mask=inside)
        tl.store(grad_column + arc + feature[None, :], w[None, :] * tl.sum(slopes, axis=0), mask=inside)
        tl.store(grad_weight + share + feature, tl.sum(tl.sum(slopes * pair, axis=1), axis=0), mask=feature < WIDTH)


class PairScore(torch.autograd.Function):
    """Scores all pairs of rows and columns of every block, for stacked replicas: rows and columns :math:`(R, A, F)`, weights :math:`(R, F)`."""

    @staticmethod
    def forward(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float, sizes: Sizes) -> Tensor:
        """Computes the scores."""
        (num_replicas, num_arcs, width), num_entries = row.shape, sum(n * d * d for d, n in sizes)
        scores = row.new_empty(num_replicas, num_entries)
        with torch.cuda.device_of(row):
            for side, num_tiles, table in tilings(sizes, row.device):
                pointers = (row, column, weight, scores, table)
                _forward[num_tiles, num_replicas](*pointers, negative_slope, num_arcs, num_entries, **_settings(side, width))
        return scores

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the inputs, which are smaller than the pairs."""
        *tensors, ctx.negative_slope, ctx.sizes = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Pulls a gradient back to rows, columns and weights."""
        return *_Pulled.apply(*ctx.saved_tensors, grad, ctx.negative_slope, ctx.sizes), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return PairScore.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


class _Pulled(torch.autograd.Function):
    """The gradients of the inputs from that of the scores; a function of its own, so that ``torch.func`` can run over the backward too.

    What each program adds to the weights is summed in a fixed order.
    """

    @staticmethod
    def forward(
        row: Tensor, column: Tensor, weight: Tensor, scores: Tensor, grad: Tensor, negative_slope: float, sizes: Sizes
    ) -> tuple[Tensor, Tensor, Tensor]:
        (num_replicas, num_arcs, width), num_entries = row.shape, scores.size(1)
        grad_row, grad_column, tiled = torch.empty_like(row), torch.empty_like(column), tilings(sizes, row.device)
        num_programs, first_program = sum(tiling.num_tiles for tiling in tiled), 0
        shares = weight.new_empty(num_replicas, num_programs, width)
        with torch.cuda.device_of(row):
            for side, num_tiles, table in tiled:
                _backward[num_tiles, num_replicas](
                    *(row, column, weight, scores, grad.contiguous(), grad_row, grad_column, shares),
                    *(table, negative_slope, num_arcs, num_entries, first_program, num_programs),
                    **_settings(side, width),
                )
                first_program += num_tiles
        return grad_row, grad_column, shares.sum(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, int, int]]:
        grads = _Pulled.apply(*stack_replicas(info, in_dims, inputs))
        return tuple(grad.unflatten(0, (info.batch_size, -1)) for grad in grads), (0, 0, 0)


def _settings(side: int, width: int) -> dict[str, int]:
    chunk = min(max(PAIRS // side, 1), triton.next_power_of_2(width))
    return {"SIDE": side, "WIDTH": width, "CHUNK": chunk, "num_warps": side // 8}


def pair_score(row: Tensor, column: Tensor, weight: Tensor, negative_slope: float, sizes: Sizes) -> list[Tensor]:
    r"""Scores every row against every column of its block, for the blocks of all degrees in one launch.

    What :func:`gump.nn.pair_score.pair_score` computes, in one pass over float32 rows and columns on a GPU. A row that is not finite may spoil
    the gradients of those beside it.

    Args:
        row: The vectors :math:`\mathbf{p}_i`, those of a block one after the other.
        column: The vectors :math:`\mathbf{q}_j`.
        weight: The vector :math:`\mathbf{w}`.
        negative_slope: Of the LeakyReLU.
        sizes: Degrees and how many blocks have each, in the order of the rows.

    Shapes:
        - **row, column:** :math:`(A, F)`
        - **weight:** :math:`(F)`
        - **output:** :math:`(n, d, d)` for every degree
    """
    LAUNCHED.add("pair_score")
    scores: Tensor = PairScore.apply(*one_replica(row, column, weight), negative_slope, sizes).squeeze(0)
    return unflatten(scores, sizes)
