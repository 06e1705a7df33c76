"""Layers and models."""

from gump.nn.arc_linear import ArcFeatures, ArcLinear
from gump.nn.coin import COINS, Coin
from gump.nn.conv import ArcGCNConv, ArcGINConv, ArcGraphConv
from gump.nn.models import GUMP, PRESETS, GraphPredictor, LinkPredictor, NodePredictor
from gump.nn.propagation import Propagation
from gump.nn.readout import mean_of_incoming

__all__ = [
    "COINS",
    "GUMP",
    "PRESETS",
    "ArcFeatures",
    "ArcGCNConv",
    "ArcGINConv",
    "ArcGraphConv",
    "ArcLinear",
    "Coin",
    "GraphPredictor",
    "LinkPredictor",
    "NodePredictor",
    "Propagation",
    "mean_of_incoming",
]
