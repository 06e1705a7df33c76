"""Matrices in, matrices out; knows nothing of graphs."""

from gump.linalg.grover import grover
from gump.linalg.minimax import minimax_quintics
from gump.linalg.polar import polar_factor
from gump.linalg.unitarity import unitarity_error

__all__ = ["grover", "minimax_quintics", "polar_factor", "unitarity_error"]
