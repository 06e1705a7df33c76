"""One model per file."""

from gump.nn.models.gump import GUMP, PRESETS
from gump.nn.models.predictor import GraphPredictor, LinkPredictor, NodePredictor

__all__ = ["GUMP", "PRESETS", "GraphPredictor", "LinkPredictor", "NodePredictor"]
