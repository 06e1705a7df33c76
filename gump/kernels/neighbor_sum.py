"""Sums over the neighbors of vertices, for many replicas at once: without a row for every arc, and without atomic additions."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED
from gump.kernels.stacking import one_replica, stack_replicas
from gump.kernels.tiling import Sizes

TILE = 1024
"""How many entries of rows a program reads at a time."""
COLUMNS = 64
"""How many features it takes at most."""
FEW = 4
"""The neighbors of how many vertices are read one after another, in as many steps for all that have no more; others have four times as many steps."""
MANY = 16
"""Of more neighbors so many are read side by side."""


@triton.jit(do_not_specialize=["num_arcs", "num_nodes", "num_blocks"])
def _neighbor_sum(
    x, source, target, scale, own, table, out,
    num_arcs, num_nodes, num_blocks, width,
    SCALED: tl.constexpr, OWN: tl.constexpr,
    KINDS: tl.constexpr, BLOCKS: tl.constexpr, DEGREE: tl.constexpr, PORTS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    exists = block < num_blocks
    kind = tl.sum((tl.load(table + tl.arange(0, KINDS))[None, :] <= block[:, None]).to(tl.int32), 1) - 1
    degree = tl.where(exists, tl.load(table + 2 * KINDS + kind), 0)
    arc = replica * num_arcs + tl.load(table + KINDS + kind) + (block - tl.load(table + kind)) * degree
    port = tl.arange(0, PORTS)
    feature = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = feature < width
    total = tl.zeros([BLOCKS, WIDTH], tl.float32)
    for first in tl.range(0, DEGREE, PORTS, loop_unroll_factor=4):  # so that rows are waited for together
        there = (first + port)[None, :] < degree[:, None]
        neighbor = replica * num_nodes + tl.load(target + arc[:, None] + (first + port)[None, :], mask=there, other=0)
        entry = neighbor[:, :, None] * width + feature[None, None, :]
        rows = tl.load(x + entry, mask=there[:, :, None] & inside[None, None, :], other=0.0)
        if SCALED:
            rows *= tl.load(scale + neighbor, mask=there, other=0.0)[:, :, None]
        total += tl.sum(rows, 1)
    vertex = replica * num_nodes + tl.load(source + arc, mask=exists, other=0)
    place, known = vertex[:, None] * width + feature[None, :], exists[:, None] & inside[None, :]
    if OWN:
        share = tl.load(own + vertex, mask=exists, other=0.0)
        if SCALED:
            share *= tl.load(scale + vertex, mask=exists, other=0.0)
        total += share[:, None] * tl.load(x + place, mask=known, other=0.0)
    if SCALED:
        total *= tl.load(scale + vertex, mask=exists, other=0.0)[:, None]
    tl.store(out + place, total, mask=known)


class _Group(NamedTuple):
    """Vertices whose degrees are alike, which are summed for in one launch.

    Args:
        degree: What their degrees are up to.
        num_blocks: How many vertices there are.
        table: For every degree its first vertex in the group, its first arc, and the degree.
    """

    degree: int
    num_blocks: int
    table: Tensor


@lru_cache(maxsize=4096)  # more than a program has recordings, which read the tables without asking
def _groups(sizes: Sizes, device: torch.device) -> tuple[_Group, ...]:
    """Divides the vertices by their degrees."""
    columns: dict[int, list[list[int]]] = {}
    num_blocks: dict[int, int] = {}
    first_arc = 0
    for degree, count in sizes:
        most = FEW
        while most < degree:
            most *= 4
        columns.setdefault(most, []).append([num_blocks.get(most, 0), first_arc, degree])
        num_blocks[most] = num_blocks.get(most, 0) + count
        first_arc += count * degree
    groups = []
    for most, listed in columns.items():
        unused = [[2**31 - 1, 0, 0]] * (triton.next_power_of_2(len(listed)) - len(listed))
        table = torch.tensor(listed + unused, dtype=torch.int32).t().contiguous()
        groups.append(_Group(most, num_blocks[most], table.to(device)))
    return tuple(group for group in groups if group.num_blocks)


class NeighborSum(torch.autograd.Function):
    """What :func:`neighbor_sum` computes, for stacked replicas. The matrix is symmetric: gradients are pulled back by the same sum."""

    @staticmethod
    def forward(x: Tensor, source: Tensor, target: Tensor, scale: Tensor | None, own: Tensor | None, sizes: Sizes) -> Tensor:
        """Sums."""
        (num_replicas, num_nodes, width), x = x.shape, x.contiguous()
        if sum(count for _, count in sizes) == num_nodes:
            out = torch.empty_like(x)
        elif own is None:
            out = torch.zeros_like(x)
        else:  # where nobody is a neighbor
            out = x * (own if scale is None else own * scale.square()).unsqueeze(-1)
        columns = min(triton.next_power_of_2(width), COLUMNS)
        for degree, num_blocks, table in _groups(sizes, x.device):
            ports = 1 if degree <= MANY else MANY
            blocks = TILE // (columns * ports)
            with torch.cuda.device_of(x):
                _neighbor_sum[triton.cdiv(num_blocks, blocks), num_replicas, triton.cdiv(width, columns)](
                    *(x, source, target, x if scale is None else scale, x if own is None else own, table, out),  # none is not read
                    *(source.size(1), num_nodes, num_blocks, width),
                    SCALED=scale is not None,
                    OWN=own is not None,
                    KINDS=table.size(1),
                    BLOCKS=blocks,
                    DEGREE=degree,
                    PORTS=ports,
                    WIDTH=columns,
                )
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the matrix."""
        *matrix, ctx.sizes = inputs[1:]
        ctx.save_for_backward(*matrix)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Sums gradients, in a way that can be differentiated again."""
        return NeighborSum.apply(grad, *ctx.saved_tensors, ctx.sizes), None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Stacks what ``vmap`` runs over on top of the replicas that are there."""
        return NeighborSum.apply(*stack_replicas(info, in_dims, inputs)).unflatten(0, (info.batch_size, -1)), 0


def neighbor_sum(x: Tensor, arcs: Tensor, sizes: Sizes, scale: Tensor | None = None, own: Tensor | None = None) -> Tensor:
    r"""Multiplies with the adjacency matrix of an undirected graph, to which a diagonal may be added and which may be scaled on both sides.

    .. math::
        \mathbf{y}_v = s_v \Big( o_v s_v \mathbf{x}_v + \sum_{(v, u)} s_u \mathbf{x}_u \Big)

    In single precision on a GPU, in one pass that reads rows where they are. Of a gradient nothing is pulled back to the diagonal and to the
    scale, which are taken for constants.

    Args:
        x: The rows of the vertices.
        arcs: The arcs, with every one its reverse, and those with one source consecutive.
        sizes: Degrees and how many vertices have each, in the order of the arcs.
        scale: The factors :math:`s`, by default one.
        own: The diagonal :math:`o`, by default zero.

    Shapes:
        - **x:** :math:`(N, F)`
        - **arcs:** :math:`(2, A)`
        - **scale, own:** :math:`(N)`
        - **output:** :math:`(N, F)`
    """
    LAUNCHED.add("neighbor_sum")
    out: Tensor = NeighborSum.apply(*one_replica(x, *arcs.unbind(0), scale, own), sizes).squeeze(0)
    return out
