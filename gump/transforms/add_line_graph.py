"""Builds the line graph once, not in every forward."""

from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.line_graph import EulerianLineGraph
from gump.transforms.checks import check_graph


@functional_transform("add_line_graph")
class AddLineGraph(BaseTransform):
    """Puts the Eulerian line graph on a graph, as plain tensors that a PyG ``DataLoader`` batches.

    Adds ``arc_index``, ``arc_reverse``, ``edge_arc`` and ``arc_directed``; ``edge_index`` and the features stay as they are.
    Apply it last: a transform that changes edges or vertices leaves it behind, and :meth:`gump.EulerianLineGraph.from_data` then refuses; some of
    PyG's transforms take ``arc_index`` for an attribute of edges or vertices, where there are as many, and may fail by themselves.
    ``arc_index`` holds vertices, so PyG shifts it by the number of nodes like every ``*_index``. ``arc_reverse`` and ``edge_arc``
    hold arcs and count from the first arc of their own graph; :meth:`gump.EulerianLineGraph.from_data` adds where that lies in
    the batch. Works on any subclass of ``Data`` but a batch, needs no subclass of its own.

    Args:
        directed: Whether the orientation of an edge means something.

    Example:
        >>> data = AddLineGraph()(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
        >>> EulerianLineGraph.from_data(data)
        EulerianLineGraph(num_nodes=3, num_arcs=4, num_transitions=6, max_degree=2)
    """

    def __init__(self, directed: bool = False) -> None:
        self.directed = directed

    def forward(self, data: Data) -> Data:
        """Adds the line graph to a copy of the graph."""
        check_graph(data)
        line_graph = EulerianLineGraph.from_edge_index(data.edge_index, data.num_nodes, self.directed)
        data.arc_index, data.arc_reverse = line_graph.arcs, line_graph.reverse
        data.edge_arc, data.arc_directed = line_graph.edge_arc, self.directed
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(directed={self.directed})"
