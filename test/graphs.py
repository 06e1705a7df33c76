"""Graphs small enough to draw, each as its edges in one orientation and its number of vertices."""

import torch
from torch import Tensor

Graph = tuple[Tensor, int]

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def path(num_nodes: int) -> Graph:
    return torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)]), num_nodes


def ring(num_nodes: int) -> Graph:
    return torch.stack([torch.arange(num_nodes), torch.arange(1, num_nodes + 1) % num_nodes]), num_nodes


def star(num_leaves: int) -> Graph:
    """Vertex 0 is the center."""
    return torch.stack([torch.zeros(num_leaves, dtype=torch.long), torch.arange(1, num_leaves + 1)]), num_leaves + 1


def clique(num_nodes: int) -> Graph:
    return torch.combinations(torch.arange(num_nodes)).t(), num_nodes


def barbell(num_nodes: int) -> Graph:
    """Two cliques of ``num_nodes`` vertices, joined by one edge."""
    edges, bridge = clique(num_nodes)[0], torch.tensor([[num_nodes - 1], [num_nodes]])
    return torch.cat([edges, edges + num_nodes, bridge], dim=1), 2 * num_nodes


def grid(height: int, width: int) -> Graph:
    cells = torch.arange(height * width).view(height, width)
    right = torch.stack([cells[:, :-1].flatten(), cells[:, 1:].flatten()])
    down = torch.stack([cells[:-1].flatten(), cells[1:].flatten()])
    return torch.cat([right, down], dim=1), height * width


def random_graph(seed: int, num_nodes: int = 9, num_edges: int = 14) -> Graph:
    """May have self-loops, repeated edges in either orientation and vertices without edges; the last vertex is one of those."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(num_nodes - 1, (2, num_edges), generator=generator), num_nodes


SYMMETRIC = {"star": star(5), "clique": clique(5), "ring": ring(6), "barbell": barbell(4), "grid": grid(3, 3)}
"""Graphs whose vertices cannot be told apart by equal features, or hardly: ties are the normal case."""
