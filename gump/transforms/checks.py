"""What a transform can be applied to."""

import re
from typing import Any

from torch_geometric.data import Batch, Data


def is_about_pairs(key: str) -> bool:
    """Whether an attribute says which pairs of vertices are asked about, or what is right about them, as PyG's ``RandomLinkSplit`` names them: such
    are no attributes of edges, even where there are as many.

    Example:
        >>> [key for key in ("edge_attr", "edge_labels", "edge_label", "edge_label_index", "neg_edge_label") if is_about_pairs(key)]
        ['edge_label', 'edge_label_index', 'neg_edge_label']
    """
    return re.fullmatch(r"(pos_|neg_)?edge_label(_index|_time)?", key) is not None


def check_graph(data: Any, batch: bool = True) -> None:
    """Refuses what is no graph with edges of one kind, and a batch of graphs unless that will do.

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
    if isinstance(data, Batch) and not batch:
        raise ValueError(f"'data' must be one graph (got a batch of {data.num_graphs}); transform graphs before they are batched")
