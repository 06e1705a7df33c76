"""Labels of edges as relations, for networks with weights of their own for each."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.checks import check_graph


@functional_transform("add_edge_type")
class AddEdgeType(BaseTransform):
    """Numbers the labels of edges, such as kinds of bonds, so that each has weights of its own in :class:`gump.nn.MPNN`.

    Reads one-hot ``edge_attr``, as the TU collection has them, and leaves it as it is. Adds ``edge_type``, the column of the one; pass as many
    ``num_relations`` as ``edge_attr`` has columns. It does not go with rewirings, which number edges in another way: those that they add would
    count as edges of the first label.

    Shapes:
        - **edge_type:** :math:`(E)`

    Example:
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.tensor([[0., 1.], [0., 1.]]), num_nodes=2)
        >>> AddEdgeType()(data).edge_type
        tensor([1, 1])
    """

    def forward(self, data: Data) -> Data:
        """Adds the numbers to a copy of the graph."""
        check_graph(data)
        attr = data.edge_attr
        if attr is None:
            raise ValueError("'data' must have 'edge_attr', labels of its edges (got none)")
        if "edge_type" in data:
            raise ValueError("'data' must not have 'edge_type' already (got one); rename it, or leave it and this transform out")
        if not isinstance(attr, Tensor) or attr.dim() != 2 or attr.size(0) != data.edge_index.size(1) or not attr.size(1):
            came = f"shape {list(attr.shape)}" if isinstance(attr, Tensor) else attr
            raise ValueError(
                f"'data.edge_attr' must have a row for each of the {data.edge_index.size(1)} edges, with a column for every label (got {came})"
            )
        is_label = ((attr == 0) | (attr == 1)).all(dim=1) & (attr.sum(dim=1) == 1)
        if not is_label.all():
            row = attr[~is_label][0].tolist()
            raise ValueError(
                f"'data.edge_attr' must have a single 1 in every row and 0 elsewhere (got {row}); edges that a rewiring added have none"
            )
        data.edge_type = attr.int().argmax(dim=1)
        return data
