"""Coin and shift of a layer in one pass: states are read once and written once, already in their new places."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED

TILE = 512
"""How many entries of states a program holds at a time."""


@triton.jit
def _forward(h, coin, reverse, out, first_arc, num_blocks, num_arcs, width, DEGREE: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    block = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)
    feature = tl.arange(0, WIDTH)
    there = block < num_blocks
    mask = there[:, None] & (feature < width)[None, :]
    arc = replica * num_arcs + first_arc + block * DEGREE
    matrix = coin + (replica * num_blocks + block) * DEGREE * DEGREE
    for i in range(DEGREE):
        total = tl.zeros([BLOCKS, WIDTH], dtype=tl.float32)
        for j in range(DEGREE):
            state = tl.load(h + (arc + j)[:, None] * width + feature[None, :], mask=mask, other=0.0)
            total += tl.load(matrix + i * DEGREE + j, mask=there, other=0.0)[:, None] * state
        row = replica * num_arcs + tl.load(reverse + arc + i, mask=there, other=0)
        tl.store(out + row[:, None] * width + feature[None, :], total, mask=mask)


@triton.jit
def _backward(grad, h, coin, reverse, grad_h, grad_coin, first_arc, num_blocks, num_arcs, width, DEGREE: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    block = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.int64)
    feature = tl.arange(0, WIDTH)
    there = block < num_blocks
    mask = there[:, None] & (feature < width)[None, :]
    arc = replica * num_arcs + first_arc + block * DEGREE
    matrix = (replica * num_blocks + block) * DEGREE * DEGREE
    for j in range(DEGREE):
        place = (arc + j)[:, None] * width + feature[None, :]
        state = tl.load(h + place, mask=mask, other=0.0)
        total = tl.zeros([BLOCKS, WIDTH], dtype=tl.float32)
        for i in range(DEGREE):
            row = replica * num_arcs + tl.load(reverse + arc + i, mask=there, other=0)
            pulled = tl.load(grad + row[:, None] * width + feature[None, :], mask=mask, other=0.0)
            entry = matrix + i * DEGREE + j
            total += tl.load(coin + entry, mask=there, other=0.0)[:, None] * pulled
            tl.store(grad_coin + entry, tl.sum(pulled * state, axis=1), mask=there)
        tl.store(grad_h + place, total, mask=mask)


def _launch(kernel: Any, tensors: list[Tensor], coin: Tensor, first_arc: int, num_arcs: int, width: int) -> None:
    """Runs a kernel over the blocks of one degree."""
    num_replicas, num_blocks, degree = coin.shape[:3]
    padded = triton.next_power_of_2(width)
    blocks = max(TILE // padded, 1)
    grid = (triton.cdiv(num_blocks, blocks), num_replicas)
    kernel[grid](*tensors, first_arc, num_blocks, num_arcs, width, DEGREE=degree, BLOCKS=blocks, WIDTH=padded, num_warps=4)


class CoinShift(torch.autograd.Function):
    """Multiplies consecutive rows by their blocks and hands every row to its reverse, for stacked replicas.

    Takes the states :math:`(R, A, F)`, the reverses :math:`(R, A)`, and for every degree the blocks :math:`(R, n, d, d)`, whose rows follow
    each other in this order.
    """

    @staticmethod
    def forward(h: Tensor, reverse: Tensor, *coins: Tensor) -> Tensor:
        """Propagates."""
        out, first_arc = torch.empty_like(h), 0
        for coin in coins:
            _launch(_forward, [h, coin, reverse, out], coin, first_arc, *h.shape[1:])
            first_arc += coin.size(1) * coin.size(2)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Keeps the inputs."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Pulls a gradient back to states and blocks."""
        h, reverse, *coins = ctx.saved_tensors
        grad, grad_h, first_arc = grad.contiguous(), torch.empty_like(h), 0
        grad_coins = [torch.empty_like(coin) for coin in coins]
        for coin, grad_coin in zip(coins, grad_coins, strict=True):
            _launch(_backward, [grad, h, coin, reverse, grad_h, grad_coin], coin, first_arc, *h.shape[1:])
            first_arc += coin.size(1) * coin.size(2)
        return grad_h, None, *grad_coins

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        stacked = [
            (x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1).contiguous()
            for x, dim in zip(inputs, in_dims, strict=True)
        ]
        return CoinShift.apply(*stacked).unflatten(0, (info.batch_size, -1)), 0


def coin_shift(h: Tensor, reverse: Tensor, coins: list[Tensor]) -> Tensor:
    r"""Mixes the outgoing arcs of every vertex by its coin, then flips every arc to its reverse.

    What :class:`gump.nn.Propagation` computes in two moves, in one pass over float32 states on a GPU.

    Args:
        h: The states of the arcs, grouped by the degree of their source.
        reverse: For every arc the one that runs the other way.
        coins: The blocks of every degree.

    Shapes:
        - **h:** :math:`(A, F)`
        - **reverse:** :math:`(A)`
        - **coins:** :math:`(n, d, d)` each
        - **output:** :math:`(A, F)`
    """
    LAUNCHED.add("coin_shift")
    stacked = (x.unsqueeze(0).contiguous() for x in (h, reverse, *coins))
    out: Tensor = CoinShift.apply(*stacked).squeeze(0)
    return out
