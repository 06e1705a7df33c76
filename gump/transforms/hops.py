"""Who is how far away."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.checks import check_graph

_CHUNK = 2**24  # distances held at a time, in float64


@functional_transform("add_hops")
class AddHops(BaseTransform):
    r"""Lists all pairs of vertices up to a distance, each with its distance, for models that look farther than to neighbors.

    Adds ``hop_index``, the ordered pairs :math:`(u, v)` with :math:`1 \le d(u, v) \le D`, sorted, ``hop_distance``, where
    :math:`d` is the number of edges on a shortest path from :math:`u` to :math:`v`, and ``num_hop_pairs``, how many pairs there are at each
    distance, whose width tells a model how far it may look. ``edge_index`` stays, and what is at distance one
    are its columns without self-loops and duplicates. In a directed graph paths follow the edges. `DRew
    <https://arxiv.org/abs/2305.08018>`_ passes messages along the pairs of each distance apart:
    ``hop_index[:, hop_distance == k]``. Apply it last: what changes edges or vertices leaves the pairs behind, and our transforms then refuse.

    There may be as many pairs as the square of the number of vertices: each takes 17 bytes.

    Args:
        max_distance: The largest distance :math:`D`.

    Shapes:
        - **hop_index:** :math:`(2, P)`
        - **hop_distance:** :math:`(P)`, 8-bit integers, or 16-bit where :math:`D` is above 127
        - **num_hop_pairs:** :math:`(1, D)`

    Example:
        >>> data = AddHops(max_distance=2)(Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4))
        >>> data.hop_index.tolist(), data.hop_distance.tolist()
        ([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]], [1, 2, 1, 1, 2, 1])
    """

    def __init__(self, max_distance: int) -> None:
        if not 1 <= max_distance < 2**15:
            raise ValueError(f"'max_distance' must be at least 1 and below {2**15} (got {max_distance})")
        self.max_distance = max_distance

    def forward(self, data: Data) -> Data:
        """Adds the pairs to a copy of the graph."""
        check_graph(data)
        size, dtype = data.num_nodes, np.int8 if self.max_distance < 128 else np.int16
        source, target = data.edge_index.cpu().numpy()
        adjacency = csr_array((np.ones(len(source)), (source, target)), shape=(size, size))
        pairs, distances = [np.empty((2, 0), dtype=np.int64)], [np.empty(0, dtype=dtype)]
        for rows in np.split(np.arange(size), np.arange(0, size, max(_CHUNK // max(size, 1), 1))[1:]):
            if rows.size:
                distance = dijkstra(adjacency, indices=rows, unweighted=True, limit=self.max_distance)
                first, second = np.nonzero((distance > 0) & (distance < np.inf))
                pairs.append(np.stack([rows[first], second]))
                distances.append(distance[first, second].astype(dtype))
        counts = np.bincount(np.concatenate(distances), minlength=self.max_distance + 1)[None, 1:]
        data.hop_index = torch.from_numpy(np.concatenate(pairs, axis=1)).to(data.edge_index.device)
        data.hop_distance = torch.from_numpy(np.concatenate(distances)).to(data.edge_index.device)
        data.num_hop_pairs = torch.from_numpy(counts.copy()).to(data.edge_index.device)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_distance={self.max_distance})"
