"""Layers and models."""

from gump.nn.arc_linear import ArcFeatures, ArcLinear
from gump.nn.coin import COINS, Coin
from gump.nn.conv import ArcGCNConv, ArcGCNIIConv, ArcGINConv, ArcGraphConv, ExphormerConv, GRITConv, LieUnitaryConv, UnitaryConv
from gump.nn.embedding import CategoricalEmbedding
from gump.nn.feed_forward import FeedForward
from gump.nn.models import (
    ADGN,
    GCNII,
    GPS,
    GRAND,
    GRIT,
    GUMP,
    KGCNSSM,
    MPNN,
    NBAGNN,
    PRESETS,
    DRewGCN,
    Exphormer,
    GraphMLPMixer,
    GraphPredictor,
    GraphViT,
    LinkPredictor,
    NodePredictor,
    OrthoGCN,
    UnitaryGCN,
)
from gump.nn.norm import BatchNorm
from gump.nn.patch_encoder import PatchEncoder
from gump.nn.propagation import Propagation
from gump.nn.readout import mean_of_incoming

__all__ = [
    "ADGN",
    "COINS",
    "GCNII",
    "GPS",
    "GRAND",
    "GRIT",
    "GUMP",
    "KGCNSSM",
    "MPNN",
    "NBAGNN",
    "PRESETS",
    "ArcFeatures",
    "ArcGCNConv",
    "ArcGCNIIConv",
    "ArcGINConv",
    "ArcGraphConv",
    "ArcLinear",
    "BatchNorm",
    "CategoricalEmbedding",
    "Coin",
    "DRewGCN",
    "Exphormer",
    "ExphormerConv",
    "FeedForward",
    "GRITConv",
    "GraphMLPMixer",
    "GraphPredictor",
    "GraphViT",
    "LieUnitaryConv",
    "LinkPredictor",
    "NodePredictor",
    "OrthoGCN",
    "PatchEncoder",
    "Propagation",
    "UnitaryConv",
    "UnitaryGCN",
    "mean_of_incoming",
]
