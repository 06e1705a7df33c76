"""Labels of edges as relations, for networks with weights of their own for each."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.checks import check_graph


@functional_transform("add_edge_type")
class AddEdgeType(BaseTransform):
    """Numbers the labels of edges, such as kinds of bonds, so that each has weights of its own in :class:`gump.nn.MPNN`.

    Reads one-hot ``edge_attr``, as the TU collection has them, and leaves it as it is. Adds ``edge_type``, the column of the one, for
    ``num_relations`` as large as ``edge_attr`` has columns. A rewiring with ``relation=True`` numbers edges in another way, so a graph can have but
    one of the two.

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
        if attr.dim() != 2 or not attr.size(1):
            raise ValueError(f"'data.edge_attr' must have a column for every label (got shape {list(attr.shape)})")
        is_label = ((attr == 0) | (attr == 1)).all(dim=1) & (attr.sum(dim=1) == 1)
        if not is_label.all():
            raise ValueError(
                f"'data.edge_attr' must have a single 1 in every row and 0 elsewhere (got {attr[~is_label][0].tolist()})"
            )
        data.edge_type = attr.argmax(dim=1)
        return data
