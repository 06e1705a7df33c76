"""Propositions 1 to 3 of the paper, as deviations that can be measured. The fourth is :func:`gump.diagnostics.expected_jacobian`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gump.linalg import grover, polar_factor, unitarity_error
from gump.line_graph import EulerianLineGraph


class UnitaryAdjacency(NamedTuple):
    """How far a matrix is from being a unitary adjacency matrix of a line graph.

    Args:
        unitarity: The unitarity error of the whole matrix.
        missing: The number of transitions on which it is zero.
        extra: The number of other entries on which it is not.
    """

    unitarity: float
    missing: int
    extra: int


def unitary_adjacency(line_graph: EulerianLineGraph) -> UnitaryAdjacency:
    r"""Checks Proposition 1, that :math:`\mathsf{L}(G')` has a unitary adjacency matrix, by building one and measuring it.

    At every vertex stands an orthogonal matrix without zeros: the Grover coin or, for degree two, where that has zeros, a rotation by 45
    degrees. All three deviations should be zero, the first up to rounding. The matrix is measured dense and whole, so for graphs of up
    to some thousand arcs.

    Example:
        >>> unitary_adjacency(EulerianLineGraph.from_edge_index(torch.tensor([[0, 0, 0], [1, 2, 3]]))).missing
        0
    """
    like = torch.empty(0, dtype=torch.float64, device=line_graph.device)
    quarter = like.new_tensor([[0.5, -0.5], [0.5, 0.5]]).mul(2**0.5)
    coins = [quarter if g.degree == 2 else grover(g.degree, like) for g in line_graph.groups]
    matrix = assemble([c.expand(g.num_blocks, -1, -1) for c, g in zip(coins, line_graph.groups, strict=True)], line_graph)
    if not matrix.numel():
        return UnitaryAdjacency(0.0, 0, 0)
    admissible = _admissible(line_graph)
    return UnitaryAdjacency(
        float(unitarity_error(matrix)), int((admissible & (matrix == 0)).sum()), int((~admissible & (matrix != 0)).sum())
    )


def equivariance_error(
    blocks: Tensor,
    project: Callable[[Tensor], Tensor] = polar_factor,
    together: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Checks Proposition 2, that the projection follows permutations of rows and of columns.

    .. math::
        \lVert \mathbf{P}_1 \mathsf{U}[\mathbf{B}] \mathbf{P}_2^{\top} - \mathsf{U}[\mathbf{P}_1 \mathbf{B} \mathbf{P}_2^{\top}] \rVert_F / \sqrt{d}

    for each block and two permutations drawn for all of them. Zero up to rounding for the polar factor where blocks have full rank, which
    the proposition assumes, and of order one where ties take the rank away.

    Args:
        blocks: Square matrices.
        project: The projection, blocks in and blocks out.
        together: Whether rows and columns share one permutation, as they do when vertices are relabeled.
        generator: The source of randomness.

    Shapes:
        - **input:** :math:`(*, d, d)`
        - **output:** :math:`(*)`
    """
    degree = blocks.size(-1)
    rows = torch.randperm(degree, generator=generator)
    columns = rows if together else torch.randperm(degree, generator=generator)

    def permuted(matrices: Tensor) -> Tensor:
        return matrices[..., rows, :][..., columns]

    return torch.linalg.matrix_norm(permuted(project(blocks)) - project(permuted(blocks))) / degree**0.5


class SupportError(NamedTuple):
    """How far the projection of a whole matrix is from that of its blocks.

    Args:
        outside: The largest entry of the whole matrix's projection that is not on a transition.
        difference: The largest difference between the projection of the whole and that of the blocks, put together.
        dense_blocks: The largest deviation of the binary adjacency matrix, its rows grouped by incoming and its columns by outgoing arcs,
            from a block-diagonal matrix of ones.
    """

    outside: float
    difference: float
    dense_blocks: float


def support_error(
    blocks: Sequence[Tensor], line_graph: EulerianLineGraph, project: Callable[[Tensor], Tensor] = polar_factor
) -> SupportError:
    r"""Checks Proposition 3, that projecting :math:`\mathbf{A}_w` is projecting its blocks, and so adds no transition.

    The whole matrix is projected by a singular value decomposition that knows nothing of blocks, so for graphs of up to a thousand arcs.
    All three deviations should be zero up to rounding where blocks have full rank.

    Args:
        blocks: For each of the line graph's groups the blocks of that degree.
        line_graph: Their line graph.
        project: What projects the blocks.

    Shapes:
        - **blocks:** :math:`(\mathrm{num\_blocks}, d, d)` each
    """
    if not line_graph.groups:
        raise ValueError("'line_graph' must have an arc (got none)")
    left, _, right = torch.linalg.svd(assemble(blocks, line_graph))
    whole, admissible = left @ right, _admissible(line_graph)
    grouped = admissible[line_graph.reverse].double()  # outgoing arcs are grouped by vertex already, incoming are their reverses
    ones = torch.block_diag(*(torch.ones(g.degree, g.degree).double() for g in line_graph.groups for _ in range(g.num_blocks)))
    return SupportError(
        float(whole[~admissible].abs().amax()) if not bool(admissible.all()) else 0.0,
        float((whole - assemble([project(b) for b in blocks], line_graph)).abs().max()),
        float((grouped - ones.to(grouped.device)).abs().max()),
    )


def assemble(blocks: Sequence[Tensor], line_graph: EulerianLineGraph) -> Tensor:
    """Puts blocks together to the dense matrix over arcs: row ``(u, v)``, column ``(v, w)``."""
    if not blocks:
        return torch.zeros(0, 0, dtype=torch.float64, device=line_graph.device)
    matrix = blocks[0].new_zeros(line_graph.num_arcs, line_graph.num_arcs)
    matrix[tuple(line_graph.transitions())] = torch.cat([b.flatten() for b in blocks])
    return matrix


def _admissible(line_graph: EulerianLineGraph) -> Tensor:
    """Whether the second arc starts where the first ends, for all pairs."""
    return line_graph.arcs[1][:, None] == line_graph.arcs[0]
