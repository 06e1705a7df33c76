"""Relative random walk probabilities of all pairs of vertices."""

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.checks import check_graph


@functional_transform("add_rrwp")
class AddRRWP(BaseTransform):
    r"""Tells for every pair of vertices how likely a random walk gets from one to the other (`Ma et al., ICML 2023
    <https://arxiv.org/abs/2305.17589>`_).

    .. math::
        \mathbf{P}_{ij} = [\mathbf{I}, \mathbf{M}, \mathbf{M}^2, \ldots, \mathbf{M}^{K-1}]_{ij}, \quad \mathbf{M} = \mathbf{D}^{-1}\mathbf{A}

    Adds ``pair_index``, in which a column :math:`(j, i)` is a pair with source :math:`j` and target :math:`i`, sorted by target and then
    by source, and ``pair_attr`` with the row :math:`\mathbf{P}_{ij}`: target :math:`i` asks where its walks go. (The `public code
    <https://github.com/LiamMa/GRIT/blob/2ecf5c3/grit/transform/rrwp.py>`_ lists the entry of row :math:`i` and column :math:`j` as an edge
    from :math:`i` to :math:`j`, and so hands a target the walks that come in.) A vertex without edges has no walks, so its row of
    :math:`\mathbf{M}` is zero. Walks follow ``edge_index`` as it is listed, in proportion to ``edge_weight`` where there is one, which must not
    be negative.

    A graph of :math:`n` vertices is given :math:`n^2 (4K + 16)` bytes: right for molecules, 1.9 MB for a peptide of 150 vertices and
    :math:`K=17`. Of large datasets, therefore, transform each graph when it is loaded, not all of them beforehand.

    Args:
        num_steps: The number :math:`K` of powers, the zeroth included.

    Shapes:
        - **pair_index:** :math:`(2, n^2)`
        - **pair_attr:** :math:`(n^2, K)`

    Example:
        >>> data = AddRRWP(3)(Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3))
        >>> data.pair_attr[1]  # from the first vertex to the second in zero, one, two steps
        tensor([0., 1., 0.])
    """

    def __init__(self, num_steps: int) -> None:
        if num_steps < 1:
            raise ValueError(f"'num_steps' must be at least 1 (got {num_steps})")
        self.num_steps = num_steps

    def forward(self, data: Data) -> Data:
        """Adds the pairs to a copy of the graph."""
        check_graph(data)
        num_nodes = data.num_nodes
        powers = [torch.eye(num_nodes, dtype=torch.double, device=data.edge_index.device)]
        walk = self._walk(data)
        for _ in range(1, self.num_steps):
            powers.append(powers[-1] @ walk)
        dtype = data.x.dtype if data.x is not None and data.x.is_floating_point() else torch.get_default_dtype()
        vertex = torch.arange(num_nodes, device=data.edge_index.device)
        data.pair_index = torch.stack([vertex.repeat(num_nodes), vertex.repeat_interleave(num_nodes)])
        data.pair_attr = torch.stack(powers, dim=-1).view(-1, self.num_steps).to(dtype)
        return data

    def _walk(self, data: Data) -> Tensor:
        """Returns the matrix of one step."""
        source, target = data.edge_index
        given = data.edge_weight
        weight = torch.ones(source.numel(), device=source.device) if given is None else check_weights_of_walks(given)
        adjacency = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.double, device=source.device)
        adjacency.index_put_((source, target), weight.double(), accumulate=True)
        degree = adjacency.sum(dim=1, keepdim=True)
        return adjacency / degree.masked_fill(degree == 0, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_steps={self.num_steps})"


def check_weights_of_walks(edge_weight: Tensor) -> Tensor:
    """Returns weights in a row; refuses those that are negative, by which no walk can go."""
    weight = edge_weight.flatten()
    if not bool((weight >= 0).all()):
        raise ValueError(
            f"'edge_weight' must not be negative (got {float(weight.min()):.3g}); leave it out, or take absolute values"
        )
    return weight
