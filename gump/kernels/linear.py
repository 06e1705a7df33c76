"""A linear layer with its bias and the ReLU after it in one pass, for many replicas at once, skipping padding."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import functools
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED
from gump.kernels.once_differentiable import once_differentiable
from gump.kernels.stacking import one_replica, pointer_to, stack_replicas

MAX_WIDTH = 256
"""How wide the input and the output may be."""
SHARED_MEMORY = 232_448
"""Bytes that a program may share on an H100 or H200; what Triton's interpreter is taken to have."""
PROGRAMS = 256
"""How many programs keep a GPU busy; where there would be fewer, each takes fewer rows."""
ONE_PASS = 64 * 64
"""Up to how many weights one pass for the gradients of rows and of weights is faster, for many replicas, than one for each: a program holds both
(measured on squares of 64 and 128, benchmarks/results/replicas.txt)."""


@triton.jit(do_not_specialize=["num_rows"])
def _linear_forward(
    x, weight, bias, mask, y,
    num_rows, num_in, num_out,
    BIAS: tl.constexpr, MASKED: tl.constexpr, RELU: tl.constexpr,
    ROWS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    replica, first = tl.program_id(1).to(tl.int64), tl.program_id(0) * CHUNK
    column_in, column_out = tl.arange(0, IN), tl.arange(0, OUT)
    inside, outside = column_in < num_in, column_out < num_out
    entry = column_out[None, :] * num_in + column_in[:, None]
    matrix = tl.load(weight + replica * num_out * num_in + entry, mask=inside[:, None] & outside[None, :], other=0.0)
    if BIAS:
        summand = tl.load(bias + replica * num_out + column_out, mask=outside, other=0.0)
    for step in range(0, CHUNK, ROWS):
        row = first + step + tl.arange(0, ROWS)
        exists = row < num_rows
        place = replica * num_rows + row
        there = exists
        if MASKED:
            there = exists & (tl.load(mask + place, mask=exists, other=0) != 0)
        total = tl.zeros([ROWS, OUT], tl.float32)
        if tl.max(there.to(tl.int32), 0) > 0:
            rows = tl.load(x + place[:, None] * num_in + column_in[None, :], mask=there[:, None] & inside[None, :], other=0.0)
            total = tl.dot(rows, matrix, total, input_precision="tf32x3")
            if BIAS:
                total += summand[None, :]
            if RELU:
                total = tl.where(total < 0.0, 0.0, total)  # what is not a number stays so
            total = tl.where(there[:, None], total, 0.0)
        tl.store(y + place[:, None] * num_out + column_out[None, :], total, mask=exists[:, None] & outside[None, :])


@triton.jit(do_not_specialize=["num_rows"])
def _linear_backward(
    grad, x, y, weight, mask, grad_x, shares,
    num_rows, num_in, num_out,
    MASKED: tl.constexpr, RELU: tl.constexpr, PRECISION: tl.constexpr, TO_ROWS: tl.constexpr, TO_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Pulls the gradients of a chunk of rows back to them, and sums what they give to the weights and to the bias; or one of the two."""
    replica, first = tl.program_id(1).to(tl.int64), tl.program_id(0) * CHUNK
    column_in, column_out = tl.arange(0, IN), tl.arange(0, OUT)
    inside, outside = column_in < num_in, column_out < num_out
    entry = column_out[:, None] * num_in + column_in[None, :]
    known = outside[:, None] & inside[None, :]
    if TO_ROWS:
        matrix = tl.load(weight + replica * num_out * num_in + entry, mask=known, other=0.0)
    weights = tl.zeros([OUT, IN], tl.float32)
    summands = tl.zeros([OUT], tl.float32)
    for step in range(0, CHUNK, ROWS):
        row = first + step + tl.arange(0, ROWS)
        exists = row < num_rows
        place = replica * num_rows + row
        there = exists
        if MASKED:
            there = exists & (tl.load(mask + place, mask=exists, other=0) != 0)
        total = tl.zeros([ROWS, IN], tl.float32)
        if tl.max(there.to(tl.int32), 0) > 0:
            place_out = place[:, None] * num_out + column_out[None, :]
            pulled = tl.load(grad + place_out, mask=there[:, None] & outside[None, :], other=0.0)
            if RELU:
                pulled = tl.where(tl.load(y + place_out, mask=there[:, None] & outside[None, :], other=0.0) == 0.0, 0.0, pulled)
            if TO_ROWS:
                total = tl.dot(pulled, matrix, total, input_precision=PRECISION)
            if TO_WEIGHTS:
                rows = tl.load(x + place[:, None] * num_in + column_in[None, :], mask=there[:, None] & inside[None, :], other=0.0)
                weights = tl.dot(tl.trans(pulled), rows, weights, input_precision=PRECISION)
                summands += tl.sum(pulled, 0)
        if TO_ROWS:
            tl.store(grad_x + place[:, None] * num_in + column_in[None, :], total, mask=exists[:, None] & inside[None, :])
    if TO_WEIGHTS:
        slot = replica * tl.num_programs(0) + tl.program_id(0)
        shares += slot * num_out * (num_in + 1)
        tl.store(shares + entry, weights, mask=known)
        tl.store(shares + num_out * num_in + column_out, summands, mask=outside)


def _launches(x: Tensor, weight: Tensor, rows: int, tiles: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """The programs of a pass over the rows of all replicas, and the sizes that they have in common.

    Args:
        x: The rows.
        weight: The weights.
        rows: How many rows a program multiplies at a time, less where they are wider than 64.
        tiles: How many times it does, where there are enough programs for that.
    """
    num_replicas, num_rows, num_in = x.shape
    num_out = weight.size(-2)
    widths = [_padded(num_in), _padded(num_out)]
    rows = max(rows * 64 // max(*widths, 64), 16)
    enough = num_replicas * num_rows // (PROGRAMS * rows)
    tiles = next(fewer for fewer in (tiles, tiles // 2, 1) if fewer <= max(enough, 1))  # few sizes: a kernel is compiled for each
    sizes = {"num_rows": num_rows, "num_in": num_in, "num_out": num_out}
    shape = {"ROWS": rows, "IN": widths[0], "OUT": widths[1], "CHUNK": rows * tiles, "num_warps": 4 if max(widths) <= 64 else 8}
    return (max(triton.cdiv(num_rows, rows * tiles), 1), num_replicas), sizes | shape


class Linear(torch.autograd.Function):
    """What :func:`linear` computes, for stacked replicas."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, relu: bool) -> Tensor:
        """Multiplies."""
        y = x.new_empty(*x.shape[:-1], weight.size(-2))
        grid, sizes = _launches(x, weight, rows=128, tiles=1)
        with torch.cuda.device_of(x):
            _linear_forward[grid](
                *(x, weight, x if bias is None else bias, pointer_to(mask, x), y),  # what is not there is not read
                **sizes,
                BIAS=bias is not None,
                MASKED=mask is not None,
                RELU=relu,
            )
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the input, and the output where its zeros tell what the ReLU stopped."""
        x, weight, bias, mask, ctx.relu = inputs
        ctx.has_bias = bias is not None
        ctx.save_for_backward(x, weight, mask, output if ctx.relu else None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Pulls a gradient back to the rows, the weights and the bias, in one pass, or where there are many weights in two."""
        x, weight, mask, y = ctx.saved_tensors
        grad, asks_rows = grad.contiguous(), ctx.needs_input_grad[0]
        num_out, num_in = weight.shape[-2:]
        if num_out * num_in <= ONE_PASS:
            passes = [(*_launches(x, weight, rows=64, tiles=4), asks_rows, True)]
        else:
            passes = [(*_launches(x, weight, rows=128, tiles=1), True, False)] if asks_rows else []
            passes += [(*_launches(x, weight, rows=128, tiles=8), False, True)]
        grad_x = torch.empty_like(x) if asks_rows else None
        shares = x.new_empty(x.size(0), passes[-1][0][0], num_out * (num_in + 1))
        for grid, sizes, to_rows, to_weights in passes:
            with torch.cuda.device_of(x):
                _linear_backward[grid](
                    *(grad, x, x if y is None else y, weight, pointer_to(mask, x), x if grad_x is None else grad_x, shares),
                    **sizes,
                    MASKED=mask is not None,
                    RELU=ctx.relu,
                    PRECISION="ieee" if triton.knobs.runtime.interpret else "bf16x6",  # the interpreter knows fewer
                    TO_ROWS=to_rows,
                    TO_WEIGHTS=to_weights,
                )
        to_weight, to_bias = shares.split([num_out * num_in, num_out], dim=2)
        return grad_x, to_weight.sum(1).view(-1, num_out, num_in), to_bias.sum(1) if ctx.has_bias else None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return Linear.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


def _padded(width: int) -> int:
    """How wide a program takes a row: a power of two."""
    return max(triton.next_power_of_2(width), 16)


@functools.cache
def _shared_memory(device: torch.device) -> int:
    """Bytes that the programs of a device may share."""
    if device.type != "cuda":
        return SHARED_MEMORY
    found: int = triton.runtime.driver.active.utils.get_device_properties(device.index)["max_shared_mem"]
    return found


def holds(num_in: int, num_out: int, device: torch.device) -> bool:
    """Whether :func:`linear` takes layers of these widths: whether the weights of one replica, padded, fill at most half of what is shared."""
    return max(num_in, num_out) <= MAX_WIDTH and 2 * 4 * _padded(num_in) * _padded(num_out) <= _shared_memory(device)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, relu: bool = False) -> Tensor:
    r"""Applies a linear layer, and a ReLU if told so, to the rows that count.

    .. math::
        \mathbf{y}_i = \sigma(\mathbf{W} \mathbf{x}_i + \mathbf{b})

    In single precision on a GPU, in one pass over the rows, and one or two for the gradients. Products are taken on tensor cores from the
    parts of split numbers (`Markidis et al. <https://arxiv.org/abs/1803.04014>`_), which keeps the accuracy of single precision. Rows that do not
    count come out as zero, give no gradient and, where many follow each other, take no time. Can be differentiated once.

    Args:
        x: The rows.
        weight: The weights.
        bias: The summands; by default there are none.
        mask: Which rows count: booleans, or bytes that are not zero; by default all.
        relu: Whether to set what comes out negative to zero.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **weight:** :math:`(F_{out}, F_{in})`
        - **bias:** :math:`(F_{out})`
        - **mask:** :math:`(N)`
        - **output:** :math:`(N, F_{out})`
    """
    LAUNCHED.add("linear")
    out: Tensor = Linear.apply(*one_replica(x, weight, bias, mask), relu).squeeze(0)
    return out
