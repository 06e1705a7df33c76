"""PyG's encodings by random walks and by the Laplacian, where they need a hand."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch_geometric.transforms as pyg
from scipy.sparse import diags
from torch_geometric.data import Data
from torch_geometric.transforms.add_positional_encoding import add_node_attr
from torch_geometric.utils import to_scipy_sparse_matrix

from gump.transforms.rrwp import check_weights_of_walks


class AddRandomWalkPE(pyg.AddRandomWalkPE):
    r"""Appends the probabilities that a random walk is back after :math:`1, \ldots, K` steps (`Dwivedi et al., ICLR 2022
    <https://arxiv.org/abs/2110.07875>`_): PyG's transform of this name, but that walks go in proportion to ``edge_weight`` where there is one, of
    which PyG's takes the degree alone.

    Takes what PyG's takes.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> data = Data(x=torch.ones(3, 1), edge_index=edge_index, edge_weight=torch.tensor([3.0, 3.0, 1.0, 1.0]))
        >>> AddRandomWalkPE(2, attr_name="pe")(data).pe
        tensor([[0.0000, 0.7500],
                [0.0000, 1.0000],
                [0.0000, 0.2500]])
    """

    def forward(self, data: Data) -> Data:
        """Appends to a graph."""
        if data.edge_weight is None:
            return super().forward(data)
        weight = check_weights_of_walks(data.edge_weight).double()
        adjacency = to_scipy_sparse_matrix(data.edge_index, weight, data.num_nodes).tocsr()
        degree = np.asarray(adjacency.sum(axis=1)).ravel()
        walk = power = diags(1 / np.where(degree == 0, 1, degree)) @ adjacency
        returns = [walk.diagonal()]
        for _ in range(1, self.walk_length):
            power = power @ walk
            returns.append(power.diagonal())
        encoding = torch.from_numpy(np.stack(returns, axis=1)).to(data.edge_index.device, torch.get_default_dtype())
        encoded: Data = add_node_attr(data, encoding, attr_name=self.attr_name)
        return encoded


class AddLaplacianEigenvectorPE(pyg.AddLaplacianEigenvectorPE):
    """Appends eigenvectors of the Laplacian: PyG's transform of this name, but that all of its chance is torch's. For graphs of a hundred vertices or
    more an iteration finds them, which starts from a vector that scipy draws anew every time; signs, and a basis where eigenvalues are
    equal, are then others.

    Takes what PyG's takes.
    """

    def forward(self, data: Data) -> Data:
        """Appends to a graph."""
        if data.num_nodes < self.SPARSE_THRESHOLD:
            return super().forward(data)
        seeded = copy.copy(self)
        seeded.kwargs = {"v0": torch.rand(data.num_nodes, dtype=torch.float64).numpy(), **self.kwargs}
        encoded: Data = super(AddLaplacianEigenvectorPE, seeded).forward(data)
        return encoded
