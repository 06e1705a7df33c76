"""Graph in, graph out."""

from gump.transforms.add_line_graph import AddLineGraph

__all__ = ["AddLineGraph"]
