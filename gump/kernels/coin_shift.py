"""Coin and shift of a layer in one pass: states are read once and written once, already in their new places."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED
from gump.kernels.once_differentiable import once_differentiable
from gump.kernels.stacking import one_replica, pointer_to, stack_replicas
from gump.kernels.tiling import Sizes, chunk_of, find_entries, find_tile, tilings


@triton.jit(do_not_specialize=["num_arcs", "num_entries"])
def _forward(
    h, values, reverse, mask, scale, out, table, num_arcs, num_entries,
    MASKED: tl.constexpr, SCALED: tl.constexpr, SIDE: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    first, entry, degree, num_rows = find_tile(table, tl.program_id(0), SIDE)
    row = tl.arange(0, SIDE)
    exists = row < num_rows
    arc = replica * num_arcs + first + row
    there = exists
    if MASKED:
        there = exists & (tl.load(mask + arc, mask=exists, other=0) != 0)
    place, known = find_entries(degree, num_rows, SIDE)
    coin = tl.load(values + replica * num_entries + entry + place, mask=known & there[:, None], other=0.0)
    to = replica * num_arcs + tl.load(reverse + arc, mask=exists, other=0)
    for start in range(0, WIDTH, CHUNK):
        feature = start + tl.arange(0, CHUNK)
        inside = there[:, None] & (feature < WIDTH)[None, :]
        states = tl.load(h + arc[:, None] * WIDTH + feature[None, :], mask=inside, other=0.0)
        total = tl.dot(coin, states, input_precision="tf32x3")
        if SCALED:
            total += tl.load(scale + replica) * tl.load(h + to[:, None] * WIDTH + feature[None, :], mask=inside, other=0.0)
        tl.store(out + to[:, None] * WIDTH + feature[None, :], total, mask=exists[:, None] & (feature < WIDTH)[None, :])


@triton.jit(do_not_specialize=["num_arcs", "num_entries", "first_program", "num_programs"])
def _backward(
    grad, h, values, reverse, mask, scale, grad_h, grad_values, grad_scale, table, num_arcs, num_entries, first_program, num_programs,
    MASKED: tl.constexpr, SCALED: tl.constexpr, SIDE: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    first, entry, degree, num_rows = find_tile(table, tl.program_id(0), SIDE)
    row = tl.arange(0, SIDE)
    exists = row < num_rows
    arc = replica * num_arcs + first + row
    there = exists
    if MASKED:
        there = exists & (tl.load(mask + arc, mask=exists, other=0) != 0)
    place, known = find_entries(degree, num_rows, SIDE)
    matrix = replica * num_entries + entry + place
    coin = tl.load(values + matrix, mask=known & there[:, None], other=0.0)
    to = replica * num_arcs + tl.load(reverse + arc, mask=exists, other=0)
    to_coin = tl.zeros([SIDE, SIDE], dtype=tl.float32)
    share = tl.zeros([SIDE], dtype=tl.float32)
    for start in range(0, WIDTH, CHUNK):
        feature = start + tl.arange(0, CHUNK)
        inside = there[:, None] & (feature < WIDTH)[None, :]
        states = tl.load(h + arc[:, None] * WIDTH + feature[None, :], mask=inside, other=0.0)
        pulled = tl.load(grad + to[:, None] * WIDTH + feature[None, :], mask=inside, other=0.0)
        total = tl.dot(tl.trans(coin), pulled, input_precision="tf32x3")
        to_coin += tl.dot(pulled, tl.trans(states), input_precision="tf32x3")
        if SCALED:
            own = tl.load(grad + arc[:, None] * WIDTH + feature[None, :], mask=inside, other=0.0)
            total += tl.load(scale + replica) * own
            share += tl.sum(own * states, axis=1)
        tl.store(grad_h + arc[:, None] * WIDTH + feature[None, :], total, mask=exists[:, None] & (feature < WIDTH)[None, :])
    tl.store(grad_values + matrix, to_coin, mask=known)
    if SCALED:
        tl.store(grad_scale + replica * num_programs + first_program + tl.program_id(0), tl.sum(share, axis=0))


class CoinShift(torch.autograd.Function):
    """Multiplies consecutive rows by their blocks, hands every row to its reverse and adds a multiple of what was there, for stacked replicas.

    Takes the states :math:`(R, A, F)`, the entries of the blocks of all degrees :math:`(R, T)`, the reverses and the mask :math:`(R, A)`, the
    factors :math:`(R)`, and the sizes.
    """

    @staticmethod
    def forward(h: Tensor, values: Tensor, reverse: Tensor, mask: Tensor | None, scale: Tensor | None, sizes: Sizes) -> Tensor:
        """Propagates."""
        (num_replicas, num_arcs, width), out = h.shape, torch.empty_like(h)
        pointers = pointer_to(mask, h), h if scale is None else scale  # what is not there is not read
        settings = _settings(width, mask, scale)
        with torch.cuda.device_of(h):
            for side, num_tiles, table in tilings(sizes, h.device):
                _forward[num_tiles, num_replicas](
                    h, values, reverse, *pointers, out, table, num_arcs, values.size(1), SIDE=side, num_warps=side // 16, **settings
                )
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the inputs."""
        *tensors, ctx.sizes = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Pulls a gradient back to states, blocks and factors."""
        h, values, reverse, mask, scale = ctx.saved_tensors
        (num_replicas, num_arcs, width), grad = h.shape, grad.contiguous()
        grad_h, grad_values, tiled = torch.empty_like(h), torch.empty_like(values), tilings(ctx.sizes, h.device)
        num_programs, first_program = sum(tiling.num_tiles for tiling in tiled), 0
        grad_scale = h.new_empty(num_replicas, num_programs)
        pointers = pointer_to(mask, h), h if scale is None else scale
        settings = _settings(width, mask, scale)
        with torch.cuda.device_of(h):
            for side, num_tiles, table in tiled:
                _backward[num_tiles, num_replicas](
                    *(grad, h, values, reverse, *pointers, grad_h, grad_values, grad_scale),
                    *(table, num_arcs, values.size(1), first_program, num_programs),
                    SIDE=side,
                    num_warps=side // 16,
                    **settings,
                )
                first_program += num_tiles
        return grad_h, grad_values, None, None, None if scale is None else grad_scale.sum(1), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return CoinShift.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


def _settings(width: int, mask: Tensor | None, scale: Tensor | None) -> dict[str, Any]:
    return {"MASKED": mask is not None, "SCALED": scale is not None, "WIDTH": width, "CHUNK": chunk_of(width)}


def coin_shift(
    h: Tensor, reverse: Tensor, values: Tensor, sizes: Sizes, scale: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    r"""Mixes the outgoing arcs of every vertex by its coin, flips every arc to its reverse, and adds a multiple of what was there.

    What :class:`gump.nn.Propagation` computes in two moves, and GIN's sum after it, in one pass over float32 states on a GPU.

    Args:
        h: The states of the arcs, grouped by the degree of their source.
        reverse: For every arc the one that runs the other way.
        values: The entries of the blocks of all degrees, see :func:`gump.kernels.tiling.flatten`.
        sizes: Degrees and how many vertices have each, in the order of the arcs.
        scale: The factor of what is added; by default nothing is.
        mask: Which arcs count: booleans, or bytes that are not zero; by default all. Others are their own reverses, leave a vertex together,
            come out as zero and give no gradient.

    Shapes:
        - **h:** :math:`(A, F)`
        - **reverse:** :math:`(A)`
        - **values:** :math:`(T)`
        - **scale:** a scalar
        - **mask:** :math:`(A)`
        - **output:** :math:`(A, F)`
    """
    LAUNCHED.add("coin_shift")
    out: Tensor = CoinShift.apply(*one_replica(h, values, reverse, mask, scale), sizes).squeeze(0)
    return out
