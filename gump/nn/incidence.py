"""From vertices to their arcs and back, by kernels where there are some."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gump.kernels import runs_kernels
from gump.line_graph import EulerianLineGraph
from gump.nn.arguments import is_transformed
from gump.nn.rows import add_rows, select_rows

EVERY = slice(None)


def at_arcs(
    first: Tensor | None,
    second: Tensor | None,
    line_graph: EulerianLineGraph,
    mask: Tensor | None = None,
    arcs: slice = EVERY,
) -> Tensor:
    r"""Hands every arc what the vertices at its ends have: :math:`\mathbf{h}_{(u, v)} = \mathbf{x}_u + \mathbf{y}_v`.

    Args:
        first: What the vertex has where an arc begins; none counts as zero.
        second: What the vertex has where it ends; not both may be none.
        line_graph: The arcs.
        mask: Which arcs count; the others, which belong to padding, come out as anything.
        arcs: Of which arcs the rows are wanted.

    Shapes:
        - **first, second:** :math:`(N, F)`
        - **output:** :math:`(A, F)`
    """
    every = not torch.compiler.is_compiling() and len(range(*arcs.indices(line_graph.num_arcs))) == line_graph.num_arcs
    given = [x for x in (first, second) if x is not None]
    if every and _by_kernel(line_graph, *given):
        from gump.kernels.arcs import spread

        return spread(first, second, line_graph.arcs, line_graph.reverse, tuple(line_graph.block_sizes.items()), mask)
    lists = _lists(line_graph, *given) if every else None
    rows = []
    for end, x in enumerate((first, second)):
        if x is not None:
            vertex = line_graph.arcs[end, arcs]
            rows.append(select_rows(x, vertex) if lists is None else _Gather.apply(x, vertex, lists[end]))
    return rows[0] if len(rows) == 1 else rows[0] + rows[1]


def sum_of_incoming(h: Tensor, line_graph: EulerianLineGraph, mask: Tensor | None = None) -> Tensor:
    r"""Sums the states of the arcs that end at each vertex.

    Shapes:
        - **input:** :math:`(A, F)`
        - **output:** :math:`(N, F)`
    """
    if _by_kernel(line_graph, h):
        from gump.kernels.arcs import collect

        sizes = tuple(line_graph.block_sizes.items())
        return collect(h, line_graph.arcs, line_graph.reverse, sizes, line_graph.num_nodes, mask)
    lists = _lists(line_graph, h)
    if lists is None:
        return add_rows(h, line_graph.arcs[1], line_graph.num_nodes)
    total: Tensor = _SumOfBags.apply(h, line_graph.arcs[1], lists[1])
    return total


def _by_kernel(line_graph: EulerianLineGraph, *tensors: Tensor) -> bool:
    if not line_graph.groups or not runs_kernels(*tensors):
        return False
    from gump.kernels.tiling import MAX_DEGREE

    return line_graph.max_degree <= MAX_DEGREE


Bags = tuple[Tensor, Tensor]
"""The arcs at vertex ``v``: of the second tensor, the rows from ``first[v]`` to ``first[v + 1]``."""


def _lists(line_graph: EulerianLineGraph, *tensors: Tensor) -> tuple[Bags, Bags] | None:
    """The arcs that begin and those that end at every vertex, where lists of them are the fastest way to a sum: in single precision on a CPU.

    Not under the transforms of ``torch.func``, where replicas may have arcs of their own, nor in a compiled or exported model.
    """
    plain = all(x.device.type == "cpu" and x.dtype == torch.float32 and x.dim() == 2 for x in tensors)
    if not plain or is_transformed():
        return None
    pointer, outgoing, incoming = line_graph.incidence
    return (pointer, outgoing), (pointer, incoming)


class _Gather(torch.autograd.Function):
    """Hands every arc what the vertex at one of its ends has."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, vertex: Tensor, bags: Bags) -> Tensor:
        ctx.vertex, ctx.bags = vertex, bags
        return x.index_select(0, vertex)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _SumOfBags.apply(grad, ctx.vertex, ctx.bags), None, None


class _SumOfBags(torch.autograd.Function):
    """Sums over the arcs that have a vertex at one of their ends."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, vertex: Tensor, bags: Bags) -> Tensor:
        ctx.vertex, ctx.bags = vertex, bags
        pointer, arcs = bags
        return torch.embedding_bag(h.contiguous(), arcs, pointer, False, 0, False, None, True)[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, ctx.vertex, ctx.bags), None, None
