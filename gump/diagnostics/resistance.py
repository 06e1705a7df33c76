"""How hard it is to get from one vertex to another, by every path at once."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import cg, splu
from torch import Tensor

from gump.diagnostics.adjacency import sparse_adjacency
from gump.linalg.spectrum import effective_resistance as all_resistances

Floats = NDArray[np.float64]

EXACT = 1024
"""Vertices up to which everything is computed with dense matrices, without a tolerance."""

MAX_STEPS = 1000
"""Conjugate-gradient steps after which a system is factorized instead."""


def effective_resistance(edge_index: Tensor, num_nodes: int, pairs: Tensor) -> Tensor:
    r"""Computes the resistance that an electric current from one vertex to another meets, if every edge has resistance one.

    .. math::
        R_{uv} = (\mathbf{e}_u - \mathbf{e}_v)^{\top} \mathbf{L}^{+} (\mathbf{e}_u - \mathbf{e}_v), \quad \mathbf{L} = \mathbf{D} - \mathbf{A}

    The length of the path where there is one path only, less where several share the load, infinite between components. A large value is
    a bound on how little a message-passing network can learn about one vertex from the other (`Black et al. 2023
    <https://arxiv.org/abs/2302.06835>`_).

    Up to 1,024 vertices the pseudo-inverse is computed. Above, every pair is a linear system, solved by conjugate gradients to a relative
    residual of 1e-10. They are fast where a graph mixes fast. Where 1,000 steps do not suffice the Laplacian is factorized, which is
    cheap on just such graphs, since what mixes slowly falls apart at small cuts.

    Args:
        edge_index: The edges, see :func:`gump.diagnostics.adjacency.sparse_adjacency`.
        num_nodes: The number of vertices.
        pairs: Two rows of vertices.

    Shapes:
        - **pairs:** :math:`(2, P)`
        - **output:** :math:`(P)`, in float64

    Example:
        >>> triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> effective_resistance(triangle, 3, torch.tensor([[0, 0], [1, 0]])).round(decimals=6)
        tensor([0.6667, 0.0000], dtype=torch.float64)
    """
    return torch.from_numpy(resistances(sparse_adjacency(edge_index, num_nodes), checked_pairs(pairs, num_nodes)))


def commute_time(edge_index: Tensor, num_nodes: int, pairs: Tensor) -> Tensor:
    r"""Computes how many steps a random walk takes on average from one vertex to another and back.

    .. math::
        C_{uv} = 2 m R_{uv}

    with the number :math:`m` of edges of the component that holds both vertices; infinite between components. It bounds over-squashing
    from below (`Di Giovanni et al. 2023 <https://arxiv.org/abs/2302.02941>`_).

    Args:
        edge_index: The edges, see :func:`gump.diagnostics.adjacency.sparse_adjacency`.
        num_nodes: The number of vertices.
        pairs: Two rows of vertices.

    Shapes:
        - **pairs:** :math:`(2, P)`
        - **output:** :math:`(P)`, in float64

    Example:
        >>> commute_time(torch.tensor([[0, 1], [1, 2]]), 3, torch.tensor([[0], [2]])).round(decimals=6)
        tensor([8.], dtype=torch.float64)
    """
    adjacency, ends = sparse_adjacency(edge_index, num_nodes), checked_pairs(pairs, num_nodes)
    component = connected_components(adjacency, directed=False)[1]
    volume = np.bincount(component, weights=adjacency.sum(1))
    # a vertex by itself has volume zero, and resistances of zero and infinity alone
    steps = np.maximum(volume[component[ends[0]]], 1)
    return torch.from_numpy(steps * resistances(adjacency, ends))


def resistances(adjacency: csr_array, pairs: NDArray[np.int64], exact: int = EXACT) -> Floats:
    """Computes what :func:`effective_resistance` does, from a matrix.

    Args:
        adjacency: Zeros and ones, symmetric, without diagonal; not checked.
        pairs: Two rows of vertices.
        exact: Vertices up to which the pseudo-inverse is computed.
    """
    source, target = pairs
    if adjacency.shape[0] <= exact:
        return all_resistances(adjacency.toarray())[source, target] if adjacency.shape[0] else np.empty(0)
    component = connected_components(adjacency, directed=False)[1]
    resistance = np.where(component[source] == component[target], 0.0, np.inf)
    for label in np.unique(component[source[(source != target) & (resistance == 0)]]):
        vertices = np.flatnonzero(component == label)
        own = np.flatnonzero((component[source] == label) & (component[target] == label) & (source != target))
        ends = np.searchsorted(vertices, source[own]), np.searchsorted(vertices, target[own])
        resistance[own] = _solved(adjacency[vertices][:, vertices], *ends)
    return resistance


def _solved(adjacency: csr_array, source: NDArray[np.int64], target: NDArray[np.int64]) -> Floats:
    """The resistances of a connected graph: the voltage between two vertices through which a unit of current flows."""
    degree = adjacency.sum(1)
    grounded = (diags_array(degree) - adjacency).tocsc()[1:, 1:]  # without vertex 0, whose voltage is zero
    factors, scale = None, diags_array(1 / degree[1:])
    resistance = np.zeros(len(source))
    for i, (u, v) in enumerate(zip(source, target, strict=True)):
        current = np.zeros(len(degree))
        current[u], current[v] = 1, -1
        info = 1
        if factors is None:
            voltage, info = cg(grounded, current[1:], rtol=1e-10, maxiter=MAX_STEPS, M=scale)
        if info:
            factors = splu(grounded) if factors is None else factors
            voltage = factors.solve(current[1:])
        resistance[i] = current[1:] @ voltage
    return resistance


def checked_pairs(pairs: Tensor, num_nodes: int) -> NDArray[np.int64]:
    """Refuses what is not two rows of vertices."""
    if pairs.dim() != 2 or pairs.size(0) != 2 or pairs.dtype != torch.long:
        raise ValueError(f"'pairs' must be two rows of vertices of type torch.long (got {list(pairs.shape)} of {pairs.dtype})")
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < num_nodes:
        raise ValueError(f"'pairs' must name vertices from 0 to {num_nodes - 1} (got {pairs.min()} to {pairs.max()})")
    return pairs.cpu().numpy()
