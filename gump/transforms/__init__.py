"""Graph in, graph out."""

from gump.transforms.add_edge_type import AddEdgeType
from gump.transforms.add_line_graph import AddLineGraph
from gump.transforms.add_patches import AddPatches
from gump.transforms.cap_degree import CapDegree
from gump.transforms.digl import DIGL
from gump.transforms.eldan_add import EldanAdd
from gump.transforms.expander import AddExpander
from gump.transforms.fosr import FoSR
from gump.transforms.gtr import GTR
from gump.transforms.hops import AddHops
from gump.transforms.laser import LASER
from gump.transforms.proxy_add import ProxyAdd
from gump.transforms.proxy_del import ProxyDel
from gump.transforms.rrwp import AddRRWP
from gump.transforms.sdrf import SDRF

__all__ = [
    "DIGL",
    "GTR",
    "LASER",
    "SDRF",
    "AddEdgeType",
    "AddExpander",
    "AddHops",
    "AddLineGraph",
    "AddPatches",
    "AddRRWP",
    "CapDegree",
    "EldanAdd",
    "FoSR",
    "ProxyAdd",
    "ProxyDel",
]
