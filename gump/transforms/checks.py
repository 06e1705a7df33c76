"""What a transform can be applied to."""

import re
from typing import Any

from torch_geometric.data import Batch, Data

MADE_OF_EDGES = {
    "arc_index": ("a line graph", "AddLineGraph"),
    "hop_index": ("pairs with their distances", "AddHops"),
    "pair_index": ("pairs with their walks", "AddRRWP"),
    "patch_index": ("patches", "AddPatches"),
}
"""What stands on a graph for its edges, and which transform puts it there."""


def is_about_pairs(key: str) -> bool:
    """Whether an attribute says which pairs of vertices are asked about, or what is right about them, as PyG's ``RandomLinkSplit`` names them: such
    are no attributes of edges, even where there are as many.

    Example:
        >>> [key for key in ("edge_attr", "edge_labels", "edge_label", "edge_label_index", "neg_edge_label") if is_about_pairs(key)]
        ['edge_label', 'edge_label_index', 'neg_edge_label']
    """
    return re.fullmatch(r"(pos_|neg_)?edge_label(_index|_time)?", key) is not None


def check_graph(data: Any) -> None:
    """Refuses what is no graph with edges of one kind, and a batch of graphs.

    Example:
        >>> check_graph(Data(num_nodes=3))
        Traceback (most recent call last):
        ...
        ValueError: 'data' must have 'edge_index' (got Data(num_nodes=3)); one without edges is torch.empty(2, 0, dtype=torch.long)
    """
    if not isinstance(data, Data):
        advice = "; call .to_homogeneous()" if hasattr(data, "to_homogeneous") else ""
        raise ValueError(f"'data' must be a torch_geometric.data.Data (got {type(data).__name__}){advice}")
    if data.edge_index is None:
        raise ValueError(f"'data' must have 'edge_index' (got {data}); one without edges is torch.empty(2, 0, dtype=torch.long)")
    if isinstance(data, Batch):
        raise ValueError(f"'data' must be one graph (got a batch of {data.num_graphs}); transform graphs before they are batched")


def check_edges_may_change(data: Any) -> None:
    """Refuses what :func:`check_graph` does, and a graph with something that was made of its edges, which would be left behind.

    Example:
        >>> check_edges_may_change(Data(edge_index=torch.tensor([[0], [1]]), hop_index=torch.tensor([[0], [1]])))
        Traceback (most recent call last):
        ...
        ValueError: 'data' must not carry pairs with their distances (got 'hop_index'), since its edges are about to change; apply AddHops last
    """
    check_graph(data)
    for key, (what, transform) in MADE_OF_EDGES.items():
        if key in data:
            raise ValueError(
                f"'data' must not carry {what} (got '{key}'), since its edges are about to change; apply {transform} last"
            )
