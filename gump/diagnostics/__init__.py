"""A model and a graph in, numbers out; draws nothing."""

from gump.diagnostics.coins import CoinReport, coin_report

__all__ = ["CoinReport", "coin_report"]
