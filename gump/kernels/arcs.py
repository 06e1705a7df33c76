"""From vertices to their arcs and back, for many replicas at once: gathers and sums without atomic additions."""

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

TILE = 1024
"""How many entries a program holds at a time."""


@triton.jit(do_not_specialize=["num_arcs", "num_nodes"])
def _spread(
    first, second, source, target, mask, out,
    num_arcs, num_nodes, width,
    FIRST: tl.constexpr, SECOND: tl.constexpr, MASKED: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, WIDTH)
    exists, arc = row < num_arcs, replica * num_arcs + row
    there = exists
    if MASKED:
        there = exists & (tl.load(mask + arc, mask=exists, other=0) != 0)
    inside = there[:, None] & (feature < width)[None, :]
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    if FIRST:
        vertex = replica * num_nodes + tl.load(source + arc, mask=there, other=0)
        total += tl.load(first + vertex[:, None] * width + feature[None, :], mask=inside, other=0.0)
    if SECOND:
        vertex = replica * num_nodes + tl.load(target + arc, mask=there, other=0)
        total += tl.load(second + vertex[:, None] * width + feature[None, :], mask=inside, other=0.0)
    tl.store(out + arc[:, None] * width + feature[None, :], total, mask=exists[:, None] & (feature < width)[None, :])


@triton.jit(do_not_specialize=["num_arcs", "num_nodes"])
def _collect(
    h, source, reverse, mask, outgoing, incoming, table, num_arcs, num_nodes,
    OUTGOING: tl.constexpr, INCOMING: tl.constexpr, MASKED: tl.constexpr, SIDE: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    first, _, degree, num_rows = find_tile(table, tl.program_id(0), SIDE)
    row = tl.arange(0, SIDE)
    exists = row < num_rows
    arc = replica * num_arcs + first + row
    there = exists
    if MASKED:
        there = exists & (tl.load(mask + arc, mask=exists, other=0) != 0)
    _, same = find_entries(degree, num_rows, SIDE)
    same = same.to(tl.float32)
    leads = exists & (row % degree == 0)  # every vertex is written by the first of its rows
    vertex = replica * num_nodes + tl.load(source + arc, mask=exists, other=0)
    back = replica * num_arcs + tl.load(reverse + arc, mask=there, other=0)
    for start in range(0, WIDTH, CHUNK):
        feature = start + tl.arange(0, CHUNK)
        inside = there[:, None] & (feature < WIDTH)[None, :]
        place, known = vertex[:, None] * WIDTH + feature[None, :], leads[:, None] & (feature < WIDTH)[None, :]
        if OUTGOING:
            states = tl.load(h + arc[:, None] * WIDTH + feature[None, :], mask=inside, other=0.0)
            tl.store(outgoing + place, tl.dot(same, states, input_precision="tf32x3"), mask=known)
        if INCOMING:
            states = tl.load(h + back[:, None] * WIDTH + feature[None, :], mask=inside, other=0.0)
            tl.store(incoming + place, tl.dot(same, states, input_precision="tf32x3"), mask=known)


def _spread_all(first: Tensor | None, second: Tensor | None, source: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
    x = second if first is None else first
    assert x is not None
    (num_replicas, num_nodes, width), num_arcs = x.shape, source.size(1)
    padded = triton.next_power_of_2(width)
    rows = max(TILE // padded, 1)
    out = x.new_empty(num_replicas, num_arcs, width)
    pointers = (x if t is None else t for t in (first, second))  # what is not there is not read
    with torch.cuda.device_of(x):
        _spread[triton.cdiv(num_arcs, rows), num_replicas](
            *(*pointers, source, target, pointer_to(mask, source), out, num_arcs, num_nodes, width),
            FIRST=first is not None,
            SECOND=second is not None,
            MASKED=mask is not None,
            ROWS=rows,
            WIDTH=padded,
        )
    return out


def _collect_all(
    h: Tensor, source: Tensor, reverse: Tensor, mask: Tensor | None, num_nodes: int, sizes: Sizes, outgoing: bool, incoming: bool
) -> tuple[Tensor | None, Tensor | None]:
    (num_replicas, num_arcs, width), h = h.shape, h.contiguous()
    results = [h.new_zeros(num_replicas, num_nodes, width) if wanted else None for wanted in (outgoing, incoming)]
    pointers = [h if result is None else result for result in results]
    with torch.cuda.device_of(h):
        for side, num_tiles, table in tilings(sizes, h.device):
            _collect[num_tiles, num_replicas](
                *(h, source, reverse, pointer_to(mask, source), *pointers, table, num_arcs, num_nodes),
                OUTGOING=outgoing,
                INCOMING=incoming,
                MASKED=mask is not None,
                SIDE=side,
                WIDTH=width,
                CHUNK=chunk_of(width),
                num_warps=side // 16,
            )
    return results[0], results[1]


class Spread(torch.autograd.Function):
    """What :func:`spread` computes, for stacked replicas."""

    @staticmethod
    def forward(
        first: Tensor | None,
        second: Tensor | None,
        source: Tensor,
        target: Tensor,
        reverse: Tensor,
        mask: Tensor | None,
        sizes: Sizes,
    ) -> Tensor:
        """Gathers."""
        return _spread_all(first, second, source, target, mask)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the numbers."""
        first, second, source, _, reverse, mask, ctx.sizes = inputs
        ctx.wanted = first is not None, second is not None
        ctx.num_nodes = (second if first is None else first).size(1)
        ctx.save_for_backward(source, reverse, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Sums what leaves a vertex, and what arrives."""
        source, reverse, mask = ctx.saved_tensors
        return *_collect_all(grad, source, reverse, mask, ctx.num_nodes, ctx.sizes, *ctx.wanted), None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return Spread.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


class Collect(torch.autograd.Function):
    """What :func:`collect` computes, for stacked replicas."""

    @staticmethod
    def forward(
        h: Tensor, source: Tensor, target: Tensor, reverse: Tensor, mask: Tensor | None, num_nodes: int, sizes: Sizes
    ) -> Tensor:
        """Sums."""
        incoming = _collect_all(h, source, reverse, mask, num_nodes, sizes, False, True)[1]
        assert incoming is not None
        return incoming

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the numbers."""
        _, source, target, _, mask, *_ = inputs
        ctx.save_for_backward(source, target, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Hands every arc what the vertex at its end has."""
        source, target, mask = ctx.saved_tensors
        return _spread_all(None, grad.contiguous(), source, target, mask), None, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return Collect.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


def spread(
    first: Tensor | None,
    second: Tensor | None,
    arcs: Tensor,
    reverse: Tensor,
    sizes: Sizes,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Hands every arc what the vertices at its ends have.

    .. math::
        \mathbf{h}_{(u, v)} = \mathbf{x}_u + \mathbf{y}_v

    Args:
        first: What the vertex has where an arc begins; none counts as zero.
        second: What the vertex has where it ends; not both may be none.
        arcs: The arcs, those with one source consecutive.
        reverse: For every arc the one that runs the other way.
        sizes: Degrees and how many vertices have each, in the order of the arcs.
        mask: Which arcs count: booleans, or bytes that are not zero; others get zero.

    Shapes:
        - **first, second:** :math:`(N, F)`
        - **arcs:** :math:`(2, A)`
        - **reverse, mask:** :math:`(A)`
        - **output:** :math:`(A, F)`
    """
    LAUNCHED.add("spread")
    tensors = one_replica(first, second, *arcs.unbind(0), reverse, mask)
    out: Tensor = Spread.apply(*tensors, sizes).squeeze(0)
    return out


def collect(h: Tensor, arcs: Tensor, reverse: Tensor, sizes: Sizes, num_nodes: int, mask: Tensor | None = None) -> Tensor:
    r"""Sums the states of the arcs that end at each vertex.

    .. math::
        \mathbf{x}_v = \sum_{(u, v)} \mathbf{h}_{(u, v)}

    Args:
        h: The states.
        arcs: The arcs, those with one source consecutive.
        reverse: For every arc the one that runs the other way.
        sizes: Degrees and how many vertices have each, in the order of the arcs.
        num_nodes: How many vertices there are.
        mask: Which arcs count: booleans, or bytes that are not zero.

    Shapes:
        - **h:** :math:`(A, F)`
        - **arcs:** :math:`(2, A)`
        - **reverse, mask:** :math:`(A)`
        - **output:** :math:`(N, F)`
    """
    LAUNCHED.add("collect")
    tensors = one_replica(h, *arcs.unbind(0), reverse, mask)
    out: Tensor = Collect.apply(*tensors, num_nodes, sizes).squeeze(0)
    return out
