"""Whether this graph has a bottleneck at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, dijkstra
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from gump.diagnostics.adjacency import sparse_adjacency
from gump.diagnostics.resistance import EXACT, resistances
from gump.linalg.curvature import curvature_of_edges, forman_of_counts
from gump.linalg.fiedler import fiedler_pair
from gump.linalg.spectrum import effective_resistance as all_resistances

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

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
        diameter: The most hops between two vertices; on a large graph a lower bound.
        diameter_exact: Whether it is more than a bound.
        spectral_gap: The second eigenvalue of the normalized Laplacian: near zero where a walk mixes slowly, 1 to 2 on a clique.
        conductance: Of the worst cut that was found: the edges across it over the arcs that leave the smaller side's vertices,
            :math:`\phi = c / \mathrm{vol}(S)`. The least possible is between :math:`\lambda / 2` and :math:`\sqrt{2 \lambda}`, with the gap
            :math:`\lambda` (Cheeger's inequality), and so is this.
        cut_edges: The edges across that cut, :math:`c`. At most :math:`L c` dimensions of a signal cross it in :math:`L` layers, since the
            block of :math:`\mathbf{U}^L` between the two sides has at most that rank, whatever the coins.
        cut_nodes: The number of vertices on the smaller side, the one with fewer arcs.
        cut_arcs: The arcs that leave them, :math:`\mathrm{vol}(S)`.
        num_bridges: The edges without which the component would fall apart.
        pair: Two vertices as far from each other as any: those with the largest resistance; on a large graph the ends of the longest
            shortest path that was found.
        resistance: The effective resistance between them.
        commute_time: The expected steps of a random walk from one to the other and back.
        min_curvature: The least balanced Forman curvature of an edge; a bottleneck is below -1 or so.
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
    conductance: float
    cut_edges: int
    cut_nodes: int
    cut_arcs: int
    num_bridges: int
    pair: tuple[int, int]
    resistance: float
    commute_time: float
    min_curvature: float
    mean_curvature: float
    curvature_edges: int

    @property
    def crossing_share(self) -> float:
        r"""The most that can cross the worst cut on the way of the longest distance, of what equally many vertices of either side hold.

        .. math::
            \min\Big(1,\; \frac{\mathrm{diameter} \cdot c}{m\, \bar{d}}\Big), \quad m = \min(|S|, |\bar{S}|),
            \quad \bar{d} = \max\Big(\frac{\mathrm{vol}(S)}{|S|}, \frac{\mathrm{vol}(\bar{S})}{|\bar{S}|}\Big)

        With as many layers as the diameter at most :math:`L c` dimensions cross. As many vertices as there are on both sides, :math:`m`, hold
        :math:`m \bar{d}` of them on the denser side, one for each arc. On a graph of even density that is :math:`\mathrm{vol}(S)`. It is more
        where one side is dense and the other is not: behind a clique the end of a long path hears little, though the path has few arcs itself.
        The share is one where distance is all that there is to bridge, as on a path, and near zero where much lies close, behind few edges.
        """
        other_nodes, other_arcs = self.component_nodes - self.cut_nodes, self.component_arcs - self.cut_arcs
        density = max(self.cut_arcs / self.cut_nodes, other_arcs / other_nodes)
        return min(1.0, self.diameter * self.cut_edges / (min(self.cut_nodes, other_nodes) * density))


def bottleneck(edge_index: Tensor, num_nodes: int | None = None, exact: int = EXACT, seed: int = 0) -> Bottleneck:
    """Measures a graph.

    Up to ``exact`` vertices distances, resistances, gap and curvatures are those of their definitions. Above, the diameter is a lower bound
    (sweeps from the farthest vertex that was found), resistance is that of the ends of that sweep, the gap is found by Lanczos iteration and
    curvature on a sample of 1,000 edges. The cut is the best that the second eigenvector or a bridge makes: not the least of all, which is
    hard to find.

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
        raise ValueError(f"'edge_index' must have an edge between two vertices (got none on {whole.shape[0]:,} vertices)")
    num_components, label = connected_components(whole, directed=False)
    vertices = np.flatnonzero(label == np.bincount(label).argmax())
    adjacency = whole[vertices][:, vertices]
    small = len(vertices) <= exact
    pair, distance = _farthest(adjacency, small, seed)
    if small:
        resistance = all_resistances(adjacency.toarray())
        worst = (resistance >= resistance.max() * (1 - 1e-9)).argmax()  # the first of those that rounding alone tells apart
        pair = (int(worst) // len(vertices), int(worst) % len(vertices))
        most = float(resistance[pair])
    else:
        most = float(resistances(adjacency, np.array(pair)[:, None], exact)[0])
    gap, vector = _second_pair(adjacency, small, seed)
    num_bridges, cuts = _bridges(adjacency, seed)
    cut = min([_sweep(adjacency, vector), *cuts], key=lambda cut: (round(cut.edges / cut.arcs, 12), cut.nodes))
    curvature = _curvature(adjacency, small, seed)
    return Bottleneck(
        num_nodes=whole.shape[0],
        num_edges=whole.nnz // 2,
        num_components=int(num_components),
        component_nodes=len(vertices),
        component_arcs=int(adjacency.nnz),
        diameter=distance,
        diameter_exact=small,
        spectral_gap=gap,
        conductance=cut.edges / cut.arcs,
        cut_edges=cut.edges,
        cut_nodes=cut.nodes,
        cut_arcs=cut.arcs,
        num_bridges=num_bridges,
        pair=(int(vertices[pair[0]]), int(vertices[pair[1]])),
        resistance=most,
        commute_time=adjacency.nnz * most,
        min_curvature=float(curvature.min()),
        mean_curvature=float(curvature.mean()),
        curvature_edges=len(curvature),
    )


def _farthest(adjacency: csr_array, small: bool, seed: int) -> tuple[tuple[int, int], int]:
    """Two vertices and the hops between them: the most of all, or the most that a few sweeps find."""
    if small:
        hops = dijkstra(adjacency, unweighted=True)
        source, target = np.unravel_index(hops.argmax(), hops.shape)
        return (int(source), int(target)), int(hops.max())
    best, vertex = ((0, 0), -1), int(np.random.default_rng(seed).integers(adjacency.shape[0]))
    while True:
        hops = dijkstra(adjacency, unweighted=True, indices=vertex)
        far = int(hops.argmax())
        if hops[far] <= best[1]:
            return best
        best, vertex = ((vertex, far), int(hops[far])), far


def _second_pair(adjacency: csr_array, small: bool, seed: int) -> tuple[float, Floats]:
    """The second eigenpair of the normalized Laplacian of a connected graph."""
    if small:
        return fiedler_pair(adjacency.toarray(), seed)[:2]
    root = np.sqrt(adjacency.sum(1))
    matrix, constant = diags_array(1 / root) @ adjacency @ diags_array(1 / root), root / np.linalg.norm(root)

    def flipped(x: Floats) -> Floats:  # 2 - L without its kernel: the second smallest eigenvalue of L becomes the largest
        return matrix @ x + x - 2 * constant * (constant @ x)

    size, start = len(root), np.random.default_rng(seed).standard_normal(len(root))
    try:
        operator = LinearOperator((size, size), matvec=flipped, dtype=np.float64)
        values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=1e-9, maxiter=200)
        return max(float(2 - values[0]), 0.0), vectors[:, 0]
    except ArpackNoConvergence:  # it mixes slowly, so it falls apart at small cuts, and factorizing it is cheap
        laplacian = diags_array(np.ones(size)) - matrix
        values, vectors = eigsh(laplacian.tocsc(), k=2, sigma=-1e-6, v0=start)
        return max(float(values.max()), 0.0), vectors[:, values.argmax()]


class _Cut(NamedTuple):
    """The edges across a cut, and the vertices and arcs of its smaller side."""

    edges: int
    nodes: int
    arcs: int


def _sweep(adjacency: csr_array, vector: Floats) -> _Cut:
    """The best of the cuts between low and high entries of an eigenvector."""
    degree = adjacency.sum(1)
    order = np.argsort(vector / np.sqrt(degree), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    source, target = adjacency.nonzero()
    low, high = rank[source], rank[target]
    opened = np.bincount(low[low < high], minlength=len(order)) - np.bincount(high[low < high], minlength=len(order))
    across, volume = opened.cumsum()[:-1], degree[order].cumsum()
    smaller = np.minimum(volume[:-1], volume[-1] - volume[:-1])
    conductance = across / smaller
    best = int((conductance <= conductance.min() * (1 + 1e-12)).argmax())
    first = 2 * volume[best] <= volume[-1]
    return _Cut(int(across[best]), best + 1 if first else len(order) - best - 1, int(smaller[best]))


def _bridges(adjacency: csr_array, seed: int) -> tuple[int, list[_Cut]]:
    """The number of bridges of a connected graph, and the cut that the best of them makes.

    Every edge outside of a spanning tree gets a random word of 64 bits. An edge of the tree is a bridge where the words of the edges that
    leave the tree below it cancel: those inside it occur twice, and others do with a probability of 2 ** -64.
    """
    size = adjacency.shape[0]
    order, parent = breadth_first_order(adjacency, 0, directed=False)
    source, target = adjacency.nonzero()
    other = (source < target) & (parent[source] != target) & (parent[target] != source)
    label = np.zeros(size, dtype=np.uint64)
    words = np.random.default_rng(seed).integers(2**64, size=int(other.sum()), dtype=np.uint64)
    np.bitwise_xor.at(label, source[other], words)
    np.bitwise_xor.at(label, target[other], words)
    volume, nodes = adjacency.sum(1), np.ones(size, dtype=np.int64)
    for level in _levels(order, parent)[:0:-1]:
        np.bitwise_xor.at(label, parent[level], label[level])
        np.add.at(volume, parent[level], volume[level])
        np.add.at(nodes, parent[level], nodes[level])
    below = order[1:][label[order[1:]] == 0]
    if not below.size:
        return 0, []
    smaller = np.minimum(volume[below], volume[order[0]] - volume[below])
    best = below[smaller.argmax()]
    inside = 2 * volume[best] <= volume[order[0]]
    return len(below), [_Cut(1, int(nodes[best]) if inside else size - int(nodes[best]), int(smaller.max()))]


def _levels(order: Indices, parent: Indices) -> list[Indices]:
    """The vertices of a breadth-first tree by their distance from the root."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    levels, end = [order[:1]], 1
    while end < len(order):  # parents come in the order of their children
        stop = end + int(np.searchsorted(place[parent[order[end:]]], end))
        levels.append(order[end:stop])
        end = stop
    return levels


def _curvature(adjacency: csr_array, small: bool, seed: int) -> Floats:
    """The balanced Forman curvature of all edges, or of some."""
    source, target = (ends.astype(np.int64) for ends in adjacency.nonzero())
    source, target = source[source < target], target[source < target]
    if small:
        dense = adjacency.toarray() > 0
        chunks = np.array_split(np.arange(len(source)), 1 + len(source) * len(dense) // 2**22)
        return np.concatenate([curvature_of_edges(dense, source[chunk], target[chunk]) for chunk in chunks])
    chosen = np.random.default_rng(seed).permutation(len(source))[:NUM_SAMPLED]
    return np.array([_curvature_of_edge(adjacency, int(source[i]), int(target[i])) for i in chosen])


def _curvature_of_edge(adjacency: csr_array, x: int, y: int) -> float:
    """The same for one edge, from the neighbors of its ends alone."""
    of_x, of_y = (adjacency.indices[adjacency.indptr[v] : adjacency.indptr[v + 1]] for v in (x, y))
    own_x, own_y = np.setdiff1d(of_x, np.append(of_y, y)), np.setdiff1d(of_y, np.append(of_x, x))
    triangles = len(of_x) - 1 - len(own_x)
    cycles = adjacency[own_x][:, own_y]  # 4-cycles without diagonal
    at_x, at_y = cycles.sum(1), cycles.sum(0)
    corners, most = (at_x > 0).sum() + (at_y > 0).sum(), max(at_x.max(initial=0), at_y.max(initial=0))
    return float(forman_of_counts(len(of_x), len(of_y), triangles, corners, most))
