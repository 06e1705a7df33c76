"""Matrices in, matrices out; knows nothing of graphs."""

from gump.linalg.grover import grover
from gump.linalg.low_rank_blocks import LowRankBlocks, even_blocks
from gump.linalg.low_rank_polar import low_rank_polar
from gump.linalg.minimax import minimax_quintics
from gump.linalg.polar import polar_factor
from gump.linalg.tiles import Tiles
from gump.linalg.unitarity import unitarity_error

__all__ = [
    "LowRankBlocks",
    "Tiles",
    "even_blocks",
    "grover",
    "low_rank_polar",
    "minimax_quintics",
    "polar_factor",
    "unitarity_error",
]
