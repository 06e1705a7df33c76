"""One large graph in, small graphs out."""

from gump.loader.arc_neighbor_loader import ArcNeighborLoader

__all__ = ["ArcNeighborLoader"]
