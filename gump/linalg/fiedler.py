"""How fast a walk mixes, and how one edge changes that: the second eigenpair of the normalized Laplacian."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

Floats = NDArray[np.float64]

_DENSE = 512  # vertices up to which all eigenvectors are cheaper than a few
_TOLERANCE = 1e-9  # numbers closer than this count as equal: rounding shall not choose


def fiedler_pair(adjacency: Floats, seed: int = 0) -> tuple[float, Floats, NDArray[np.int64]]:
    r"""Finds the smallest non-zero eigenvalue of the normalized Laplacian, with its eigenvector.

    .. math::
        (\mathbf{I} - \mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2})\, \mathbf{f} = \lambda \mathbf{f}, \quad \lVert\mathbf{f}\rVert = 1

    Each connected component has one zero eigenvalue; its next one is its gap. The component with the smallest gap is the slowest,
    and the vector lives on it alone (on the first of them, where several are equally slow). The sign is arbitrary.

    The eigenvector of a repeated eigenvalue is not unique: then a random vector is projected onto the eigenspace, which depends on
    the seed and on the order of the vertices but not on the routine that found the eigenspace. A component of more than 512 vertices
    is left to an iterative routine that starts at the random vector and may return any vector of that space.

    Args:
        adjacency: Symmetric matrix of non-negative weights without diagonal.
        seed: Chooses the vector of a repeated eigenvalue.

    Returns:
        The eigenvalue, the entries of the vector on the slowest component, and the vertices of that component, ascending. Zero, and
        two empty arrays, where there is no edge.

    Shapes:
        - **adjacency:** :math:`(n, n)`
        - **vector, vertices:** :math:`(c)`

    Example:
        >>> import numpy as np
        >>> gap, vector, vertices = fiedler_pair(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
        >>> round(gap, 6), np.abs(vector).round(3).tolist()
        (1.0, [0.707, 0.0, 0.707])
    """
    num_components, label = connected_components(csr_array(adjacency), directed=False)
    start = np.random.default_rng(seed).standard_normal(len(adjacency))
    slowest: tuple[float, Floats, NDArray[np.int64]] = (np.inf, np.empty(0), np.empty(0, dtype=np.int64))
    sizes = np.bincount(label, minlength=num_components)
    for component in np.flatnonzero(sizes > 1):
        vertices = np.flatnonzero(label == component)
        gap, vector = _pair_of_component(adjacency[np.ix_(vertices, vertices)], start[vertices])
        if gap < slowest[0] - _TOLERANCE:
            slowest = gap, vector, vertices
    return slowest if slowest[2].size else (0.0, *slowest[1:])


def second_pair(
    normalized: csr_array, root: Floats, start: Floats, tolerance: float = 0.0, max_restarts: int | None = None
) -> tuple[float, Floats]:
    r"""Finds the second eigenpair of the normalized Laplacian of a connected graph without a dense matrix.

    By Lanczos iteration, and where that does not converge by factorizing the Laplacian: such a graph mixes slowly, so it falls apart at
    small cuts, and its factors are sparse. Of a repeated eigenvalue any vector may come, and the gap may be negative by rounding.

    Args:
        normalized: The matrix :math:`\mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2}`.
        root: The roots of the degrees.
        start: The vector at which the iteration starts.
        tolerance: The relative error that ends it; zero for machine precision.
        max_restarts: After how many restarts it is given up, ten times the number of vertices by default; with zero it is not tried.

    Shapes:
        - **normalized:** :math:`(n, n)`
        - **root, start, vector:** :math:`(n)`

    Example:
        >>> import numpy as np
        >>> ring = np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)
        >>> gap, vector = second_pair(csr_array(ring / 2), np.full(4, 2**0.5), np.arange(4.0))
        >>> round(gap, 6)
        1.0
    """
    size, constant = len(root), root / np.linalg.norm(root)

    def flipped(x: Floats) -> Floats:  # 2 - L without its kernel: the second smallest eigenvalue of L becomes the largest
        return normalized @ x + x - 2 * constant * (constant @ x)

    if max_restarts != 0:
        operator = LinearOperator((size, size), matvec=flipped, dtype=np.float64)
        with contextlib.suppress(ArpackNoConvergence):
            values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=tolerance, maxiter=max_restarts)
            return float(2 - values[0]), vectors[:, 0]
    laplacian = diags_array(np.ones(size)) - normalized
    values, vectors = eigsh(laplacian.tocsc(), k=2, sigma=-1e-6, v0=start)
    return float(values.max()), vectors[:, values.argmax()]


def flip_edges(
    adjacency: NDArray[np.bool_],
    num_edges: int,
    choose: Callable[[float, Floats, NDArray[np.bool_]], tuple[int, int] | None],
    seed: int = 0,
) -> NDArray[np.bool_]:
    """Adds or deletes edges one at a time, each as the second eigenpair before it says.

    Every step is about the slowest component, the one that :func:`fiedler_pair` finds. A pair of its vertices that was not joined is
    joined, one that was is parted.

    Args:
        adjacency: Symmetric matrix without diagonal.
        num_edges: The number of steps, at most.
        choose: Takes the gap, the eigenvector and the adjacency matrix of the slowest component, and returns two of its rows; None to
            end.
        seed: Chooses the vector of a repeated eigenvalue.

    Shapes:
        - **adjacency, output:** :math:`(n, n)`

    Example:
        >>> import numpy as np
        >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
        >>> flip_edges(path, 1, lambda gap, vector, adjacency: (0, 2)).astype(int).tolist()
        [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    """
    adjacency = adjacency.copy()
    for _ in range(num_edges):
        gap, vector, vertices = fiedler_pair(adjacency.astype(np.float64), seed)
        pair = choose(gap, vector, adjacency[np.ix_(vertices, vertices)])
        if pair is None:
            break
        u, v = vertices[list(pair)]
        adjacency[u, v] = adjacency[v, u] = not adjacency[u, v]
    return adjacency


def gap_change(gap: float, vector: Floats) -> Floats:
    r"""Estimates for every pair of vertices how the gap changes per unit of weight that is put on the edge between them.

    .. math::
        \Delta_{uv} = (f_u - f_v)^2 - \lambda (f_u^2 + f_v^2)

    With :math:`\mathbf{f}` divided by the roots of the degrees this is the derivative of the eigenvalue, where that is simple.

    Args:
        gap: The eigenvalue.
        vector: Its eigenvector.

    Shapes:
        - **vector:** :math:`(c)`
        - **output:** :math:`(c, c)`

    Example:
        >>> import numpy as np
        >>> gap_change(0.5, np.array([1.0, -1.0]))
        array([[-1.,  3.],
               [ 3., -1.]])
    """
    square = vector**2
    return (vector[:, None] - vector) ** 2 - gap * (square[:, None] + square)


def best_pair(scores: Floats, candidates: NDArray[np.bool_]) -> tuple[int, int] | None:
    """Finds the pair :math:`u < v` with the largest score among the candidates, the first of them where scores differ by rounding only.

    Args:
        scores: Symmetric matrix of scores.
        candidates: Symmetric matrix that says which pairs may be chosen; its diagonal is not looked at.

    Returns:
        The pair, or None where there is no candidate.

    Example:
        >>> import numpy as np
        >>> best_pair(np.ones((3, 3)), np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=bool))
        (0, 2)
    """
    rows, columns = np.nonzero(np.triu(candidates, 1))
    if not rows.size:
        return None
    values = scores[rows, columns]
    first = int(np.argmax(values >= values.max() - _TOLERANCE * np.abs(values).max()))
    return int(rows[first]), int(columns[first])


def _pair_of_component(adjacency: Floats, start: Floats) -> tuple[float, Floats]:
    """The second eigenpair of a connected graph, with the vector that the start leads to where there are several."""
    root = np.sqrt(adjacency.sum(axis=1))
    if len(adjacency) <= _DENSE:
        values, vectors = np.linalg.eigh(np.eye(len(adjacency)) - adjacency / root / root[:, None])
        space = vectors[:, np.flatnonzero(values <= values[1] + _TOLERANCE)[1:]]
        vector = space @ (start @ space)
        return float(values[1]), vector / np.linalg.norm(vector)
    return second_pair(csr_array(adjacency / root / root[:, None]), root, start)
