"""One layer per file: what is done with the states before and after they are propagated."""

from gump.nn.conv.arc_gcn_conv import ArcGCNConv
from gump.nn.conv.arc_gin_conv import ArcGINConv
from gump.nn.conv.arc_graph_conv import ArcGraphConv

__all__ = ["ArcGCNConv", "ArcGINConv", "ArcGraphConv"]
