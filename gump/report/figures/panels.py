"""Panels of lines, the stuff that most figures are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gump.report.style import COLORS, LINES, STYLE, spread_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, BLUE, RED, GREEN, PINK, YELLOW = COLORS
SOLID, DASHED, DASHDOTTED, DOTTED, LONG, SHORT = LINES
NAME_GAP = 0.042
"""How much of a panel's height a small name takes."""

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Look(NamedTuple):
    """How a system is drawn. Dashes and marker are enough to tell it; a hollow marker is for a variant."""

    color: str
    dashes: Any
    marker: str
    hollow: bool = False


LOOKS = {
    "GUMP": Look(BLACK, SOLID, "o"),
    "GCN-GUMP": Look(BLACK, SOLID, "o"),
    "GUMP (paper)": Look(BLACK, DASHED, "o", hollow=True),
    "GCN-GUMP, no norm": Look(BLACK, DASHED, "o", hollow=True),
    "GCN-GUMP, residual": Look(BLACK, DASHDOTTED, "o", hollow=True),
    "GUMP, Glorot weights": Look(BLACK, DOTTED, "o", hollow=True),
    "GCN": Look(BLUE, DASHED, "s"),
    "GCN, He weights": Look(BLUE, DOTTED, "s", hollow=True),
    "GIN": Look(RED, DASHDOTTED, "^"),
    "DIGL": Look(GREEN, DOTTED, "D"),
    "SDRF": Look(PINK, LONG, "v"),
    "FoSR": Look(YELLOW, SHORT, "P"),
    "GTR": Look(BLUE, DASHDOTTED, "X"),
    "DRew": Look(RED, LONG, ">"),
    "DRew-GCN": Look(RED, LONG, ">"),
    "A-DGN": Look(GREEN, DASHDOTTED, "<"),
    "UnitaryGCN": Look(PINK, SOLID, "*"),
}
"""The same system looks the same in every figure."""


def line_figure(
    rows: Sequence[Sequence[Mapping[str, Any]]],
    width: float = 2.6,
    height: float = 2.4,
    columns: int = 4,
    share: bool = True,
    title: str | None = None,
) -> Figure:
    """Draws panels of lines in rows, with one legend below.

    Panels without lines, and rows without panels, are left out.

    Args:
        rows: The panels of each row. A panel has a ``title``, the names of its axes ``x`` and ``y``, and ``lines``: each with a ``name`` that
            :data:`LOOKS` knows, ``x``, what is drawn, ``median`` or else ``mean``, and the band from ``low`` to ``high``. It may have ``chance``, a
            dotted line; ``marks``, published numbers with a ``name``, ``x`` and ``y``; ``even``, for a horizontal axis that is not logarithmic;
            ``log``, for a vertical one that is, and its ``limits``, beyond which lines leave the frame; and ``named``, for lines that have
            their names at their ends and take turns with markers, so that they can be told where many coincide.
        width: Of a panel, in inches.
        height: Of a panel, in inches.
        columns: Of the legend.
        share: Whether all panels have one vertical axis.
        title: What is above all panels.
    """
    import matplotlib
    from matplotlib.figure import Figure

    drawn = [kept for row in rows if (kept := [panel for panel in row if panel["lines"]])]
    if not drawn:
        raise ValueError("'rows' must have a panel with a line (got none)")
    num_columns = max(map(len, drawn))
    labels = {line["name"]: None for row in drawn for panel in row for line in panel["lines"]}
    with matplotlib.rc_context(STYLE):
        size = (0.5 + width * max(num_columns, 1.4), 0.3 + height * len(drawn) + 0.19 * math.ceil((len(labels) + 2) / columns))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(drawn), num_columns, sharey=share, squeeze=False)
        handles: dict[str, Any] = {}
        for axes_row, panels in zip(grid, drawn, strict=True):
            for axes, panel in zip(axes_row, panels, strict=False):
                _draw(axes, panel)
                handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
            for axes in axes_row[len(panels) :]:
                axes.remove()
            if share:
                for axes in axes_row[1 : len(panels)]:
                    axes.set_ylabel("")
        if title:
            figure.suptitle(title, fontsize="medium")
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns)
    return figure


def _draw(axes: Axes, panel: Mapping[str, Any]) -> None:
    few, curves = len(panel["lines"]) <= 5, {}
    for i, line in enumerate(panel["lines"]):
        look = LOOKS[line["name"]]
        middle = "median" if "median" in line else "mean"
        center, low, high = ([_drawable(value, panel) for value in line[key]] for key in (middle, "low", "high"))
        axes.fill_between(line["x"], low, high, color=look.color, alpha=0.12, linewidth=0)
        curves[line["name"]] = list(zip(line["x"], center, strict=True))
        face = "white" if look.hollow else look.color
        axes.plot(
            line["x"],
            center,
            color=look.color,
            linestyle=look.dashes,
            marker=look.marker,
            markerfacecolor=face,
            markersize=4 + 0.8 * i if few else 4.5,  # where lines coincide, the ones below stick out
            markevery=(i % 3, 3) if panel.get("named") else None,
            zorder=3 - 0.01 * i,
            label=line["name"],
        )
    for mark in panel.get("marks", ()):
        look = LOOKS[mark["name"]]
        axes.plot(
            mark["x"],
            mark["y"],
            color=look.color,
            linestyle="",
            marker=look.marker,
            markersize=9,
            markerfacecolor="none",
            label=f"{mark['name']}, published",
        )
    if panel.get("chance") is not None:
        axes.axhline(panel["chance"], color="0.5", linestyle=":", linewidth=1.0, label="chance")
    axes.set(title=panel["title"], xlabel=panel["x"], ylabel=panel["y"])
    if panel.get("even"):
        axes.set_xlim(left=0)
    else:
        spread_ticks(axes, [x for line in panel["lines"] for x in line["x"]])
    if panel.get("log"):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, position: f"10{str(round(math.log10(value))).translate(RAISED)}")
        axes.set_ylim(panel.get("limits"))
    if panel.get("named"):
        _name_curves(axes, curves)


def _name_curves(axes: Axes, curves: Mapping[str, list[tuple[float, float]]]) -> None:
    """Writes the name of every curve beside the frame, in the order in which they end, with a thin stroke between; or where it leaves the frame."""
    (low, high), ends = axes.get_ylim(), []
    for name, curve in curves.items():
        inside = [point for point in curve if low <= point[1] <= high]
        if inside and inside[-1] == curve[-1]:
            height = axes.transAxes.inverted().transform(axes.transData.transform(curve[-1]))[1]
            ends.append((float(height), name, curve[-1]))
        elif inside:
            axes.annotate(name, inside[-1], (6, 0), textcoords="offset points", va="center", fontsize="x-small")
    ends.sort()
    places = _spread([height for height, _, _ in ends])
    for (_, name, point), place in zip(ends, places, strict=True):
        stroke = {"arrowstyle": "-", "color": "0.4", "linewidth": 0.5, "relpos": (0, 0.5), "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            name,
            point,
            (1.06, place),
            textcoords="axes fraction",
            va="center",
            fontsize="x-small",
            arrowprops=stroke,
            annotation_clip=False,
        )


def _spread(heights: Sequence[float]) -> list[float]:
    """Moves ascending heights apart as far as text needs, up from the lowest and then down again from the top."""
    places = list(heights)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + NAME_GAP)
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], 1.0 if i == len(places) - 1 else places[i + 1] - NAME_GAP)
    return places


def _drawable(value: float | None, panel: Mapping[str, Any]) -> float:
    """NaN for what cannot be drawn: a number that there is not, or one without an order of magnitude."""
    return math.nan if value is None or (panel.get("log") and value <= 0) else value
