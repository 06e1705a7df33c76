"""Where it comes from what is read at a vertex."""

from __future__ import annotations

import torch
from torch import Tensor

from gump.diagnostics.row_energy import check_operator
from gump.line_graph import EulerianLineGraph


def origin_shares(operator: Tensor, line_graph: EulerianLineGraph, vertex: int, depth: int) -> Tensor:
    r"""Computes which share of what is read at a vertex comes from every vertex, after every number of steps.

    .. math::
        S_{L,u} = \sum_{a \ni u} r_a^2 \Big/ \sum_{a} r_a^2, \quad
        \mathbf{r}^{\top} = \frac{1}{d_v} \sum_{a = (w, v)} \mathbf{e}_a^{\top} \mathbf{U}^L

    GUMP reads the mean of the arcs that end at a vertex :math:`v`, in a directed graph of those that were in the input. If the states of
    all arcs are independent noise but for what the arcs of :math:`u` hold, :math:`S_{L,u}` is how much of what is read there is that
    signal. Every arc holds the features of both its ends and counts for both, so that a row sums to two in a graph without self-loops. The
    mean over :math:`d` arcs can make a share small even where :func:`gump.diagnostics.reach` is large: at a clique of :math:`m` vertices
    behind a path, Grover's coin hands on :math:`2 / m` of an amplitude to each of them, and the share that is read at one of them is
    :math:`4 / (m^2 (m - 1))`. Weights and nonlinearities, which may do better, are left out.

    Args:
        operator: The matrix of one step over the arcs, as :meth:`gump.nn.GUMP.propagation_matrix` returns it.
        line_graph: The line graph whose arcs these are.
        vertex: The vertex :math:`v`.
        depth: The largest number of steps.

    Shapes:
        - **operator:** :math:`(A, A)`
        - **output:** :math:`(\mathrm{depth} + 1, N)`

    Example:
        On a path of three vertices the middle one hears both ends, and an end hears the other after two steps:

        >>> from gump.nn import GUMP
        >>> edge_index = torch.tensor([[0, 1], [1, 2]])
        >>> operator = GUMP(1, 2, 1, coin="grover").eval().propagation_matrix(torch.ones(3, 1), edge_index)
        >>> origin_shares(operator, EulerianLineGraph.from_edge_index(edge_index, 3), vertex=0, depth=2)
        tensor([[1., 1., 0.],
                [1., 1., 0.],
                [0., 1., 1.]])
    """
    check_operator(operator, depth)
    arcs, size = line_graph.arcs.to(operator.device), operator.size(0)
    if arcs.size(1) != size:
        raise ValueError(f"'line_graph' must have the {size} arcs of 'operator' (got {arcs.size(1)})")
    if not 0 <= vertex < line_graph.num_nodes:
        raise ValueError(f"'vertex' must be from 0 to {line_graph.num_nodes - 1} (got {vertex})")
    row = ((arcs[1] == vertex) & line_graph.listed.to(operator.device)).to(operator.dtype)
    if not row.any():
        raise ValueError(f"'vertex' must have an edge that ends there (got {vertex}, which has none)")
    transposed, shares = operator.t(), []
    for step in range(depth + 1):
        row = transposed @ row if step else row / row.sum()
        energy = row.abs().square()
        of_vertices = energy.new_zeros(line_graph.num_nodes).index_add(0, arcs[0], energy)
        of_vertices.index_add_(0, arcs[1], energy * (arcs[0] != arcs[1]))
        shares.append(of_vertices / energy.sum())
    return torch.stack(shares)
