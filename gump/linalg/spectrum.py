"""What the eigenvalues of a Laplacian say about a matrix of weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components


def spectral_gap(adjacency: ArrayLike) -> float:
    r"""Computes how well connected a graph is: the second smallest eigenvalue of its normalized Laplacian.

    .. math::
        \lambda_2(\mathbf{L}), \quad \mathbf{L} = \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}

    Zero if and only if the graph is disconnected; a clique of :math:`n` vertices has the largest, :math:`n / (n - 1)`. The row of a
    vertex without edges is zero (`Chung <https://mathweb.ucsd.edu/~fan/research/revised.html>`_), so that such a vertex counts as
    the component that it is.

    Args:
        adjacency: Weights of at least two vertices, symmetric, not negative, zero on the diagonal.

    Shapes:
        - **input:** :math:`(n, n)`

    Example:
        >>> round(spectral_gap([[0, 1, 1], [1, 0, 1], [1, 1, 0]]), 6)
        1.5
    """
    weights = check_adjacency(adjacency)
    if len(weights) < 2:
        raise ValueError(f"'adjacency' must have at least two rows for a second eigenvalue (got {len(weights)})")
    degree = weights.sum(1)
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    laplacian = np.diag((degree > 0).astype(float)) - scale[:, None] * weights * scale
    return float(max(np.linalg.eigvalsh(laplacian)[1], 0))


def laplacian_pseudo_inverse(adjacency: ArrayLike) -> NDArray[np.float64]:
    r"""Computes the pseudo-inverse of the Laplacian :math:`\mathbf{L} = \mathbf{D} - \mathbf{A}`.

    The null space of :math:`\mathbf{L}` is known, it holds what is constant on every component. With the projector
    :math:`\mathbf{J}` onto it the pseudo-inverse is a plain inverse, :math:`\mathbf{L}^{+} = (\mathbf{L} + \mathbf{J})^{-1} -
    \mathbf{J}`, without a cut-off for small eigenvalues.

    Args:
        adjacency: Weights, symmetric, not negative, zero on the diagonal.

    Shapes:
        - **input:** :math:`(n, n)`
        - **output:** :math:`(n, n)`

    Example:
        >>> laplacian_pseudo_inverse([[0, 1], [1, 0]]).tolist()
        [[0.25, -0.25], [-0.25, 0.25]]
    """
    weights = check_adjacency(adjacency)
    together = same_component(weights)
    projector = together / together.sum(1)
    inverse = np.linalg.inv(np.diag(weights.sum(1)) - weights + projector) - projector
    return (inverse + inverse.T) / 2


def effective_resistance(adjacency: ArrayLike) -> NDArray[np.float64]:
    r"""Computes the effective resistance between any two vertices of a graph whose edges are conductors.

    .. math::
        R_{uv} = (\mathbf{e}_u - \mathbf{e}_v)^{\top} \mathbf{L}^{+} (\mathbf{e}_u - \mathbf{e}_v)

    A metric: small where many short paths lead from one vertex to the other, infinite between components.

    Args:
        adjacency: Conductances, symmetric, not negative, zero on the diagonal.

    Shapes:
        - **input:** :math:`(n, n)`
        - **output:** :math:`(n, n)`

    Example:
        >>> effective_resistance([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).round(6).tolist()
        [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    weights = check_adjacency(adjacency)
    inverse = laplacian_pseudo_inverse(weights)
    diagonal = inverse.diagonal()
    return np.where(same_component(weights), diagonal[:, None] + diagonal - 2 * inverse, np.inf)


def same_component(adjacency: NDArray[np.float64] | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Says for any two vertices whether a path leads from one to the other."""
    component = connected_components(adjacency, directed=False)[1] if len(adjacency) else np.empty(0)
    together: NDArray[np.bool_] = component[:, None] == component
    return together


def check_adjacency(adjacency: ArrayLike) -> NDArray[np.float64]:
    """Refuses what is not the adjacency matrix of an undirected graph without self-loops, and returns it in float64."""
    weights = np.asarray(adjacency, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        raise ValueError(f"'adjacency' must be a square matrix (got shape {list(weights.shape)})")
    if not (weights >= 0).all() or not np.isfinite(weights).all():
        raise ValueError("'adjacency' must not be negative, infinite or NaN (got such entries)")
    if (weights != weights.T).any():
        raise ValueError("'adjacency' must be symmetric (got a directed graph); pass np.maximum(adjacency, adjacency.T)")
    if weights.diagonal().any():
        raise ValueError("'adjacency' must be zero on the diagonal (got self-loops)")
    return weights
