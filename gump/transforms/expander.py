"""Random edges along which every vertex is near every other."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.checks import check_graph


@functional_transform("add_expander")
class AddExpander(BaseTransform):
    """Puts a sparse random graph of large spectral gap beside the edges of a graph, for attention along both.

    `Exphormer <https://arxiv.org/abs/2303.06147>`_ lets vertices attend along the edges of the graph and along those of an expander.
    Ours is the union of half as many random Hamiltonian cycles as the degree says, in both directions, without duplicates or
    self-loops. It is connected. A vertex has ``degree`` neighbors, or fewer where two cycles share an edge, which in a large graph is
    rare. With at most ``degree + 1`` vertices it is the complete graph. It may repeat edges of the graph; those stay as they are.

    Adds ``expander_index``, which PyG shifts in a batch like every ``*_index``. The cycles are drawn anew for each graph from the seed,
    its number of vertices and its edges, whatever their order and whichever graphs came before. They do not follow a renumbering of
    the vertices.

    Args:
        degree: The number of neighbors; even.
        seed: The seed of the cycles.

    Shapes:
        - **expander_index:** :math:`(2, X)`, sorted

    Example:
        >>> data = AddExpander(degree=2)(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3))
        >>> data.expander_index.tolist()
        [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    """

    def __init__(self, degree: int = 6, seed: int = 0) -> None:
        if degree < 2 or degree % 2:
            raise ValueError(f"'degree' must be even and at least 2 (got {degree})")
        self.degree, self.seed = degree, seed

    def forward(self, data: Data) -> Data:
        """Adds the expander to a copy of the graph."""
        check_graph(data)
        size = data.num_nodes
        if size <= self.degree + 1:
            edges = np.argwhere(~np.eye(size, dtype=bool))
        else:
            source, target = data.edge_index.cpu().numpy()
            print_of_edges = zlib.crc32(np.unique(source * size + target).tobytes())
            generator = np.random.default_rng([self.seed, size, print_of_edges])
            cycles = np.stack([generator.permutation(size) for _ in range(self.degree // 2)])
            first, second = cycles.ravel(), np.roll(cycles, -1, axis=1).ravel()
            keys = np.unique(np.concatenate([first * size + second, second * size + first]))
            edges = np.stack([keys // size, keys % size], axis=1)
        data.expander_index = torch.from_numpy(edges.T.copy()).to(data.edge_index.device)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(degree={self.degree}, seed={self.seed})"
