"""Batch norm in training, with the ReLU after it, for many replicas at once and with padding left out of the statistics."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED
from gump.kernels.once_differentiable import once_differentiable
from gump.kernels.stacking import pointer_to

TILE = 2048
"""How many entries a program holds at a time: at most 32 columns, which make whole cache lines, of as many rows as fit."""
PROGRAMS = 2048
"""How many programs a pass should have, which is what one GPU runs at the same time."""
MAX_CHUNKS = 128
"""In how many chunks at most the rows of one replica are reduced. Every program of the pass that follows reads the results of all."""


@triton.jit(do_not_specialize=["num_rows"])
def _moments(
    x, mask, counts, moments,
    num_rows, num_columns,
    MASKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """How many rows of a chunk count, their mean, and the sum of their squared distances from it, as Welford (1962) updates them."""
    chunk, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first = replica * num_rows + chunk * CHUNK
    x += first * num_columns
    mask += first
    count = tl.zeros([ROWS], tl.float32)
    mean = tl.zeros([ROWS, COLUMNS], tl.float32)
    square = tl.zeros([ROWS, COLUMNS], tl.float32)
    for step in range(0, CHUNK, ROWS):
        row = step + tl.arange(0, ROWS)
        there = chunk * CHUNK + row < num_rows
        if MASKED:
            there = there & (tl.load(mask + row, mask=there, other=0) != 0)
        entry = row[:, None] * num_columns + column[None, :]
        value = tl.load(x + entry, mask=there[:, None] & (column < num_columns)[None, :], other=0.0)
        count += there.to(tl.float32)
        share = there.to(tl.float32) / tl.maximum(count, 1.0)
        distance = value - mean
        mean += distance * share[:, None]
        square += tl.where(there[:, None], distance * (value - mean), 0.0)
    total = tl.sum(count, 0)
    center = tl.sum(mean * count[:, None], 0) / tl.maximum(total, 1.0)
    distance = mean - center[None, :]
    slot = replica * tl.num_programs(0) + chunk
    out = moments + 2 * slot * num_columns + column
    tl.store(out, center, mask=column < num_columns)
    tl.store(out + num_columns, tl.sum(square + distance * distance * count[:, None], 0), mask=column < num_columns)
    tl.store(counts + slot, total, mask=tl.program_id(1) == 0)


@triton.jit(do_not_specialize=["num_rows"])
def _normalize(
    x, mask, weight, bias, old_mean, old_var, counts, moments, y, mean_out, rstd_out, new_mean, new_var, share_out,
    eps, momentum, num_rows, num_columns,
    MASKED: tl.constexpr, RELU: tl.constexpr, CHUNKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Merges the moments of all chunks (Chan et al., 1983), then maps the rows of one. The first chunk's program keeps the moments."""
    chunk, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < num_columns
    part = tl.arange(0, CHUNKS)
    slot = replica * tl.num_programs(0) + part
    count = tl.load(counts + slot, mask=part < tl.num_programs(0), other=0.0)
    place = moments + 2 * slot[:, None] * num_columns + column[None, :]
    known = (part < tl.num_programs(0))[:, None] & inside[None, :]
    means = tl.load(place, mask=known, other=0.0)
    squares = tl.load(place + num_columns, mask=known, other=0.0)
    total = tl.sum(count, 0)
    mean = tl.sum(means * count[:, None], 0) / tl.maximum(total, 1.0)
    distance = means - mean[None, :]
    square = tl.sum(squares + distance * distance * count[:, None], 0)

    own = replica * num_columns + column
    several = total > 1.0
    center = tl.load(old_mean + own, mask=inside, other=0.0)
    spread = tl.load(old_var + own, mask=inside, other=0.0)
    mean = tl.where(several, mean, center)
    rstd = tl.rsqrt(tl.where(several, square / tl.maximum(total, 1.0), spread) + eps)
    unbiased = tl.where(several, square / tl.maximum(total - 1.0, 1.0), spread)
    keeps = inside & (chunk == 0)
    tl.store(mean_out + own, mean, mask=keeps)
    tl.store(rstd_out + own, rstd, mask=keeps)
    tl.store(new_mean + own, (1.0 - momentum) * center + momentum * mean, mask=keeps)
    tl.store(new_var + own, (1.0 - momentum) * spread + momentum * unbiased, mask=keeps)
    tl.store(share_out + replica, tl.where(several, 1.0 / tl.maximum(total, 1.0), 0.0), mask=(chunk == 0) & (tl.program_id(1) == 0))

    scale = tl.load(weight + own, mask=inside, other=0.0) * rstd
    shift = tl.load(bias + own, mask=inside, other=0.0)
    first = replica * num_rows + chunk * CHUNK
    x += first * num_columns
    y += first * num_columns
    mask += first
    for step in range(0, CHUNK, ROWS):
        row = step + tl.arange(0, ROWS)
        exists = chunk * CHUNK + row < num_rows
        there = exists
        if MASKED:
            there = exists & (tl.load(mask + row, mask=exists, other=0) != 0)
        entry = row[:, None] * num_columns + column[None, :]
        value = tl.load(x + entry, mask=there[:, None] & inside[None, :], other=0.0)
        value = (value - mean[None, :]) * scale[None, :] + shift[None, :]
        if RELU:
            value = tl.where(value < 0.0, 0.0, value)  # what is not a number stays so
        tl.store(y + entry, tl.where(there[:, None], value, 0.0), mask=exists[:, None] & inside[None, :])


@triton.jit(do_not_specialize=["num_rows"])
def _sums(
    grad, x, mask, weight, bias, mean_in, rstd_in, sums,
    num_rows, num_columns,
    MASKED: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Sums of a chunk: the gradients, and their products with the normalized rows."""
    chunk, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < num_columns
    own = replica * num_columns + column
    mean = tl.load(mean_in + own, mask=inside, other=0.0)
    rstd = tl.load(rstd_in + own, mask=inside, other=0.0)
    scale = tl.load(weight + own, mask=inside, other=0.0) * rstd
    shift = tl.load(bias + own, mask=inside, other=0.0)
    first = replica * num_rows + chunk * CHUNK
    grad += first * num_columns
    x += first * num_columns
    mask += first
    plain = tl.zeros([ROWS, COLUMNS], tl.float32)
    product = tl.zeros([ROWS, COLUMNS], tl.float32)
    for step in range(0, CHUNK, ROWS):
        row = step + tl.arange(0, ROWS)
        counts = chunk * CHUNK + row < num_rows
        if MASKED:
            counts = counts & (tl.load(mask + row, mask=counts, other=0) != 0)
        there = counts[:, None] & inside[None, :]
        entry = row[:, None] * num_columns + column[None, :]
        distance = tl.load(x + entry, mask=there, other=0.0) - mean[None, :]
        pulled = tl.load(grad + entry, mask=there, other=0.0)
        if RELU:
            pulled = tl.where(distance * scale[None, :] + shift[None, :] <= 0.0, 0.0, pulled)
        plain += pulled
        product += pulled * distance
    out = sums + 2 * (replica * tl.num_programs(0) + chunk) * num_columns + column
    tl.store(out, tl.sum(plain, 0), mask=inside)
    tl.store(out + num_columns, tl.sum(product, 0) * rstd, mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def _pull(
    grad, x, mask, weight, bias, mean_in, rstd_in, share_in, sums, grad_x, grad_weight, grad_bias,
    num_rows, num_columns,
    MASKED: tl.constexpr, RELU: tl.constexpr, CHUNKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Adds up the sums of all chunks, then pulls back the gradients of one. The first chunk's program keeps the sums."""
    chunk, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < num_columns
    part = tl.arange(0, CHUNKS)
    place = sums + 2 * (replica * tl.num_programs(0) + part)[:, None] * num_columns + column[None, :]
    known = (part < tl.num_programs(0))[:, None] & inside[None, :]
    plain = tl.sum(tl.load(place, mask=known, other=0.0), 0)
    product = tl.sum(tl.load(place + num_columns, mask=known, other=0.0), 0)
    own = replica * num_columns + column
    tl.store(grad_bias + own, plain, mask=inside & (chunk == 0))
    tl.store(grad_weight + own, product, mask=inside & (chunk == 0))

    mean = tl.load(mean_in + own, mask=inside, other=0.0)
    rstd = tl.load(rstd_in + own, mask=inside, other=0.0)
    scale = tl.load(weight + own, mask=inside, other=0.0) * rstd
    shift = tl.load(bias + own, mask=inside, other=0.0)
    share = tl.load(share_in + replica)
    plain, product = plain * share, product * share * rstd
    first = replica * num_rows + chunk * CHUNK
    grad += first * num_columns
    x += first * num_columns
    grad_x += first * num_columns
    mask += first
    for step in range(0, CHUNK, ROWS):
        row = step + tl.arange(0, ROWS)
        exists = chunk * CHUNK + row < num_rows
        counts = exists
        if MASKED:
            counts = exists & (tl.load(mask + row, mask=exists, other=0) != 0)
        there = counts[:, None] & inside[None, :]
        entry = row[:, None] * num_columns + column[None, :]
        distance = tl.load(x + entry, mask=there, other=0.0) - mean[None, :]
        pulled = tl.load(grad + entry, mask=there, other=0.0)
        if RELU:
            pulled = tl.where(distance * scale[None, :] + shift[None, :] <= 0.0, 0.0, pulled)
        pulled = scale[None, :] * (pulled - plain[None, :] - distance * product[None, :])
        tl.store(grad_x + entry, tl.where(counts[:, None], pulled, 0.0), mask=exists[:, None] & inside[None, :])


def _launches(x: Tensor) -> tuple[tuple[int, int, int], dict[str, int]]:
    """How the work is cut, which follows from the shape alone: the programs of a pass, and the sizes they are told.

    Tiles of columns and replicas are work for as many programs. Where they are too few, rows are split into chunks as well.
    """
    num_replicas, (num_rows, num_columns) = math.prod(x.shape[:-2]), x.shape[-2:]
    columns = min(triton.next_power_of_2(num_columns), 32)
    rows, tiles = TILE // columns, triton.cdiv(num_columns, columns)
    chunks = min(max(PROGRAMS // (num_replicas * tiles), 1), MAX_CHUNKS)
    chunk = max(triton.next_power_of_2(triton.cdiv(num_rows, chunks)), rows)  # one of few sizes, as kernels are compiled for each
    grid = max(triton.cdiv(num_rows, chunk), 1), tiles, num_replicas
    return grid, {"num_rows": num_rows, "num_columns": num_columns, "ROWS": rows, "COLUMNS": columns, "CHUNK": chunk}


class BatchNormalization(torch.autograd.Function):
    """What :func:`batch_norm` computes, and what its gradient needs: the reciprocals of the deviations and of the counts."""

    @staticmethod
    def forward(
        x: Tensor,
        mask: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        var: Tensor,
        eps: float,
        relu: bool,
        momentum: float,
    ) -> tuple[Tensor, ...]:
        """Normalizes."""
        x, weight, bias, mean, var = (tensor.contiguous() for tensor in (x, weight, bias, mean, var))
        rows = pointer_to(None if mask is None else mask.contiguous(), x)
        grid, sizes = _launches(x)
        replicas, num_columns = x.shape[:-2], x.size(-1)
        counts, moments = x.new_empty(grid[2], grid[0]), x.new_empty(grid[2], grid[0], 2, num_columns)
        y, share = torch.empty_like(x), x.new_empty(replicas)
        new = [x.new_empty(*replicas, num_columns) for _ in range(4)]
        with torch.cuda.device_of(x):
            _moments[grid](x, rows, counts, moments, **sizes, MASKED=mask is not None)
            _normalize[grid](
                *(x, rows, weight, bias, mean, var, counts, moments, y, *new, share, eps, momentum),
                **sizes,
                MASKED=mask is not None,
                RELU=relu,
                CHUNKS=triton.next_power_of_2(grid[0]),
            )
        return y, *new, share

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keeps the input, not the output: the ReLU is computed again where its gradient is."""
        x, mask, weight, bias, _, _, _, ctx.relu, _ = inputs
        _, mean, rstd, *new, share = output
        ctx.mark_non_differentiable(mean, rstd, *new, share)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, mask, weight, bias, mean, rstd, share)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        r"""Pulls a gradient back to the rows, the factors and the summands.

        With :math:`n` the number of rows that count, :math:`\sigma` the deviation and :math:`\hat{\mathbf{x}}` the normalized rows,

        .. math::
            \bar{\mathbf{x}}_i = \frac{\boldsymbol{\gamma}}{\sigma} \left( \bar{\mathbf{y}}_i - \frac{1}{n} \left( \sum_j \bar{\mathbf{y}}_j
                + \hat{\mathbf{x}}_i \sum_j \bar{\mathbf{y}}_j \hat{\mathbf{x}}_j \right) \right)

        for the rows that count, over which the sums run as well, and zero for the others.
        """
        if grad is None:
            return (None,) * 9
        x, mask, weight, bias, mean, rstd, share = ctx.saved_tensors
        grad, x, weight, bias = (tensor.contiguous() for tensor in (grad, x, weight, bias))
        rows = pointer_to(None if mask is None else mask.contiguous(), x)
        grid, sizes = _launches(x)
        sums = x.new_empty(grid[2], grid[0], 2, x.size(-1))
        grad_x, grad_weight, grad_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        with torch.cuda.device_of(x):
            _sums[grid](grad, x, rows, weight, bias, mean, rstd, sums, **sizes, MASKED=mask is not None, RELU=ctx.relu)
            _pull[grid](
                *(grad, x, rows, weight, bias, mean, rstd, share, sums, grad_x, grad_weight, grad_bias),
                **sizes,
                MASKED=mask is not None,
                RELU=ctx.relu,
                CHUNKS=triton.next_power_of_2(grid[0]),
            )
        return grad_x, None, grad_weight, grad_bias, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        stacked = [
            x if not isinstance(x, Tensor) else x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(inputs, in_dims, strict=True)
        ]
        return BatchNormalization.apply(*stacked), (0,) * 6


def batch_norm(
    x: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float = 1e-5,
    relu: bool = False,
    momentum: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Normalizes rows by the mean and the variance of those that count.

    .. math::
        \mathbf{y}_i = \frac{\mathbf{x}_i - \mathbb{E}[\mathbf{x}]}{\sqrt{\mathrm{Var}[\mathbf{x}] + \epsilon}} \odot \boldsymbol{\gamma}
            + \boldsymbol{\beta}

    What :class:`gump.nn.norm.BatchNorm` computes in training, in two passes over float32 states on a GPU and two for the gradient. Rows
    that do not count are not read; they come out as zero and give no gradient. Where fewer than two rows
    count, the running statistics take the place of theirs. Also returned are the new running statistics,
    which have moved from the old ones towards the mean and, with Bessel's correction, the variance. Can be differentiated once.

    Args:
        x: The rows.
        mask: Which of them count: booleans, or bytes that are not zero; by default all.
        weight: The factors :math:`\boldsymbol{\gamma}`.
        bias: The summands :math:`\boldsymbol{\beta}`.
        running_mean: Stands in for the mean.
        running_var: Stands in for the variance.
        eps: Added to the variance.
        relu: Whether to set what comes out negative to zero.
        momentum: How far running statistics move, as a share of the way; by default all of it.

    Shapes:
        - **x:** :math:`(*, N, F)`, with replicas before the rows
        - **mask:** :math:`(*, N)`
        - **weight, bias, running_mean, running_var:** :math:`(*, F)`
        - **output:** :math:`(*, N, F)`, and :math:`(*, F)` for the mean and the variance
    """
    LAUNCHED.add("batch_norm")
    y, _, _, mean, var, _ = BatchNormalization.apply(x, mask, weight, bias, running_mean, running_var, eps, relu, momentum)
    return y, mean, var
