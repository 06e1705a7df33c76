"""One model per file."""

from gump.nn.models.adgn import ADGN
from gump.nn.models.drew_gcn import DRewGCN
from gump.nn.models.exphormer import Exphormer
from gump.nn.models.gcnii import GCNII
from gump.nn.models.gps import GPS
from gump.nn.models.grand import GRAND
from gump.nn.models.graph_mlp_mixer import GraphMLPMixer
from gump.nn.models.graph_vit import GraphViT
from gump.nn.models.grit import GRIT
from gump.nn.models.gump import GUMP, PRESETS
from gump.nn.models.kgcn_ssm import KGCNSSM
from gump.nn.models.mpnn import MPNN
from gump.nn.models.nba_gnn import NBAGNN
from gump.nn.models.ortho_gcn import OrthoGCN
from gump.nn.models.predictor import GraphPredictor, LinkPredictor, NodePredictor
from gump.nn.models.unitary_gcn import UnitaryGCN

ENCODERS = (
    "ADGN",
    "DRewGCN",
    "Exphormer",
    "GCNII",
    "GPS",
    "GRAND",
    "GRIT",
    "GUMP",
    "GraphMLPMixer",
    "GraphViT",
    "KGCNSSM",
    "MPNN",
    "NBAGNN",
    "OrthoGCN",
    "UnitaryGCN",
)
"""The models that compute representations, from which the predictors answer."""

__all__ = [
    "ADGN",
    "ENCODERS",
    "GCNII",
    "GPS",
    "GRAND",
    "GRIT",
    "GUMP",
    "KGCNSSM",
    "MPNN",
    "NBAGNN",
    "PRESETS",
    "DRewGCN",
    "Exphormer",
    "GraphMLPMixer",
    "GraphPredictor",
    "GraphViT",
    "LinkPredictor",
    "NodePredictor",
    "OrthoGCN",
    "UnitaryGCN",
]
