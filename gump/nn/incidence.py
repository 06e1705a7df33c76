"""From vertices to their arcs and back, by kernels where there are some."""

from __future__ import annotations

from torch import Tensor

from gump.kernels import runs_kernels
from gump.line_graph import EulerianLineGraph
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
    every = len(range(*arcs.indices(line_graph.num_arcs))) == line_graph.num_arcs
    given = [(x, vertex) for x, vertex in zip((first, second), line_graph.arcs[:, arcs], strict=True) if x is not None]
    if every and _by_kernel(line_graph, *(x for x, _ in given)):
        from gump.kernels.arcs import spread

        return spread(first, second, line_graph.arcs, line_graph.reverse, tuple(line_graph.block_sizes.items()), mask)
    (x, vertex), *others = given
    out = select_rows(x, vertex)
    for x, vertex in others:
        out = out + select_rows(x, vertex)
    return out


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
    return add_rows(h, line_graph.arcs[1], line_graph.num_nodes)


def _by_kernel(line_graph: EulerianLineGraph, *tensors: Tensor) -> bool:
    if not line_graph.groups or not runs_kernels(*tensors):
        return False
    from gump.kernels.tiling import MAX_DEGREE

    return line_graph.max_degree <= MAX_DEGREE
