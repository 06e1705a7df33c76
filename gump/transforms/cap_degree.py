"""Fewer edges at hubs."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.line_graph import EulerianLineGraph
from gump.transforms.checks import check_edges_may_change, is_about_pairs


@functional_transform("cap_degree")
class CapDegree(BaseTransform):
    r"""Removes random edges at vertices that have too many, so that no coin is larger than ``max_degree``.

    The degree-aware sparsification of transitions that the `paper <https://openreview.net/forum?id=dvNMDkSBIA>`_ names as a way to large
    graphs. Edges are put in a random order, and an edge stays if it is among the first ``max_degree`` of both of its ends. Then a
    line graph of :math:`A` arcs has at most :math:`A \cdot` ``max_degree`` transitions in place of :math:`\sum_v d_v^2`. Edges
    between vertices of small degree all stay. An edge goes or stays with both orientations, all columns that list it and everything named
    ``edge_*``. A self-loop counts once.

    What it gives up: the graph is another one, and coins, though orthogonal, are those of that graph. A vertex whose neighbors are all
    hubs may lose all its edges, as most leaves of a star do. Since both ends must agree, hubs often keep fewer than ``max_degree``.

    The order is drawn from the seed, the number of vertices and the edges, whatever the order and orientation of their columns. It does not
    follow a renumbering of the vertices.

    Args:
        max_degree: The most neighbors of a vertex.
        seed: The seed of the order.

    Example:
        >>> CapDegree(max_degree=2)(Data(edge_index=torch.tensor([[0, 0, 0, 4], [1, 2, 3, 5]]), num_nodes=6))
        Data(edge_index=[2, 3], num_nodes=6)
    """

    def __init__(self, max_degree: int, seed: int = 0) -> None:
        if max_degree < 1:
            raise ValueError(f"'max_degree' must be at least 1 (got {max_degree})")
        if seed < 0:
            raise ValueError(f"'seed' must be at least 0 (got {seed})")
        self.max_degree, self.seed = max_degree, seed

    def forward(self, data: Data) -> Data:
        """Removes edges from a copy of the graph."""
        check_edges_may_change(data)
        line_graph = EulerianLineGraph.from_edge_index(data.edge_index, data.num_nodes).to("cpu")
        (source, target), reverse = line_graph.arcs.numpy(), line_graph.reverse.numpy()
        print_of_edges = zlib.crc32(np.sort(source * line_graph.num_nodes + target).tobytes())
        rng = np.random.default_rng([self.seed, line_graph.num_nodes, print_of_edges])
        place = rng.permutation(len(source))[np.minimum(np.arange(len(source)), reverse)]  # the same for both arcs of an edge
        arcs = np.lexsort((place, line_graph.arc_block.numpy()))
        first = (line_graph.block_degree.cumsum(0) - line_graph.block_degree)[line_graph.arc_block].numpy()
        among_first = np.empty(len(source), dtype=bool)
        among_first[arcs] = np.arange(len(source)) - first < self.max_degree
        kept = torch.from_numpy(among_first & among_first[reverse])
        capped = data.edge_subgraph(kept[line_graph.edge_arc].to(data.edge_index.device))
        for key, value in data.to_dict().items():
            if is_about_pairs(key):  # which PyG takes for attributes of edges where there are as many
                capped[key] = value
        return capped

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_degree={self.max_degree}, seed={self.seed})"
