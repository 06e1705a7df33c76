"""How much an edge is a bottleneck."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gump.linalg.spectrum import check_adjacency

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def balanced_forman(adjacency: ArrayLike) -> Floats:
    r"""Computes the balanced Forman curvature of every edge: negative where an edge is a bottleneck, positive inside a cluster.

    From `"Understanding over-squashing and bottlenecks on graphs via curvature" <https://arxiv.org/abs/2111.14522>`_. With the
    larger degree :math:`d_{\max}` and the smaller :math:`d_{\min}` of the two ends,

    .. math::
        \mathrm{Ric}(x, y) = \frac{2}{d_{\max}} + \frac{2}{d_{\min}} - 2
            + \Big( \frac{2}{d_{\max}} + \frac{1}{d_{\min}} \Big) \, |\triangle|
            + \frac{|\square_x| + |\square_y|}{\gamma \, d_{\max}},

    and zero if :math:`d_{\min} = 1`. :math:`|\triangle|` is the number of common neighbors. :math:`\square_x` holds the neighbors of
    :math:`x` that lie on a 4-cycle through the edge without a diagonal inside, :math:`\square_y` those of :math:`y`, and
    :math:`\gamma` is the largest number of such 4-cycles that one of them lies on; without any the last term is zero.

    Zero where there is no edge, which a curvature may be as well: read it with the adjacency at hand.

    Args:
        adjacency: Zeros and ones, symmetric, zero on the diagonal.

    Shapes:
        - **input:** :math:`(n, n)`
        - **output:** :math:`(n, n)`

    Example:
        >>> balanced_forman(1 - np.eye(4)).round(6)[0].tolist()
        [0.0, 1.333333, 1.333333, 1.333333]
    """
    weights = check_adjacency(adjacency)
    if not np.isin(weights, (0, 1)).all():
        raise ValueError("'adjacency' must hold zeros and ones (got weights); balanced Forman curvature is defined without them")
    edges = weights > 0
    curvature = np.zeros_like(weights)
    source, target = np.triu(edges).nonzero()
    curvature[source, target] = curvature[target, source] = curvature_of_edges(edges, source, target)
    return curvature


def curvature_of_edges(adjacency: NDArray[np.bool_], source: Indices, target: Indices) -> Floats:
    """Computes the balanced Forman curvature of some edges, all at once by two matrix products.

    Args:
        adjacency: A symmetric matrix without diagonal; not checked.
        source: One end of every edge.
        target: The other end.

    Shapes:
        - **input:** :math:`(n, n)`, :math:`(m)`, :math:`(m)`
        - **output:** :math:`(m)`
    """
    weights = adjacency.astype(np.float32)  # counts are exact up to 2 ** 24
    degree = adjacency.sum(1)
    common = adjacency[source] & adjacency[target]  # [m, n], as all that follow
    own_source, own_target = adjacency[source] & ~common, adjacency[target] & ~common
    rows = np.arange(len(source))
    own_source[rows, target] = own_target[rows, source] = False
    cycles_source = np.where(own_source, own_target.astype(np.float32) @ weights, 0)
    cycles_target = np.where(own_target, own_source.astype(np.float32) @ weights, 0)
    corners = (cycles_source > 0).sum(1) + (cycles_target > 0).sum(1)
    most = np.maximum(cycles_source.max(1, initial=0), cycles_target.max(1, initial=0))
    return forman_of_counts(degree[source], degree[target], common.sum(1), corners, most)


def curvature_after_adding(adjacency: NDArray[np.bool_], x: int, y: int) -> tuple[Indices, Indices, Floats]:
    r"""Computes what the balanced Forman curvature of one edge becomes with one more edge nearby, for every choice of that edge.

    The choices are the pairs of a vertex in :math:`\{x\} \cup N(x)` and a vertex in :math:`\{y\} \cup N(y)` that no edge joins.
    All are done at once: an edge at :math:`x` or :math:`y` turns a neighbor of the other into a common one, an edge between a
    neighbor of only :math:`x` and one of only :math:`y` closes a 4-cycle, and any other leaves the curvature as it is.

    Args:
        adjacency: A symmetric matrix without diagonal; not checked.
        x: One end of an edge.
        y: The other end.

    Returns:
        One end of every choice, the other end, and the curvature of (x, y) with that edge. Each pair occurs once.
    """
    rows, columns = (
        [end, *np.flatnonzero(adjacency[end] & (np.arange(len(adjacency)) != other))] for end, other in ((x, y), (y, x))
    )
    i, j = np.array(rows)[:, None], np.array(columns)[None, :]
    own_i, own_j = ~adjacency[y, i], ~adjacency[x, j]  # adjacent to one end alone
    own_i[0], own_j[:, 0] = False, False  # x and y themselves
    cycles = (adjacency[i, j] & own_i & own_j).astype(np.intp)  # 4-cycles without diagonal, [1 + d_x - 1, 1 + d_y - 1]
    degree_x, degree_y, triangles = len(rows), len(columns), int((adjacency[x] & adjacency[y]).sum())
    at_i, at_j = cycles.sum(1, keepdims=True), cycles.sum(0, keepdims=True)
    corners, most = (at_i > 0).sum() + (at_j > 0).sum(), max(at_i.max(), at_j.max())

    shape = np.broadcast_shapes(i.shape, j.shape)
    curvature = np.full(shape, forman_of_counts(degree_x, degree_y, triangles, corners, most))
    closing = forman_of_counts(
        degree_x, degree_y, triangles, corners + (at_i == 0) + (at_j == 0), np.maximum(most, np.maximum(at_i, at_j) + 1)
    )
    curvature = np.where(own_i & own_j, closing, curvature)
    at_x = forman_of_counts(degree_x + 1, degree_y, triangles + 1, *_without_each_column(cycles))
    at_y = forman_of_counts(degree_x, degree_y + 1, triangles + 1, *_without_each_column(cycles.T))
    curvature[0] = np.where(own_j[0], at_x, curvature[0])
    curvature[:, 0] = np.where(own_i[:, 0], at_y, curvature[:, 0])

    twice = ~own_i & ~own_j & (i > j)  # two common neighbors come in both orders
    twice[0], twice[:, 0] = False, False
    chosen = ~adjacency[i, j] & (i != j) & ~twice
    return np.broadcast_to(i, shape)[chosen], np.broadcast_to(j, shape)[chosen], curvature[chosen]


def forman_of_counts(degree_x: Any, degree_y: Any, triangles: Any, corners: Any, most: Any) -> Floats:
    """The definition, from counts that broadcast."""
    high, low = np.maximum(degree_x, degree_y), np.minimum(degree_x, degree_y)
    curvature = 2 / high + 2 / low - 2 + (2 / high + 1 / low) * triangles + corners / (high * np.maximum(most, 1.0))
    return np.where(low > 1, curvature, 0.0)


def _without_each_column(cycles: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """What is left of the corners of 4-cycles, and of the most at one corner, when one column is taken out, for every column."""
    rows_left = cycles.sum(1, keepdims=True) - cycles
    columns = cycles.sum(0)
    columns_left = np.where(np.eye(len(columns), dtype=bool), 0, columns)  # [column that is out, column]
    corners = (rows_left > 0).sum(0) + (columns_left > 0).sum(1)
    return corners, np.maximum(rows_left.max(0), columns_left.max(1))
