"""Between a graph and its adjacency matrix, which every rewiring reads and changes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gump.transforms.checks import check_edges_may_change, is_about_pairs


def to_adjacency(data: Data) -> NDArray[np.bool_]:
    """Reads the adjacency matrix of an undirected graph, without self-loops.

    Edges that are listed twice count once. A graph that lists an edge in one orientation only is refused, and so is a batch, in which
    one graph could be joined to another, and a graph with a line graph, hops or patches, which would be left behind.

    Args:
        data: A graph with ``edge_index``.

    Example:
        >>> to_adjacency(Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2)).tolist()
        [[False, True], [True, False]]
    """
    check_edges_may_change(data)
    source, target = data.edge_index.cpu().numpy()
    if data.edge_index.numel() and not 0 <= data.edge_index.min() <= data.edge_index.max() < data.num_nodes:
        lowest, highest = int(data.edge_index.min()), int(data.edge_index.max())
        raise ValueError(f"'edge_index' must hold vertices below {data.num_nodes}, their number (got {lowest} to {highest})")
    adjacency = np.zeros((data.num_nodes, data.num_nodes), dtype=bool)
    adjacency[source, target] = True
    one_way = np.argwhere(adjacency & ~adjacency.T)
    if len(one_way):
        u, v = one_way[0]
        raise ValueError(
            f"'data' must list every edge in both orientations (got {u} -> {v} without {v} -> {u}); "
            "apply torch_geometric.transforms.ToUndirected first"
        )
    np.fill_diagonal(adjacency, False)
    return adjacency


def with_adjacency(data: Data, adjacency: NDArray[np.bool_], relation: bool = False, keep_loops: bool = True) -> Data:
    """Gives a graph the edges of a matrix, and keeps what was known about those that it had.

    Edges come out sorted and once each. Every tensor named ``edge_*`` with one row per edge follows them: an edge of the input keeps
    its row (the first one, where it was listed twice), an added edge gets zeros, or ones in ``edge_weight``, where a zero would undo it.
    The other attributes, among them the number of vertices and pairs that are asked about (``edge_label_index``), stay as they are;
    ``edge_attr``, ``edge_weight`` and ``edge_type`` without a row per edge are refused.

    Args:
        data: The graph, which is changed.
        adjacency: Where edges go.
        relation: Whether to add ``edge_type``: zero for edges of the input, one for added edges.
        keep_loops: Whether the self-loops of the input stay, whatever the diagonal of the matrix says.
    """
    if relation and "edge_type" in data:
        raise ValueError("'data' must not have 'edge_type' with relation=True (got one); rename it, or pass relation=False")
    num_nodes, num_edges, device = data.num_nodes, data.edge_index.size(1), data.edge_index.device
    source, target = data.edge_index.cpu().numpy()
    place = np.full((num_nodes, num_nodes), -1)
    position, first = np.unique(source * num_nodes + target, return_index=True)
    place.flat[position] = first
    if keep_loops:
        adjacency = adjacency | np.diag(place.diagonal() >= 0)
    edges = np.argwhere(adjacency)
    row = torch.from_numpy(place[edges[:, 0], edges[:, 1]]).to(device)
    for key, value in data.to_dict().items():
        of_edges = key != "edge_index" and key.startswith("edge_") and not is_about_pairs(key)
        if of_edges and torch.is_tensor(value) and value.shape[:1] == (num_edges,):
            data[key] = _rows(value, row, fill=1 if key == "edge_weight" else 0)
        elif key in ("edge_attr", "edge_weight", "edge_type"):
            came = f"shape {list(value.shape)}" if torch.is_tensor(value) else repr(value)
            raise ValueError(f"'{key}' must have one row for each of the {num_edges} edges (got {came})")
    data.edge_index = torch.from_numpy(edges.T.copy()).to(device)
    if relation:
        data.edge_type = (row < 0).long()
    if data.x is None:
        data.num_nodes = num_nodes  # or PyG would guess it from the new edges
    return data


def _rows(values: Tensor, row: Tensor, fill: int) -> Tensor:
    rows = values.new_full((row.numel(), *values.shape[1:]), fill)
    rows[row >= 0] = values[row[row >= 0]]
    return rows
