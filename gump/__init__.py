"""Graph Unitary Message Passing: states live on arcs, an orthogonal coin mixes them at every vertex, a shift flips every arc."""

from gump import datasets, diagnostics, linalg, loader, nn, transforms
from gump.line_graph import EulerianLineGraph

__version__ = "0.1.0"
__all__ = ["EulerianLineGraph", "datasets", "diagnostics", "linalg", "loader", "nn", "transforms"]
