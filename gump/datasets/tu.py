"""The TU benchmark collection."""

from __future__ import annotations

import os
from pathlib import Path

from torch_geometric.data import Data
from torch_geometric.data.separate import separate
from torch_geometric.io import read_tu_data


def load_tu(name: str, root: str | os.PathLike[str]) -> list[Data]:
    """Reads the graphs of one TU dataset from its raw text files, and writes nothing.

    Features are the one-hot vertex labels and edge attributes the one-hot edge labels, as PyG's ``TUDataset`` gives them by default.

    Args:
        name: The dataset, such as ``"MUTAG"``.
        root: The folder that holds ``NAME/raw/NAME_A.txt`` and its siblings.
    """
    folder = Path(root) / name / "raw"
    for part in ("A", "graph_indicator"):
        path = folder / f"{name}_{part}.txt"
        if not path.is_file():
            raise FileNotFoundError(f"'{name}' is not in {root} ({path} is missing); put its raw files under {folder}")
    data, slices, sizes = read_tu_data(str(folder), name)
    if data.x is not None:
        data.x = data.x[:, sizes["num_node_attributes"] :]
    if data.edge_attr is not None:
        data.edge_attr = data.edge_attr[:, sizes["num_edge_attributes"] :]
    num_graphs = slices["edge_index"].numel() - 1
    return [separate(Data, data, idx, slices, decrement=False) for idx in range(num_graphs)]
