"""What a page shows of one graph: its drawing, and the operators under which a signal spreads on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, shortest_path
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph, to_undirected

from gump.experiment.find_graphs import find_graphs
from gump.linalg.spectrum import laplacian_pseudo_inverse
from gump.line_graph import EulerianLineGraph
from gump.nn import GUMP
from gump.nn.embedding import CategoricalEmbedding
from gump.nn.normalized_adjacency import normalized_adjacency

MAX_TRANSITIONS = 500_000
"""Above this a page would weigh more than ten megabytes."""

MAX_DEPTH = 100
NUM_STEPS = 10
HIDDEN_CHANNELS = 64

Array = NDArray[np.float64]


class Found(NamedTuple):
    """A graph and what it is called."""

    data: Data
    title: str


def find_graph(name: str, index: int = 0) -> Found:
    """Finds one graph by the name of what it is in, as :func:`gump.experiment.find_graphs.find_graphs` knows it, and its number there."""
    graphs = find_graphs(name)
    if not 0 <= index < len(graphs):
        raise ValueError(f"'--index' must be from 0 to {len(graphs) - 1} for {name} (got {index})")
    return Found(graphs[index], name if len(graphs) == 1 else f"{name}, graph {index}")


def neighborhood(found: Found, vertex: int, hops: int) -> Found:
    """Cuts out what lies within some hops of a vertex; vertices keep their numbers, as ``data.label``, and lose the edges that were cut."""
    data = found.data
    if not 0 <= vertex < int(data.num_nodes or 0):
        raise ValueError(f"'--around' must be a vertex from 0 to {int(data.num_nodes or 0) - 1} of {found.title} (got {vertex})")
    edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
    label, edge_index, _, _ = k_hop_subgraph(vertex, hops, edge_index, relabel_nodes=True, num_nodes=data.num_nodes)
    cut = Data(x=None if data.x is None else data.x[label], edge_index=edge_index, label=label, num_nodes=label.numel())
    return found._replace(data=cut, title=f"{found.title}, {hops} hop{'s' * (hops != 1)} around vertex {vertex}")


def exploration(found: Found, seed: int, max_vertices: int) -> dict[str, Any]:
    r"""Computes what the page needs, as plain strings, numbers and arrays.

    The signal starts as one at the source vertex :math:`s`. Under a graph convolution it becomes :math:`\hat{\mathbf{A}}^L \mathbf{e}_s`. Under a
    walk it starts in equal shares :math:`1 / \sqrt{d_s}` on the arcs that leave :math:`s` and becomes :math:`\mathbf{U}^L \mathbf{h}`; the energy
    of a vertex is that of the arcs that leave it. So coin, then shift, carries a signal by one hop: what is on arc :math:`(v, w)` came to
    :math:`v` from :math:`w`.

    Both walks are those of a fresh :class:`gump.nn.GUMP` with the same weights, in training mode and double precision. The paper's puts
    its scores through Newton-Schulz, the default makes bounded coins of them. At hubs, vertices of more than ``max_block`` neighbors, the
    default has a coin of its own, of scores of low rank, see :class:`gump.nn.Coin`; it is built here to be looked at. The paper's walk
    has no hubs. Edge attributes are left out, as by default.

    Args:
        found: The graph.
        seed: Of the model's weights; torch's global state is left alone.
        max_vertices: The most vertices that are drawn.
    """
    data, num_nodes = found.data, int(found.data.num_nodes or 0)
    line_graph = EulerianLineGraph.from_edge_index(data.edge_index, num_nodes)
    if line_graph.num_transitions > MAX_TRANSITIONS:
        raise ValueError(
            f"'graph' must have squared degrees that sum to at most {MAX_TRANSITIONS:,} (got {line_graph.num_transitions:,} in "
            f"{found.title}), or the page would be too large; {_way_out(found, line_graph, max_vertices)}"
        )
    if num_nodes > max_vertices:
        raise ValueError(
            f"'graph' must have at most {max_vertices:,} vertices to be drawn (got {num_nodes:,} in {found.title}); "
            f"{_way_out(found, line_graph, max_vertices)}, or raise --max-vertices"
        )
    walks, model, features = fresh_walks(found, line_graph, seed)
    index, weight = normalized_adjacency(line_graph.arcs, None, num_nodes, torch.float64)
    degree = line_graph.arcs[0].bincount(minlength=num_nodes)
    return {
        "title": found.title,
        "features": features,
        "model": repr(model),
        "seed": seed,
        "num_steps": NUM_STEPS,
        "max_depth": MAX_DEPTH,
        "start": _start(line_graph, degree),
        "label": np.arange(num_nodes) if "label" not in data else data.label.numpy(),
        "position": layout(line_graph.arcs, num_nodes),
        "arcs": line_graph.arcs.numpy(),
        "reverse": line_graph.reverse.numpy(),
        "adjacency_index": index.numpy(),
        "adjacency_weight": weight.numpy(),
        "max_block": model.coin.max_block,
        "score_rank": model.coin.score_rank,
        **walks,
    }


@torch.no_grad()
def fresh_walks(found: Found, line_graph: EulerianLineGraph, seed: int) -> tuple[dict[str, Array], GUMP, str]:
    """The coins of untrained models by their name, those of the vertices one after the other; the last model, which is the default; and
    what the models were given as features, in words."""
    walks = {}
    for kind in ("newton_schulz", "bounded"):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            x, features = _features(found, line_graph)
            model = GUMP(x.size(1), HIDDEN_CHANNELS, num_layers=1, coin=kind, num_steps=NUM_STEPS).double()
        start = model.start(x.double(), found.data.edge_index, line_graph=line_graph)
        hubs = model.coin.hubs(*start)  # of the highest degrees, so they come last
        walks[kind] = _flat(model.coin(*start) + ([] if hubs is None else hubs.dense()))
    return walks, model, features


def _way_out(found: Found, line_graph: EulerianLineGraph, max_vertices: int) -> str:
    """What to do about a graph that is too large: the neighbors of one vertex, if these are few enough."""
    if "label" in found.data:
        return "take fewer --hops, or another vertex after --around"
    if line_graph.num_arcs == 0:
        return "leave out vertices without edges"
    vertex, degree = int(line_graph.arcs[0, 0]), min(line_graph.block_sizes)  # arcs are in the order of degrees
    near = neighborhood(found, vertex, 1).data
    cut = EulerianLineGraph.from_edge_index(near.edge_index, near.num_nodes)
    if cut.num_nodes <= max_vertices and cut.num_transitions <= MAX_TRANSITIONS:
        return f"take a part of it with --around VERTEX --hops NUMBER, such as --around {vertex} --hops 1"
    return f"even vertex {vertex}, which has the fewest neighbors, {degree:,}, has too many of them; take a graph with fewer edges"


def _features(found: Found, line_graph: EulerianLineGraph) -> tuple[Tensor, str]:
    x = found.data.x
    if x is None:
        degree = line_graph.arcs[0].bincount(minlength=line_graph.num_nodes)
        kinds, kind = degree.unique(return_inverse=True)
        return torch.eye(kinds.numel())[kind], "one-hot degrees, since the graph has none of its own"
    if not x.is_floating_point():
        sizes = (x.amax(dim=0) + 1).tolist()
        return CategoricalEmbedding(sizes, HIDDEN_CHANNELS)(
            x
        ), f"the graph's own {len(sizes)} categories, embedded by random vectors"
    return x, f"the graph's own, {x.size(1)} number{'s' * (x.size(1) != 1)} for each vertex"


def _flat(blocks: list[Tensor]) -> Array:
    return torch.cat([block.flatten() for block in blocks] or [torch.empty(0, dtype=torch.float64)]).numpy()


def _start(line_graph: EulerianLineGraph, degree: Tensor) -> int:
    """A vertex to begin with: with a coin to look at, that is of degree three if there is one, and as far from others as possible."""
    distance = _distances(line_graph.arcs, line_graph.num_nodes)
    farthest = np.where(np.isfinite(distance), distance, 0).max(axis=1)
    return int(np.lexsort((-farthest, -degree.clamp(max=3).numpy()))[0])


def _distances(arcs: Tensor, num_nodes: int, length: Array | None = None) -> Array:
    """Lengths of the shortest paths between any two vertices, by default in hops; infinite where no path leads."""
    length = np.ones(arcs.size(1)) if length is None else length
    distance: Array = shortest_path(csr_matrix((length, arcs.numpy()), shape=(num_nodes, num_nodes)), directed=False)
    return np.minimum(distance, distance.T)  # sums of the same lengths from either end may differ in the last digit


def layout(arcs: Tensor, num_nodes: int) -> Array:
    """Places the vertices of a graph in the plane, so that distances between them are about as many as hops, or more where many meet.

    Each component is laid out by itself, along its longest direction, and beside the others in rows. The same graph gets the same places.

    Shapes:
        - **arcs:** :math:`(2, A)`
        - **output:** :math:`(N, 2)`
    """
    degree = arcs[0].bincount(minlength=num_nodes).numpy()
    length = np.maximum(1, 0.6 * np.sqrt(degree[arcs.numpy()].max(axis=0)))
    distance = _distances(arcs, num_nodes, length)
    _, component = connected_components(np.isfinite(distance), directed=False)
    parts = sorted((np.flatnonzero(component == c) for c in range(component.max() + 1)), key=len, reverse=True)
    drawn = [_stress_layout(distance[np.ix_(part, part)]) for part in parts]
    width = 1.3 * sum(float(np.prod(places.max(axis=0) + 1.5)) for places in drawn) ** 0.5
    position, corner, height = np.empty((num_nodes, 2)), np.zeros(2), 0.0
    for part, places in zip(parts, drawn, strict=True):
        size = places.max(axis=0) + 1.5
        if corner[0] > 0 and corner[0] + size[0] > width:
            corner, height = np.array([0.0, corner[1] + height]), 0.0
        position[part] = corner + places
        corner, height = corner + size * [1, 0], max(height, size[1])
    return position


def _stress_layout(distance: Array) -> Array:
    r"""Minimizes the stress :math:`\sum_{u<v} (\lVert\mathbf{p}_u - \mathbf{p}_v\rVert - d_{uv})^2 / d_{uv}^2` by majorization (`Gansner et al. 2004
    <https://doi.org/10.1007/978-3-540-31843-9_25>`_), from classical scaling.
    """
    num_nodes = len(distance)
    if num_nodes == 1:
        return np.zeros((1, 2))
    square = distance**2
    centered = square - square.mean(0) - square.mean(1)[:, None] + square.mean()
    _, vectors = np.linalg.eigh(-centered)
    rng = np.random.default_rng(0)  # parts the vertices that scaling puts on one place, such as the leaves of a star
    position = vectors[:, -2:] * num_nodes**0.5 + rng.normal(scale=0.1, size=(num_nodes, 2))
    apart = distance + np.eye(num_nodes)
    weight = (1 - np.eye(num_nodes)) / apart**2
    inverse = laplacian_pseudo_inverse(weight)
    for _ in range(200):
        length = np.linalg.norm(position[:, None] - position, axis=-1)
        pull = weight * distance / np.maximum(length, 1e-9)
        position = inverse @ (pull.sum(1)[:, None] * position - pull @ position)
    for _ in range(50):  # parts vertices that are drawn over each other
        gap = position[:, None] - position
        length = np.maximum(np.linalg.norm(gap, axis=-1), 1e-9)
        position = position + (gap * (np.maximum(0.9 - length, 0) / (2 * length))[..., None]).sum(1)
    _, _, axes = np.linalg.svd(position - position.mean(0), full_matrices=False)
    position = position @ axes.T
    return position - position.min(axis=0)
