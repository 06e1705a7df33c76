"""Graphs in patches, for the models that read them."""

import torch
from graphs import SYMMETRIC, random_graph
from torch import Tensor
from torch_geometric.data import Data

from gump.nn.patch_encoder import Patches
from gump.transforms.add_patches import AddPatches

NO_EDGES = torch.empty(2, 0, dtype=torch.long)
GRAPHS = SYMMETRIC | {f"random {s}": random_graph(s) for s in range(3)} | {"no edges": (NO_EDGES, 4), "one vertex": (NO_EDGES, 1)}


def patched_graph(name: str, equal_features: bool = False, num_patches: int = 6, walk_length: int = 8) -> Data:
    """A graph in float64 with three columns of features, two of edge attributes, and patches."""
    edge_index, num_nodes = GRAPHS[name]
    generator = torch.Generator().manual_seed(num_nodes)
    x = torch.randn(num_nodes, 3, generator=generator, dtype=torch.float64)
    edge_attr = torch.randn(edge_index.size(1), 2, generator=generator, dtype=torch.float64)
    if equal_features:
        x, edge_attr = torch.ones_like(x), torch.ones_like(edge_attr)
    return AddPatches(num_patches, method="bfs", walk_length=walk_length)(Data(x=x, edge_index=edge_index, edge_attr=edge_attr))


def run(model: torch.nn.Module, data: Data) -> Tensor:
    """What a model makes of a graph, or of a batch of graphs."""
    patches = {name: data.get(name) for name in Patches._fields}
    out: Tensor = model(data.x, data.edge_index, edge_attr=data.get("edge_attr"), batch=data.get("batch"), **patches)
    return out


def relabeled(data: Data, seed: int = 0) -> Data:
    """The same graph and patches with other numbers for the vertices, and the columns of edge_index in another order."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randperm(data.num_nodes, generator=generator)
    order = torch.randperm(data.edge_index.size(1), generator=generator)
    other = data.clone()
    other.x, other.patch_index = data.x[label.argsort()], label[data.patch_index]
    other.edge_index, other.edge_attr = label[data.edge_index][:, order], data.edge_attr[order]
    other.patch_edge_column = order.argsort()[data.patch_edge_column]
    return other
