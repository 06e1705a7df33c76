"""Polar factors of the blocks of all degrees, exact within known bounds or by a number of the paper's steps, in one launch: every tile of blocks is
one block-diagonal matrix, whose polar factor is that of its blocks."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED
from gump.kernels.once_differentiable import once_differentiable
from gump.kernels.stacking import stack_replicas
from gump.kernels.tiling import Sizes, find_entries, find_tile, flatten, tilings, unflatten

Quintics = tuple[tuple[float, float, float], ...]

BLOCKS, COIN, UNIT = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""From what the iteration starts: the blocks; scores as bounded perturbations of the Grover coin; or blocks divided by their norms. The first two
are projected; of the last the iterate is taken as it is."""


@triton.jit
def _sum_over_blocks(x, known):
    """For every row the sum of what the rows of its block have."""
    return tl.sum(tl.where(known, tl.sum(x, axis=1)[None, :], 0.0), axis=1)


@triton.jit
def _load(values, at, known, degree, num_rows, START: tl.constexpr, BETA: tl.constexpr, SIDE: tl.constexpr):
    """The entries of a tile, a number for every row (by which scores are multiplied, or unit blocks were divided), and the matrix to be iterated on, with
    one where there is no block."""
    i = tl.arange(0, SIDE)[:, None]
    diagonal = (i == tl.arange(0, SIDE)[None, :]).to(tl.float32)
    entries = tl.load(values + at, mask=known, other=0.0)
    factor = tl.full([SIDE], 1.0, tl.float32)
    x = entries
    if START == COIN:
        factor = 1.0 / tl.sqrt(1.0 + _sum_over_blocks(entries * entries, known))
        x = tl.where(known, 2.0 / degree - diagonal + BETA * factor[:, None] * entries, 0.0)
    if START == UNIT:  # by the largest entry first, so that no square leaves the range of numbers
        largest = tl.max(tl.where(known, tl.max(tl.abs(entries), axis=1)[None, :], 0.0), axis=1)
        largest = tl.where(largest == 0.0, 1.0, largest)
        x = entries / largest[:, None]
        norm = tl.sqrt(_sum_over_blocks(x * x, known))
        x = x / tl.where(norm == 0.0, 1.0, norm)[:, None]
        factor = norm * largest
    return entries, factor, x + tl.where(i < num_rows, 0.0, diagonal), diagonal


@triton.jit(do_not_specialize=["num_entries"])
def _forward(
    values, out, quintics, table, num_entries, START: tl.constexpr, BETA: tl.constexpr, STEPS: tl.constexpr, SIDE: tl.constexpr
):  # fmt: skip
    _, first, degree, num_rows = find_tile(table, tl.program_id(0), SIDE)
    place, known = find_entries(degree, num_rows, SIDE)
    at = tl.program_id(1).to(tl.int64) * num_entries + first + place
    _, _, x, diagonal = _load(values, at, known, degree, num_rows, START, BETA, SIDE)
    for step in range(STEPS):
        a, b, c = tl.load(quintics + 3 * step), tl.load(quintics + 3 * step + 1), tl.load(quintics + 3 * step + 2)
        square = tl.dot(tl.trans(x), x, input_precision="ieee")
        x = tl.dot(x, a * diagonal + b * square + c * tl.dot(square, square, input_precision="ieee"), input_precision="ieee")
    if START != UNIT:
        x = tl.where(degree == 1, tl.where(x < 0.0, -diagonal, diagonal), x)  # of a number the sign, to the last digit
    tl.store(out + at, x, mask=known)


@triton.jit(do_not_specialize=["num_entries"])
def _backward(
    values, grad, out, quintics, table, num_entries, START: tl.constexpr, BETA: tl.constexpr, STEPS: tl.constexpr, SIDE: tl.constexpr
):  # fmt: skip
    _, first, degree, num_rows = find_tile(table, tl.program_id(0), SIDE)
    place, known = find_entries(degree, num_rows, SIDE)
    at = tl.program_id(1).to(tl.int64) * num_entries + first + place
    entries, factor, first_x, diagonal = _load(values, at, known, degree, num_rows, START, BETA, SIDE)
    x = first_x
    dx = tl.load(grad + at, mask=known, other=0.0)
    for step in range(STEPS):
        a, b, c = tl.load(quintics + 3 * step), tl.load(quintics + 3 * step + 1), tl.load(quintics + 3 * step + 2)
        square = tl.dot(tl.trans(x), x, input_precision="ieee")
        half = tl.dot(tl.trans(dx), x, input_precision="ieee")
        dsquare = half + tl.trans(half)
        half = tl.dot(square, dsquare, input_precision="ieee")
        inner = a * diagonal + b * square + c * tl.dot(square, square, input_precision="ieee")
        dinner = b * dsquare + c * (half + tl.trans(half))
        dx = tl.dot(dx, inner, input_precision="ieee") + tl.dot(x, dinner, input_precision="ieee")
        x = tl.dot(x, inner, input_precision="ieee")
    if START == UNIT:
        dx = dx - _sum_over_blocks(dx * first_x, known)[:, None] * first_x
        dx = tl.where(factor[:, None] == 0.0, 0.0, dx / tl.where(factor == 0.0, 1.0, factor)[:, None])
    else:
        turned = tl.dot(tl.trans(x), dx, input_precision="ieee")
        dx = tl.dot(x, 0.5 * (turned - tl.trans(turned)), input_precision="ieee")
    if START == COIN:
        along = _sum_over_blocks(dx * entries, known)
        dx = BETA * factor[:, None] * (dx - (factor * factor * along)[:, None] * entries)
    tl.store(out + at, dx, mask=known)


class Factor(torch.autograd.Function):
    r"""What quintics make of blocks, or of what is made of them first, for stacked replicas: entries :math:`(R, T)`.

    A polynomial of singular values is the gradient of a number, as the factor is that of the nuclear norm, so its derivative is symmetric: pulling a
    gradient back is the same as pushing it forward, along with the iteration. What the iteration towards a factor leaves of stretches, which
    turn no factor, is taken out at the end.
    """

    @staticmethod
    def forward(values: Tensor, sizes: Sizes, quintics: Quintics, start: int, beta: float) -> Tensor:
        """Runs all steps."""
        out = torch.empty_like(values)
        _launch(_forward, [values, out], sizes, quintics, start, beta)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the entries."""
        values, *ctx.settings = inputs
        ctx.save_for_backward(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Pulls a gradient back to the entries."""
        return _Pulled.apply(*ctx.saved_tensors, grad, *ctx.settings), None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return Factor.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


class _Pulled(torch.autograd.Function):
    """The gradient of entries from that of the factors; a function of its own, so that ``torch.func`` can run over the backward too."""

    @staticmethod
    def forward(values: Tensor, grad: Tensor, sizes: Sizes, quintics: Quintics, start: int, beta: float) -> Tensor:
        out = torch.empty_like(values)
        _launch(_backward, [values, grad.contiguous(), out], sizes, quintics, start, beta)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _Pulled.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


def bounded_factors(blocks: Sequence[Tensor], quintics: Quintics, beta: float | None = None) -> list[Tensor]:
    r"""Computes the polar factors of blocks of several degrees, or of bounded perturbations of the Grover coin, in one launch.

    What :func:`gump.linalg.polar_factor` computes with ``bounds``, in one pass over float32 blocks on a GPU. With ``beta`` the blocks are
    scores, and :math:`\mathbf{G} + \beta \mathbf{B} / \sqrt{1 + \lVert \mathbf{B} \rVert_F^2}` is built, projected and differentiated on the
    way, as :meth:`gump.nn.Coin.project` does it in steps.

    A block that is not finite spoils those beside it in its tile, which are of the same replica.

    Args:
        blocks: Square matrices of at most :data:`gump.kernels.tiling.MAX_DEGREE` rows, those of one degree together.
        quintics: Odd polynomials that bring the singular values of what is projected to one, see :func:`gump.linalg.minimax_quintics`.
        beta: How far scores may lead from the Grover coin; none where the blocks themselves are projected.

    Shapes:
        - **blocks:** :math:`(n, d, d)` each
        - **output:** the same
    """
    return _together(blocks, quintics, BLOCKS if beta is None else COIN, beta or 0.0)


def unit_iterates(blocks: Sequence[Tensor], quintics: Quintics) -> list[Tensor]:
    """Divides blocks of several degrees by their norms and applies quintics to their singular values, in one launch.

    With the paper's polynomial it is what :func:`gump.linalg.polar_factor` computes with ``num_steps``, in one pass over float32 blocks on a GPU.
    The gradient is that of the iterate as it is, however far from orthogonal.

    A block that is not finite spoils those beside it in its tile, which are of the same replica.

    Args:
        blocks: Square matrices of at most :data:`gump.kernels.tiling.MAX_DEGREE` rows, those of one degree together.
        quintics: Odd polynomials.

    Shapes:
        - **blocks:** :math:`(n, d, d)` each
        - **output:** the same
    """
    return _together(blocks, quintics, UNIT, 0.0)


def _together(blocks: Sequence[Tensor], quintics: Quintics, start: tl.constexpr, beta: float) -> list[Tensor]:
    LAUNCHED.add("polar")
    values, sizes = flatten(blocks)
    factors: Tensor = Factor.apply(values.unsqueeze(0), sizes, tuple(quintics), start.value, beta)
    return unflatten(factors.squeeze(0), sizes)


def _launch(kernel: Any, tensors: list[Tensor], sizes: Sizes, quintics: Quintics, start: int, beta: float) -> None:
    """Runs a kernel over all tiles."""
    num_replicas, num_entries = tensors[0].shape
    coefficients = _coefficients(quintics, tensors[0].device)
    with torch.cuda.device_of(tensors[0]):
        for side, num_tiles, table in tilings(sizes, tensors[0].device):
            kernel[num_tiles, num_replicas](
                *(*tensors, coefficients, table, num_entries),
                START=start,
                BETA=beta,
                STEPS=len(quintics),
                SIDE=side,
                num_warps=side * side // 256 if side < 64 else 8,
            )


@lru_cache(maxsize=256)
def _coefficients(quintics: Quintics, device: torch.device) -> Tensor:
    return torch.tensor(quintics, dtype=torch.float32, device=device)
