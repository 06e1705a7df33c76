"""The figures of the paper, each drawn by a pure function of data that can be saved."""

from gump.report.figures.catalog import FIGURES, FigureKind, as_json, has_content, load_data

__all__ = ["FIGURES", "FigureKind", "as_json", "has_content", "load_data"]
