"""Coin and shift of a layer in one pass: states are read once and written once, already in their new places."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED
from gump.kernels.stacking import one_replica, pointer_to, stack_replicas

TILE = 1024
"""How many entries of states a program holds at a time."""


@triton.jit(do_not_specialize=["first_arc", "num_blocks", "num_arcs"])
def _coin_shift_forward(
    h, coin, reverse, mask, scale, out,
    first_arc, num_blocks, num_arcs, width,
    MASKED: tl.constexpr, SCALED: tl.constexpr, DEGREE: tl.constexpr, SIDE: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    block = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)
    i, feature = tl.arange(0, SIDE), tl.arange(0, WIDTH)
    exists = block < num_blocks
    arc = replica * num_arcs + first_arc + block * DEGREE
    there = exists
    if MASKED:
        there = exists & (tl.load(mask + arc, mask=exists, other=0) != 0)
    matrix = coin + (replica * num_blocks + block) * DEGREE * DEGREE
    total = tl.zeros([BLOCKS, SIDE, WIDTH], dtype=tl.float32)
    for j in range(DEGREE):
        state = tl.load(
            h + (arc + j)[:, None] * width + feature[None, :], mask=there[:, None] & (feature < width)[None, :], other=0.0
        )
        weight = tl.load(matrix[:, None] + i[None, :] * DEGREE + j, mask=there[:, None] & (i < DEGREE)[None, :], other=0.0)
        total += weight[:, :, None] * state[:, None, :]
    row = replica * num_arcs + tl.load(reverse + arc[:, None] + i[None, :], mask=exists[:, None] & (i < DEGREE)[None, :], other=0)
    place = row[:, :, None] * width + feature[None, None, :]
    inside = (i < DEGREE)[None, :, None] & (feature < width)[None, None, :]
    if SCALED:
        total += tl.load(scale + replica) * tl.load(h + place, mask=inside & there[:, None, None], other=0.0)
    tl.store(out + place, total, mask=inside & exists[:, None, None])


@triton.jit(do_not_specialize=["first_arc", "num_blocks", "num_arcs", "first_program", "num_programs"])
def _coin_shift_backward(
    grad, h, coin, reverse, mask, scale, grad_h, grad_coin, grad_scale,
    first_arc, num_blocks, num_arcs, width, first_program, num_programs,
    MASKED: tl.constexpr, SCALED: tl.constexpr, DEGREE: tl.constexpr, SIDE: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    block = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)
    j, feature = tl.arange(0, SIDE), tl.arange(0, WIDTH)
    exists = block < num_blocks
    arc = replica * num_arcs + first_arc + block * DEGREE
    there = exists
    if MASKED:
        there = exists & (tl.load(mask + arc, mask=exists, other=0) != 0)
    matrix = (replica * num_blocks + block) * DEGREE * DEGREE
    place = (arc[:, None] + j[None, :])[:, :, None] * width + feature[None, None, :]
    inside = (j < DEGREE)[None, :, None] & (feature < width)[None, None, :]
    states = tl.load(h + place, mask=inside & there[:, None, None], other=0.0)
    total = tl.zeros([BLOCKS, SIDE, WIDTH], dtype=tl.float32)
    for i in range(DEGREE):
        row = replica * num_arcs + tl.load(reverse + arc + i, mask=exists, other=0)
        pulled = tl.load(
            grad + row[:, None] * width + feature[None, :], mask=there[:, None] & (feature < width)[None, :], other=0.0
        )
        entry = matrix[:, None] + i * DEGREE + j[None, :]
        known = (j < DEGREE)[None, :] & exists[:, None]
        total += tl.load(coin + entry, mask=known & there[:, None], other=0.0)[:, :, None] * pulled[:, None, :]
        tl.store(grad_coin + entry, tl.sum(states * pulled[:, None, :], axis=2), mask=known)
    if SCALED:
        own = tl.load(grad + place, mask=inside & there[:, None, None], other=0.0)
        total += tl.load(scale + replica) * own
        share = tl.sum(tl.sum(tl.sum(own * states, axis=2), axis=1), axis=0)
        tl.store(grad_scale + replica * num_programs + first_program + tl.program_id(0), share)
    tl.store(grad_h + place, total, mask=inside & exists[:, None, None])


def _launches(coins: list[Tensor], width: int, **flags: bool) -> Iterator[tuple[tuple[int, int], int, int, dict[str, Any]]]:
    """For the blocks of every degree the programs, the arc and the program with which they begin, and the sizes."""
    first_arc, first_program, padded = 0, 0, triton.next_power_of_2(width)
    for coin in coins:
        num_replicas, num_blocks, degree = coin.shape[:3]
        side = triton.next_power_of_2(degree)
        blocks = max(TILE // (side * padded), 1)
        grid = (triton.cdiv(num_blocks, blocks), num_replicas)
        yield (
            grid,
            first_arc,
            first_program,
            {"DEGREE": degree, "SIDE": side, "BLOCKS": blocks, "WIDTH": padded, "num_warps": 2, **flags},
        )
        first_arc += num_blocks * degree
        first_program += grid[0]


class CoinShift(torch.autograd.Function):
    """Multiplies consecutive rows by their blocks, hands every row to its reverse and adds a multiple of what was there, for stacked replicas.

    Takes the states :math:`(R, A, F)`, the reverses and the mask :math:`(R, A)`, the factors :math:`(R)`, and for every degree the blocks
    :math:`(R, n, d, d)`, whose rows follow each other in this order.
    """

    @staticmethod
    def forward(h: Tensor, reverse: Tensor, mask: Tensor | None, scale: Tensor | None, *coins: Tensor) -> Tensor:
        """Propagates."""
        out, (num_arcs, width) = torch.empty_like(h), h.shape[1:]
        pointers = pointer_to(mask, h), h if scale is None else scale  # what is not there is not read
        flags = {"MASKED": mask is not None, "SCALED": scale is not None}
        with torch.cuda.device_of(h):
            for coin, (grid, first_arc, _, sizes) in zip(coins, _launches(list(coins), width, **flags), strict=True):
                _coin_shift_forward[grid](h, coin, reverse, *pointers, out, first_arc, coin.size(1), num_arcs, width, **sizes)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor | None, ...], output: Tensor) -> None:
        """Keeps the inputs."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Pulls a gradient back to states, factors and blocks."""
        h, reverse, mask, scale, *coins = ctx.saved_tensors
        (num_arcs, width), grad, grad_h = h.shape[1:], grad.contiguous(), torch.empty_like(h)
        grad_coins = [torch.empty_like(coin) for coin in coins]
        pointers = pointer_to(mask, h), h if scale is None else scale
        launches = list(_launches(coins, width, MASKED=mask is not None, SCALED=scale is not None))
        num_programs = sum(grid[0] for grid, *_ in launches)
        grad_scale = h.new_empty(h.size(0), num_programs)
        with torch.cuda.device_of(h):
            for coin, grad_coin, (grid, first_arc, first_program, sizes) in zip(coins, grad_coins, launches, strict=True):
                tensors = (grad, h, coin, reverse, *pointers, grad_h, grad_coin, grad_scale)
                _coin_shift_backward[grid](*tensors, first_arc, coin.size(1), num_arcs, width, first_program, num_programs, **sizes)
        return grad_h, None, None, None if scale is None else grad_scale.sum(1), *grad_coins

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor | None) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return CoinShift.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


def coin_shift(h: Tensor, reverse: Tensor, coins: list[Tensor], scale: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    r"""Mixes the outgoing arcs of every vertex by its coin, flips every arc to its reverse, and adds a multiple of what was there.

    What :class:`gump.nn.Propagation` computes in two moves, and GIN's sum after it, in one pass over float32 states on a GPU.

    Args:
        h: The states of the arcs, grouped by the degree of their source.
        reverse: For every arc the one that runs the other way.
        coins: The blocks of every degree.
        scale: The factor of what is added; by default nothing is.
        mask: Which arcs count: booleans, or bytes that are not zero; by default all. Others are their own reverses, leave a vertex together,
            come out as zero and give no gradient.

    Shapes:
        - **h:** :math:`(A, F)`
        - **reverse:** :math:`(A)`
        - **coins:** :math:`(n, d, d)` each
        - **scale:** a scalar
        - **mask:** :math:`(A)`
        - **output:** :math:`(A, F)`
    """
    LAUNCHED.add("coin_shift")
    out: Tensor = CoinShift.apply(*one_replica(h, reverse, mask, scale, *coins)).squeeze(0)
    return out
