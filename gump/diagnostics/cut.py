"""The narrowest place of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, dijkstra

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

LARGE = 0.05
"""The share of the vertices that a cut must have on either side to speak for the graph, and not for a small part of it."""


class Cut(NamedTuple):
    r"""The vertices of a connected graph in two sides, and how much gets from one to the other.

    Args:
        edges: The edges across, :math:`c`. At most :math:`L c` dimensions of a signal cross in :math:`L` layers, since the block of
            :math:`\mathbf{U}^L` between the two sides has at most that rank, whatever the coins.
        nodes: The number of vertices on the smaller side, the one with fewer arcs.
        arcs: The arcs that leave them, :math:`\mathrm{vol}(S)`.
        capacity: What equally many vertices of either side hold at most, :math:`m \bar{d}`, one dimension for each arc: :math:`m =
            \min(|S|, |\bar{S}|)` vertices with the mean degree :math:`\bar{d}` of the denser side.
        share: The most that gets across in as many layers as the diameter :math:`D`, of what equally many vertices behind the cut hold:

            .. math::
                \min_{h, h'} \min\Big(1,\; \frac{(D - h - h')\, c}{m\, \bar{d}}\Big)

            A cut may lie anywhere on a bar, a stretch on which no more edges lead from one hop to the next than across the cut. What
            counts is what the bar joins: the vertices at least :math:`h`, and on the other side :math:`h'`, hops away from the cut, as far as the
            bar goes. They need :math:`h` layers to the cut and :math:`h'` behind it, so that but :math:`D - h - h'` are left to cross in, and
            a longer bar does not help. The share is one where distance is all that there is to bridge, as on a path, and near zero where
            much lies behind few edges.
    """

    edges: int
    nodes: int
    arcs: int
    capacity: float
    share: float

    @property
    def conductance(self) -> float:
        r"""The edges across over the arcs that leave the smaller side's vertices, :math:`\phi = c / \mathrm{vol}(S)`."""
        return self.edges / self.arcs

    def share_in(self, num_layers: int) -> float:
        """The most that crosses in a number of layers, of what equally many vertices of either whole side hold."""
        return min(1.0, num_layers * self.edges / self.capacity)


class _Side(NamedTuple):
    """A candidate: one side of a cut, and what the smaller of both has."""

    conductance: float
    nodes: int
    inside: NDArray[np.bool_]


def narrowest_cuts(adjacency: csr_array, vector: Floats, diameter: int, seed: int = 0) -> tuple[int, Cut, Cut]:
    """Counts the bridges of a connected graph and finds its cut of least conductance: of all, and of those with much on both sides.

    The candidates are those between low and high entries of an eigenvector, and bridges: not all, of which the least is hard to find.

    Args:
        adjacency: The adjacency matrix.
        vector: The second eigenvector of the normalized Laplacian.
        diameter: The most hops between two vertices.
        seed: Of the draw by which bridges are found.
    """
    num_bridges, bridges = _bridges(adjacency, seed)
    cuts = []
    for least in (1, int(np.ceil(LARGE * adjacency.shape[0]))):
        found = [_sweep(adjacency, vector, least), *bridges(least)]
        cuts.append(_measured(adjacency, min(found, key=lambda side: (round(side.conductance, 12), side.nodes)).inside, diameter))
    return num_bridges, cuts[0], cuts[1]


def _measured(adjacency: csr_array, inside: NDArray[np.bool_], diameter: int) -> Cut:
    """What a cut lets through."""
    degree = adjacency.sum(1)
    if 2 * degree[inside].sum() > degree.sum():
        inside = ~inside
    source, target = adjacency.nonzero()
    across = inside[source] & ~inside[target]
    ends = np.unique(np.concatenate([source[across], target[across]]))
    hops = dijkstra(adjacency, unweighted=True, indices=ends, min_only=True).astype(np.int64)  # from its side's end of the cut
    edges = int(across.sum())
    near, far = (_behind(hops, side, adjacency, edges) for side in (inside, ~inside))
    shares = [1.0]
    for (nodes, arcs), (other_nodes, other_arcs) in ((near, far), (far, near)):
        hop = np.flatnonzero(nodes <= other_nodes[0])
        other = np.searchsorted(-other_nodes, -nodes[hop], side="right") - 1  # as far as there are as many vertices
        held = nodes[hop] * np.maximum(arcs[hop] / nodes[hop], other_arcs[other] / other_nodes[other])
        shares.extend(np.maximum(diameter - hop - other, 1) * edges / held)
    (own, own_arcs), (others, others_arcs) = ((int(values[0]) for values in side) for side in (near, far))
    capacity = min(own, others) * max(own_arcs / own, others_arcs / others)
    return Cut(edges, own, own_arcs, capacity, float(min(shares)))


def _behind(hops: Indices, side: NDArray[np.bool_], adjacency: csr_array, edges: int) -> tuple[Floats, Floats]:
    """For every number of hops from a cut, along its bar, how many vertices of a side are as far or farther, and their arcs."""
    source, target = adjacency.nonzero()
    outward = side[source] & side[target] & (hops[source] < hops[target])
    width = np.bincount(hops[target[outward]])  # edges by the hop that they lead to; none to the first
    bar = int(np.argmax(np.append(width, edges + 1) > edges))
    count, arcs = np.bincount(hops[side]).astype(float), np.bincount(hops[side], weights=adjacency.sum(1)[side])
    return count[::-1].cumsum()[::-1][: max(bar, 1)], arcs[::-1].cumsum()[::-1][: max(bar, 1)]


def _sweep(adjacency: csr_array, vector: Floats, least: int) -> _Side:
    """The best of the cuts between low and high entries of an eigenvector, with some vertices on either side at least."""
    degree = adjacency.sum(1)
    order = np.argsort(vector / np.sqrt(degree), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    source, target = adjacency.nonzero()
    low, high = rank[source], rank[target]
    opened = np.bincount(low[low < high], minlength=len(order)) - np.bincount(high[low < high], minlength=len(order))
    volume = degree[order].cumsum()
    allowed = slice(least - 1, len(order) - least)
    conductance = opened.cumsum()[allowed] / np.minimum(volume, volume[-1] - volume)[allowed]
    best = least - 1 + int((conductance <= conductance.min() * (1 + 1e-12)).argmax())
    first = 2 * volume[best] <= volume[-1]
    return _Side(float(conductance[best - least + 1]), best + 1 if first else len(order) - best - 1, rank <= best)


class _Bridges(NamedTuple):
    """The bridges of a graph, each as the child at its end in a spanning tree, with vertices and arcs of the subtree."""

    adjacency: csr_array
    child: Indices
    parent: Indices
    nodes: Indices
    arcs: Indices

    def __call__(self, least: int) -> Iterator[_Side]:
        """The cut of the best bridge, if there is one with some vertices on either side at least."""
        size, volume = self.adjacency.shape[0], self.adjacency.nnz
        smaller = np.minimum(self.arcs, volume - self.arcs)
        smaller = np.where(np.minimum(self.nodes, size - self.nodes) >= least, smaller, 0)
        if not smaller.any():
            return
        best = int(smaller.argmax())
        without = self.adjacency.copy()
        child, parent = int(self.child[best]), int(self.parent[best])
        without[child, parent] = without[parent, child] = 0
        without.eliminate_zeros()
        label = connected_components(without, directed=False)[1]
        nodes = int(self.nodes[best]) if 2 * self.arcs[best] <= volume else size - int(self.nodes[best])
        yield _Side(1 / float(smaller[best]), nodes, label == label[child])


def _bridges(adjacency: csr_array, seed: int) -> tuple[int, _Bridges]:
    """The edges without which a connected graph would fall apart.

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
    words_below, arcs, nodes, above = label.tolist(), adjacency.sum(1).astype(np.int64).tolist(), [1] * size, parent.tolist()
    for vertex in order[:0:-1].tolist():  # children before parents; plain numbers, since a path has as many levels as vertices
        up = above[vertex]
        words_below[up] ^= words_below[vertex]
        arcs[up] += arcs[vertex]
        nodes[up] += nodes[vertex]
    child = np.array([vertex for vertex in order[1:].tolist() if words_below[vertex] == 0], dtype=np.int64)
    return len(child), _Bridges(adjacency, child, parent[child], np.array(nodes)[child], np.array(arcs)[child])
