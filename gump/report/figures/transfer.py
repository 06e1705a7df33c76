"""Accuracy against size on the transfer tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gump.record import Record
from gump.report.figures.panels import line_figure
from gump.report.figures.runs import Wanted, find_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = {"crossed_ring": "CrossedRing", "ring": "Ring", "clique_path": "CliquePath"}
SYSTEMS = {"gcn_gump": "GCN-GUMP", "gcn": "GCN", "drew": "DRew-GCN", "adgn": "A-DGN"}
FEATURES = {"": "", "_random": ", random features"}
ALONG = ("dataset.num_nodes", "model.num_layers")
SIZES = tuple(range(4, 29, 2))
CHANCE = 20.0


def _wanted(task: str, suffix: str) -> list[Wanted]:
    return [Wanted(f"transfer/{task}_{system}{suffix}", name, ALONG, SIZES) for system, name in SYSTEMS.items()]


CONFIGS = tuple(wanted.config for suffix in FEATURES for task in TASKS for wanted in _wanted(task, suffix))


def collect(records: Sequence[Record], jacobian: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A panel for each task, a row for each kind of features; the band is the range over seeds."""
    rows: list[list[dict[str, Any]]] = []
    missing: dict[str, str] = {}
    for suffix, kind in FEATURES.items():
        rows.append([])
        for task, title in TASKS.items():
            lines, absent = find_lines(records, _wanted(task, suffix), whole_range=True)
            missing |= absent
            rows[-1].append({"title": title + kind, "chance": CHANCE, "lines": lines})
    return {"band": "lowest and highest over seeds", "rows": rows, "missing": missing}


def draw(data: Mapping[str, Any]) -> Figure:
    """Draws accuracy against the number of vertices, as the paper does, and below with random features, which it does not."""
    axes = {"x": "number of vertices", "y": "accuracy (%)"}
    return line_figure([[panel | axes for panel in row] for row in data["rows"]], height=1.9, columns=5)
