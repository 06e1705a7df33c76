"""Accuracy against depth on NCI1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gump.record import Record
from gump.report.figures.panels import line_figure
from gump.report.figures.runs import Wanted, find_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYERS = (2, 4, 10, 20, 50, 100)
WANTED = tuple(
    Wanted(f"depth/nci1_{stem}", name, ("model.num_layers",), LAYERS)
    for stem, name in {
        "gcn_gump": "GCN-GUMP",
        "gcn_gump_no_norm": "GCN-GUMP, no norm",
        "gcn_gump_residual": "GCN-GUMP, residual",
        "gcn": "GCN",
        "gcn_fosr": "FoSR",
    }.items()
)
CONFIGS = tuple(wanted.config for wanted in WANTED)
PUBLISHED = (
    {"name": "GCN-GUMP", "x": [2, 10], "y": [75.88, 77.97]},
    {"name": "FoSR", "x": [2, 10], "y": [66.06, 52.86]},
)
"""The points of the paper's figure that its text has as numbers."""


def collect(records: Sequence[Record], jacobian: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A line for each system, with its plain 95 % interval, and the published points."""
    lines, missing = find_lines(records, WANTED)
    panel = {"title": "NCI1", "lines": lines, "marks": list(PUBLISHED)}
    return {"band": "plain 95 % interval of the mean over splits", "rows": [[panel]], "missing": missing}


def draw(data: Mapping[str, Any]) -> Figure:
    """Draws accuracy against the number of layers, and as large hollow marks what the paper prints."""
    axes = {"x": "number of layers", "y": "accuracy (%)"}
    return line_figure([[panel | axes for panel in row] for row in data["rows"]], width=3.4, height=2.6, columns=2)
