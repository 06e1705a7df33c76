"""One layer per file. Those that begin with ``Arc`` work on the states of arcs, the others on those of vertices."""

from gump.nn.conv.arc_gcn_conv import ArcGCNConv
from gump.nn.conv.arc_gcnii_conv import ArcGCNIIConv
from gump.nn.conv.arc_gin_conv import ArcGINConv
from gump.nn.conv.arc_graph_conv import ArcGraphConv
from gump.nn.conv.exphormer_conv import ExphormerConv
from gump.nn.conv.grit_conv import GRITConv
from gump.nn.conv.lie_unitary_conv import LieUnitaryConv
from gump.nn.conv.unitary_conv import UnitaryConv

__all__ = ["ArcGCNConv", "ArcGCNIIConv", "ArcGINConv", "ArcGraphConv", "ExphormerConv", "GRITConv", "LieUnitaryConv", "UnitaryConv"]
