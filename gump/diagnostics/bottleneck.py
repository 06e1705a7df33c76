"""Whether this graph has a bottleneck at all."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from gump.diagnostics.adjacency import sparse_adjacency
from gump.diagnostics.counted import counted
from gump.diagnostics.cut import Cut, narrowest_cuts
from gump.diagnostics.resistance import EXACT, resistances
from gump.linalg.curvature import curvature_of_edges, forman_of_counts
from gump.linalg.fiedler import fiedler_pair, second_pair
from gump.linalg.spectrum import effective_resistance as all_resistances

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

SEARCHED = 5 * 10**7
"""Vertices and arcs that are visited at most to find the diameter of a large graph; a second or two."""

SLOW = 1000
"""The diameter from which on an iteration for the spectral gap is not tried: a walk takes so long to cross the graph."""

NUM_SAMPLED = 1000
"""Edges of a large graph whose curvature is computed."""


@dataclass(frozen=True)
class Bottleneck:
    r"""What stands between the vertices of a graph. All but the first three numbers are about its largest component.

    Args:
        num_nodes: The number of vertices.
        num_edges: The number of edges, self-loops not counted.
        num_components: The number of parts between which nothing passes.
        component_nodes: The number of vertices of the largest part.
        component_arcs: The number of its arcs, twice that of its edges.
        diameter: The most hops between two vertices; where a large graph has too many to try, a lower bound.
        diameter_exact: Whether it is more than a bound.
        spectral_gap: The second eigenvalue of the normalized Laplacian: near zero where a walk mixes slowly, 1 to 2 on a clique.
        cut: The worst cut that was found, the one of least conductance. The least possible conductance is between :math:`\lambda / 2` and
            :math:`\sqrt{2 \lambda}`, with the gap :math:`\lambda` (Cheeger's inequality), and so is this one.
        large_cut: The worst that has at least one in twenty vertices on either side; often the same.
        num_bridges: The edges without which the component would fall apart.
        pair: Two vertices as far from each other as any: those with the largest resistance; on a large graph the ends of the longest
            shortest path that was found.
        resistance: The effective resistance between them.
        commute_time: The expected steps of a random walk from one to the other and back.
        min_curvature: The least balanced Forman curvature of an edge: above -2 always, negative where the ends have neighbors that are not
            joined. From a sample of edges it is an upper bound. The verdict does not go by it: it sees no farther than two hops.
        mean_curvature: The mean over edges.
        curvature_edges: How many edges that is; fewer than all on a large graph.
    """

    num_nodes: int
    num_edges: int
    num_components: int
    component_nodes: int
    component_arcs: int
    diameter: int
    diameter_exact: bool
    spectral_gap: float
    cut: Cut
    large_cut: Cut
    num_bridges: int
    pair: tuple[int, int]
    resistance: float
    commute_time: float
    min_curvature: float
    mean_curvature: float
    curvature_edges: int

    @property
    def conductance(self) -> float:
        """See :attr:`gump.diagnostics.Cut.conductance`."""
        return self.cut.conductance

    @property
    def cut_edges(self) -> int:
        """The edges across the worst cut."""
        return self.cut.edges

    @property
    def cut_nodes(self) -> int:
        """The vertices on its smaller side."""
        return self.cut.nodes

    @property
    def crossing_share(self) -> float:
        """See :class:`gump.diagnostics.Cut`."""
        return self.cut.share


def bottleneck(edge_index: Tensor, num_nodes: int | None = None, exact: int = EXACT, seed: int = 0) -> Bottleneck:
    """Measures a graph.

    Up to ``exact`` vertices distances, resistances, gap and curvatures are those of their definitions. Above, resistance is that of the two
    vertices that are farthest apart, the gap is found by Lanczos iteration and curvature on a sample of 1,000 edges. The diameter is exact
    where a second or so of searching from single vertices settles it, as on most graphs of some thousand vertices, and a lower bound
    otherwise. The cut is the best that the second eigenvector or a bridge makes: not the least of all, which is hard to find.

    Args:
        edge_index: The edges, see :func:`gump.diagnostics.adjacency.sparse_adjacency`.
        num_nodes: The number of vertices; by default one more than the largest that occurs.
        exact: The number of vertices of the largest component up to which nothing is estimated.
        seed: Chooses what is sampled, and the vector of a repeated eigenvalue.

    Example:
        >>> ring = torch.stack([torch.arange(12), torch.arange(1, 13) % 12])
        >>> measured = bottleneck(ring)
        >>> measured.diameter, measured.cut_edges, measured.cut_nodes, round(measured.conductance, 6), measured.crossing_share
        (6, 2, 6, 0.166667, 1.0)
    """
    whole = sparse_adjacency(edge_index, num_nodes)
    if whole.nnz == 0:
        raise ValueError(f"'edge_index' must have an edge between two vertices (got none on {counted(whole.shape[0], 'vertex')})")
    num_components, label = connected_components(whole, directed=False)
    vertices = np.flatnonzero(label == np.bincount(label).argmax())
    adjacency = whole[vertices][:, vertices]
    small = len(vertices) <= exact
    pair, distance, known = _farthest(adjacency, small, seed)
    if small:
        resistance = all_resistances(adjacency.toarray())
        worst = (resistance >= resistance.max() * (1 - 1e-9)).argmax()  # the first of those that rounding alone tells apart
        pair = (int(worst) // len(vertices), int(worst) % len(vertices))
        most = float(resistance[pair])
    else:
        most = float(resistances(adjacency, np.array(pair)[:, None], exact)[0])
    gap, vector = _gap_and_vector(adjacency, small, distance, seed)
    num_bridges, cut, large_cut = narrowest_cuts(adjacency, vector, distance, seed)
    curvature = _curvature(adjacency, small, seed)
    return Bottleneck(
        num_nodes=whole.shape[0],
        num_edges=whole.nnz // 2,
        num_components=int(num_components),
        component_nodes=len(vertices),
        component_arcs=int(adjacency.nnz),
        diameter=distance,
        diameter_exact=known,
        spectral_gap=gap,
        cut=cut,
        large_cut=large_cut,
        num_bridges=num_bridges,
        pair=(int(vertices[pair[0]]), int(vertices[pair[1]])),
        resistance=most,
        commute_time=adjacency.nnz * most,
        min_curvature=float(curvature.min()),
        mean_curvature=float(curvature.mean()),
        curvature_edges=len(curvature),
    )


def _farthest(adjacency: csr_array, small: bool, seed: int) -> tuple[tuple[int, int], int, bool]:
    """Two vertices, the hops between them, and whether no others are farther apart.

    A search from a vertex bounds how far any other is from its farthest (`Takes and Kosters 2013 <https://doi.org/10.3390/a6010100>`_). The
    next search is from the farthest vertex that was found, then by turns from one that may be far off and one that may be in the middle,
    until no vertex may be an end of a longer way, or the work is done that was allowed.
    """
    if small:
        hops = dijkstra(adjacency, unweighted=True)
        source, target = np.unravel_index(hops.argmax(), hops.shape)
        return (int(source), int(target)), int(hops.max()), True
    size = adjacency.shape[0]
    upper, lower, pair, most = np.full(size, np.inf), np.zeros(size), (0, 0), -1.0
    vertex = int(np.random.default_rng(seed).integers(size))
    allowed = max(SEARCHED // (adjacency.nnz + size), 2)
    for search in itertools.count(1):
        hops = dijkstra(adjacency, unweighted=True, indices=vertex)
        far = int(hops.argmax())
        upper, lower = np.minimum(upper, hops + hops[far]), np.maximum(lower, np.maximum(hops, hops[far] - hops))
        upper[vertex] = hops[far]
        sweeping = hops[far] > most
        if sweeping:
            pair, most = (vertex, far), hops[far]
        open_ = np.flatnonzero(upper > most)
        if not open_.size or (search >= allowed and not sweeping):
            return pair, int(most), not open_.size
        vertex = far if sweeping else int(open_[upper[open_].argmax() if search % 2 else lower[open_].argmin()])
    raise AssertionError


def _gap_and_vector(adjacency: csr_array, small: bool, diameter: int, seed: int) -> tuple[float, Floats]:
    """The second eigenpair of the normalized Laplacian of a connected graph."""
    if small:
        return fiedler_pair(adjacency.toarray(), seed)[:2]
    root = np.sqrt(adjacency.sum(1))
    normalized = diags_array(1 / root) @ adjacency @ diags_array(1 / root)
    start = np.random.default_rng(seed).standard_normal(len(root))
    gap, vector = second_pair(normalized, root, start, tolerance=1e-9, max_restarts=200 if diameter < SLOW else 0)
    return max(gap, 0.0), vector


def _curvature(adjacency: csr_array, small: bool, seed: int) -> Floats:
    """The balanced Forman curvature of all edges, or of some."""
    source, target = (ends.astype(np.int64) for ends in adjacency.nonzero())
    source, target = source[source < target], target[source < target]
    if small:
        dense = adjacency.toarray() > 0
        chunks = np.array_split(np.arange(len(source)), 1 + len(source) * len(dense) // 2**22)
        return np.concatenate([curvature_of_edges(dense, source[chunk], target[chunk]) for chunk in chunks])
    chosen = np.random.default_rng(seed).permutation(len(source))[:NUM_SAMPLED]
    adjacency.sort_indices()
    return np.array([_curvature_of_edge(adjacency, int(source[i]), int(target[i])) for i in chosen])


def _curvature_of_edge(adjacency: csr_array, x: int, y: int) -> float:
    """The same for one edge, from the neighbors of its ends alone; those of the end that has more are looked up and not gone through."""
    of_x, of_y = sorted((_neighbors(adjacency, v) for v in (x, y)), key=len, reverse=True)
    if len(of_y) == 1:
        return 0.0
    shared = _contains(of_x, of_y)
    own_y = np.setdiff1d(of_y[~shared], [x, y], assume_unique=True)
    corner = np.repeat(np.arange(len(own_y)), adjacency.indptr[own_y + 1] - adjacency.indptr[own_y])
    opposite = adjacency[own_y].indices
    closes = _contains(of_x, opposite) & ~_contains(of_y, opposite) & (opposite != x) & (opposite != y)  # 4-cycles without diagonal
    at_y, at_x = np.bincount(corner[closes]), np.unique(opposite[closes], return_counts=True)[1]
    corners, most = (at_y > 0).sum() + len(at_x), max(at_x.max(initial=0), at_y.max(initial=0))
    return float(forman_of_counts(len(of_x), len(of_y), shared.sum(), corners, most))


def _neighbors(adjacency: csr_array, vertex: int) -> NDArray[np.integer]:
    return adjacency.indices[adjacency.indptr[vertex] : adjacency.indptr[vertex + 1]]


def _contains(ordered: NDArray[np.integer], values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which of the values are in an array that is in order."""
    place = np.searchsorted(ordered, values)
    return ordered[np.minimum(place, len(ordered) - 1)] == values
