"""What repeated propagation leaves of the influence on a state: Theorems 1 and 2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from gump.line_graph import EulerianLineGraph


def row_energy(operator: Tensor, depth: int, targets: Tensor | None = None) -> Tensor:
    r"""Computes the influence of a typical source on a target after every number of steps up to a depth.

    .. math::
        I_i(L; \mathbf{A}) = \frac{1}{N} \sum_{s=1}^{N} |(\mathbf{A}^L)_{is}|^2 = \frac{1}{N} \lVert \mathbf{e}_i^{\top} \mathbf{A}^L \rVert_2^2

    :math:`N` is the side of the operator: the number of *arcs* for GUMP's, as
    :meth:`gump.nn.GUMP.propagation_matrix` returns it, the number of vertices for a normalized adjacency matrix. If the operator is
    unitary, :math:`N I_i = 1` at every depth (Theorem 1 of `Graph Unitary Message Passing
    <https://openreview.net/forum?id=dvNMDkSBIA>`_). That says nothing about where the energy is: see :func:`energy_by_distance`.

    Args:
        operator: The matrix of one propagation step, dense or sparse, real or complex.
        depth: The largest number of steps.
        targets: The rows to look at, by default all, which takes :math:`N^2` numbers.

    Shapes:
        - **operator:** :math:`(N, N)`
        - **output:** :math:`(\mathrm{depth} + 1, \mathrm{num\_targets})`

    Example:
        >>> row_energy(torch.tensor([[0.0, 1.0], [0.5, 0.0]]), depth=2)
        tensor([[0.5000, 0.5000],
                [0.5000, 0.1250],
                [0.1250, 0.1250]])
    """
    check_operator(operator, depth)
    size = operator.size(0)
    targets = torch.arange(size, device=operator.device) if targets is None else _checked_targets(targets, size).to(operator.device)
    rows = torch.zeros(size, targets.numel(), dtype=operator.dtype, device=operator.device)  # (e_i^T A^L)^T, a column per target
    rows[targets, torch.arange(targets.numel(), device=operator.device)] = 1
    transposed = operator.t()
    energies = [rows.abs().square().sum(0) / size]
    for _ in range(depth):
        rows = transposed @ rows
        energies.append(rows.abs().square().sum(0) / size)
    return torch.stack(energies)


class SpectralRowEnergy(NamedTuple):
    r"""The row energies of a normalized adjacency matrix, from its spectrum, with the bounds of Theorem 2.

    Args:
        energy: :math:`I_i(L) = \tfrac{1}{N} v_{1,i}^2 + \tfrac{1}{N} \sum_{j \ge 2} v_{j,i}^2 \lambda_j^{2L}`.
        stationary: Its part that stays, :math:`\tfrac{1}{N} v_{1,i}^2`.
        lower: :math:`\tfrac{1}{N} v_{1,i}^2 + \tfrac{1}{N} \alpha_i c^{2L}`, where :math:`\alpha_i = \sum_{|\lambda_j| = c} v_{j,i}^2`.
        upper: :math:`\tfrac{1}{N} v_{1,i}^2 + \tfrac{1}{N} c^{2L}`.
        rate: The largest modulus :math:`c` of an eigenvalue but the first.

    Shapes:
        - **energy, lower, upper:** :math:`(\mathrm{depth} + 1, N)`
        - **stationary:** :math:`(N)`
    """

    energy: Tensor
    stationary: Tensor
    lower: Tensor
    upper: Tensor
    rate: float


def spectral_row_energy(edge_index: Tensor, num_nodes: int, depth: int, self_loops: bool = False) -> SpectralRowEnergy:
    r"""Computes the row energies of :math:`\hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}` exactly, with both bounds of Theorem 2.

    The theorem needs :math:`1 = \lambda_1 > |\lambda_2|`, which holds if and only if the graph is connected and not bipartite; others
    are refused. With ``self_loops``, as GCN has them, no graph is bipartite.

    Args:
        edge_index: The edges, either orientation of which counts; duplicates count once.
        num_nodes: The number of vertices.
        depth: The largest number of steps.
        self_loops: Whether every vertex gets a self-loop first.

    Example:
        On a triangle the eigenvalues are 1, -1/2 and -1/2, so that the lower bound is met:

        >>> triangle = spectral_row_energy(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, depth=1)
        >>> round(triangle.rate, 6), torch.allclose(triangle.energy, triangle.lower)
        (0.5, True)
        >>> triangle.energy[1], triangle.upper[1]
        (tensor([0.1667, 0.1667, 0.1667], dtype=torch.float64), tensor([0.1944, 0.1944, 0.1944], dtype=torch.float64))
    """
    if depth < 0:
        raise ValueError(f"'depth' must not be negative (got {depth})")
    source, target = EulerianLineGraph.from_edge_index(edge_index.cpu(), num_nodes).arcs.numpy()
    adjacency = np.zeros((num_nodes, num_nodes))
    adjacency[source, target] = 1
    if self_loops:
        np.fill_diagonal(adjacency, 1)
    _check_theorem(adjacency)
    scale = 1 / np.sqrt(adjacency.sum(1))
    values, vectors = torch.linalg.eigh(torch.from_numpy(scale[:, None] * adjacency * scale))
    values, squares = values.flip(0), vectors.flip(1).square()
    modulus, steps = values[1:].abs(), torch.arange(depth + 1, dtype=torch.float64)[:, None]
    rate = float(modulus.max()) if num_nodes > 1 else 0.0
    leading = squares[:, 1:][:, modulus > rate - 1e-9].sum(1)
    decay = rate ** (2 * steps)
    stationary = squares[:, 0] / num_nodes
    energy = stationary + modulus ** (2 * steps) @ squares[:, 1:].t() / num_nodes
    return SpectralRowEnergy(energy, stationary, stationary + leading * decay / num_nodes, stationary + decay / num_nodes, rate)


def check_operator(operator: Tensor, depth: int) -> None:
    """Refuses what is not a matrix that can be applied again and again."""
    if operator.dim() != 2 or operator.size(0) != operator.size(1):
        raise ValueError(f"'operator' must be a square matrix (got {list(operator.shape)})")
    if not operator.is_floating_point() and not operator.is_complex():
        raise ValueError(f"'operator' must hold floating-point or complex numbers (got {operator.dtype}); pass operator.double()")
    if depth < 0:
        raise ValueError(f"'depth' must not be negative (got {depth})")


def _checked_targets(targets: Tensor, size: int) -> Tensor:
    """Refuses what does not name rows."""
    if targets.dim() != 1 or targets.dtype != torch.long:
        raise ValueError(f"'targets' must be a list of rows of type torch.long (got {list(targets.shape)} of {targets.dtype})")
    if targets.numel() and not 0 <= int(targets.min()) <= int(targets.max()) < size:
        raise ValueError(f"'targets' must name rows from 0 to {size - 1} (got {targets.min()} to {targets.max()})")
    return targets


def _check_theorem(adjacency: NDArray[np.float64]) -> None:
    """Refuses graphs on which a second eigenvalue has modulus one."""
    if not adjacency.any():
        raise ValueError("'edge_index' must have an edge (got none): without one nothing is normalized")
    components = connected_components(adjacency)[0]
    if components > 1:
        raise ValueError(
            f"the graph must be connected (got {components} components): each has an eigenvalue 1, and Theorem 2 needs a single one"
        )
    twice = np.block([[np.zeros_like(adjacency), adjacency], [adjacency, np.zeros_like(adjacency)]])
    if connected_components(twice)[0] > 1:  # a connected graph is bipartite if and only if its double cover falls apart
        raise ValueError(
            "the graph must not be bipartite (got one without odd cycles): its eigenvalue -1 never decays; pass self_loops=True for the "
            "matrix that GCN multiplies with"
        )
