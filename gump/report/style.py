"""How every figure looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "text.parse_math": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "gump",
    "pdf.fonttype": 42,
}
"""Matplotlib's settings, with what makes a file the same byte for byte each time."""

COLORS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "\\\\\\", "...", "xxx", "---")


def spread_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Puts ticks at the values of a setting, unless they are too many; the axis is logarithmic if they range over a factor of sixteen."""
    values = sorted(set(values))
    if values[0] > 0 and values[-1] / values[0] >= 16:
        axes.set_xscale("log")
    if len(values) <= 14:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
