"""The Jacobian between two distant vertices against depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gump.record import Record
from gump.report.figures.panels import line_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIGS: tuple[str, ...] = ()
TITLES = {"own": "weights as each method has them", "he": "control: He weights in all", "glorot": "control: Glorot weights in all"}
AXES = {"x": "number of layers", "y": "norm of the Jacobian", "even": True, "log": True}
LIMITS = (1e-20, 1e8)
"""Room for those that decay. What grows beyond (DRew, GIN with other weights than its own) or falls below (GIN) leaves the frame."""


def collect(records: Sequence[Record], jacobian: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What was measured is what is drawn: a panel for each rule by which weights are drawn."""
    return dict(jacobian or {"rows": []})


def draw(data: Mapping[str, Any]) -> Figure:
    """Draws the spectral norm against the number of layers. Zero, where nothing arrives at all, has no place on the axis and is left out."""
    rows = [[panel | AXES | {"limits": LIMITS, "title": TITLES[panel["weights"]]} for panel in row] for row in data["rows"]]
    return line_figure(rows, width=2.7, height=3.0, columns=6)
