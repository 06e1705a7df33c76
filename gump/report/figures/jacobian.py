"""The Jacobian between two distant vertices against depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gump.record import Record
from gump.report.figures.panels import line_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIGS: tuple[str, ...] = ()
TITLES = {
    "own": "weights as each method has them",
    "he": "control: layers with He weights",
    "glorot": "control: layers with Glorot weights",
}
AXES = {"x": "number of layers", "y": "norm of the Jacobian, median", "even": True, "log": True}
LIMITS = (1e-20, 1e8)
"""Room for those that decay. What grows beyond (DRew, GIN with other weights than its own) or falls below (GIN) leaves the frame."""


def collect(records: Sequence[Record], jacobian: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What was measured is what is drawn: a panel for each rule by which weights are drawn."""
    return dict(jacobian or {"rows": []})


def draw(data: Mapping[str, Any]) -> Figure:
    """Draws the median of the spectral norm against the number of layers, since the mean would follow the luckiest seed. Zero, where nothing
    arrives at all, has no place on the axis and is left out."""
    names = {line["name"]: None for row in data["rows"] for panel in row for line in panel["lines"]}
    rows = [[panel | AXES | _frame(panel, list(names)) | {"lines": medians(panel)} for panel in row] for row in data["rows"]]
    return line_figure(
        rows, width=3.3, height=3.2, columns=6, title=_pair(next(panel["about"] for row in data["rows"] for panel in row))
    )


def medians(panel: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of a panel with the median over seeds, which of one and of three is known from mean, lowest and highest."""
    lines = [dict(line) for line in panel["lines"]]
    for line in lines:
        if "median" not in line and len(panel["about"]["seeds"]) in (1, 3):
            each = zip(line["mean"], line["low"], line["high"], strict=True)
            line["median"] = [min(max(3 * mean - low - high, low), high) for mean, low, high in each]
        elif "median" not in line:
            raise ValueError(
                f"'data' must have the median of every line (got none for {line['name']}); gump figure jacobian --measure saves it"
            )
    return lines


def _frame(panel: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    absent = [name for name in names if name not in {line["name"] for line in panel["lines"]}]
    title = TITLES[panel["weights"]] + (f"\n(not for {', '.join(absent)})" if absent else "")
    return {"title": title, "limits": LIMITS, "named": True}


def _pair(about: Mapping[str, Any]) -> str:
    apart = "no path between them" if about["distance"] is None else f"distance {about['distance']}"
    return f"{about.get('dataset', 'NCI1')}, graph {about['graph']}, from vertex {about['source']} to {about['target']}: {apart}"
