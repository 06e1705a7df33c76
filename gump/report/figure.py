"""Figures of the report. Matplotlib is imported only when one is drawn."""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gump.files import write_atomically
from gump.report.statistics import PERCENT, SELECTED
from gump.report.style import COLORS, LINES, MARKERS, STYLE, spread_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = 40
"""The most letters of a row's name in one line."""

HANDLE, LETTER, LINE = 0.6, 0.08, 0.18
"""What takes room in a legend, in inches: the sample of a line with the space around it, a letter across, and a line of text from top to bottom."""


def bar_figure(frame: pd.DataFrame, rule: str = SELECTED) -> Figure:
    """Draws ours beside the published numbers, a panel for each dataset, with bars for the 95 % intervals.

    Filled circles are ours, with the plain interval as a thick bar and the corrected one as a thin bar; hollow diamonds are published
    numbers, with the interval as printed. Everything can be told apart without color.

    Args:
        frame: Rows of :func:`gump.report.table.table` from one table.
        rule: How the epoch that counts was chosen, by default as each configuration says.
    """
    import matplotlib
    from matplotlib.figure import Figure

    _require(
        frame, [f"{rule}_mean", f"{rule}_interval", f"{rule}_corrected", "published", "dataset", "method", "setting", "metric"]
    )
    rows = list(dict.fromkeys(zip(frame["method"], frame["setting"], strict=True)))
    datasets = list(dict.fromkeys(frame["dataset"]))
    with matplotlib.rc_context(STYLE):
        figure = Figure(layout="constrained")
        names = [textwrap.fill(method, NAME) + (f"\n{textwrap.fill(setting, NAME)}" if setting else "") for method, setting in rows]
        lines = [line for name in names for line in name.split("\n")]
        height = 1.0 + max(0.42, 0.16 * max(name.count("\n") + 1 for name in names)) * len(rows)
        panels = _panels(
            figure, len(datasets), columns=5, width=2.3, height=height, share=True, beside=LETTER * max(map(len, lines))
        )
        for axes, dataset in zip(panels, datasets, strict=True):
            for _, row in frame[frame["dataset"] == dataset].iterrows():
                y, ours = rows.index((row["method"], row["setting"])), row[f"{rule}_mean"]
                if pd.notna(ours):
                    axes.errorbar(ours, y - 0.12, xerr=_width(row[f"{rule}_corrected"]), color="0.45", elinewidth=0.8, capsize=2.5)
                    axes.errorbar(ours, y - 0.12, xerr=_width(row[f"{rule}_interval"]), color="0.0", elinewidth=2.2, marker="o")
                for number in [row, *row["others"]]:
                    if pd.notna(number["published"]):
                        width = _width(number["published_interval"])
                        axes.errorbar(
                            number["published"],
                            y + 0.18,
                            xerr=width,
                            color="0.35",
                            elinewidth=0.8,
                            marker="D",
                            markerfacecolor="white",
                        )
            axes.set(title=dataset, xlabel=_axis_label(frame, dataset), ylim=(len(rows) - 0.5, -0.5))
            axes.set_yticks(range(len(rows)), names)
            axes.grid(visible=False, axis="y")
        _explain(figure)
    return figure


def curve_figure(frame: pd.DataFrame, x: str, chance: float | None = None, rule: str = SELECTED) -> Figure:
    """Draws a measure against a setting, a panel for each dataset, a line for each method, and a band for the plain 95 % interval.

    Lines differ in dashes and markers as well as in color. Bands of measures in percent end at 0 and 100. The axis is logarithmic if the
    largest value of the setting is sixteen times the smallest or more.

    Args:
        frame: Rows of :func:`gump.report.table.table` from one table.
        x: The setting along the axis, as ``frame["axis"]`` has it, such as ``"dataset.num_nodes"``.
        chance: What guessing gives, drawn as a dotted gray line.
        rule: How the epoch that counts was chosen, by default as each configuration says.
    """
    import matplotlib
    from matplotlib.figure import Figure

    _require(frame, ["axis", "x", "line", "dataset", "metric", f"{rule}_mean", f"{rule}_interval"])
    points = frame[(frame["axis"] == x) & frame[f"{rule}_mean"].notna()]
    if points.empty:
        known = sorted(set(frame["axis"]) - {""})
        raise ValueError(f"'x' must be a setting that was swept, one of {known} (got {x!r})")
    datasets, lines = list(dict.fromkeys(points["dataset"])), list(dict.fromkeys(points["line"]))
    looks = dict(zip(lines, zip(itertools.cycle(COLORS), itertools.cycle(LINES), itertools.cycle(MARKERS)), strict=False))
    with matplotlib.rc_context(STYLE):
        figure = Figure(layout="constrained")
        one_measure = points["metric"].nunique() == 1
        panels = _panels(figure, len(datasets), columns=3, width=3.4, height=2.6, share=one_measure, beside=1.2)
        for axes, dataset in zip(panels, datasets, strict=True):
            for line, (color, dashes, marker) in looks.items():
                part = points[(points["dataset"] == dataset) & (points["line"] == line)].sort_values("x", kind="stable")
                mean, half = part[f"{rule}_mean"], part[f"{rule}_interval"].fillna(0.0)
                axes.plot(part["x"], mean, color=color, linestyle=dashes, marker=marker, label=line)
                low, high = mean - half, mean + half
                if set(part["metric"]) <= PERCENT:
                    low, high = low.clip(lower=0), high.clip(upper=100)
                axes.fill_between(part["x"], low, high, color=color, alpha=0.15, linewidth=0)
            if chance is not None:
                axes.axhline(chance, color="0.5", linestyle=":", linewidth=1.0, label="chance")
            axes.set(title=dataset, xlabel=x, ylabel=_axis_label(points, dataset))
            spread_ticks(axes, list(points["x"]))
        _legend_below(figure, *panels[0].get_legend_handles_labels())
    return figure


def save_figure(
    figure: Figure, path: str | Path, data: pd.DataFrame | None = None, pdf: bool = False, png: bool = False
) -> list[Path]:
    """Writes a figure as SVG, the same bytes for the same data each time, and the data beside it as CSV.

    The bytes are the same for one version of matplotlib; another may draw otherwise.

    Args:
        figure: What to write.
        path: The file; ``.svg`` is its ending whatever is given.
        data: What was drawn.
        pdf: Whether to write a PDF, too.
        png: Whether to write a PNG, too.
    """
    import matplotlib

    path, written = Path(path), []
    wanted = {"svg": True, "pdf": pdf, "png": png}
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    with matplotlib.rc_context(STYLE):
        for ending in (ending for ending, is_wanted in wanted.items() if is_wanted):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, metadata=undated[ending])
            written.append(path.with_suffix(f".{ending}"))
            write_atomically(written[-1], buffer.getvalue())
    if data is not None:
        written.append(path.with_suffix(".csv"))
        write_atomically(written[-1], data.to_csv(index=False, float_format="%.7g", lineterminator="\n").encode())
    return written


def _require(frame: pd.DataFrame, columns: list[str]) -> None:
    if missing := [column for column in columns if column not in frame.columns]:
        raise ValueError(f"'frame' must be rows of gump.report.table (it has no {', '.join(map(repr, missing))})")
    if frame.empty:
        raise ValueError("'frame' must have a row (got none)")


def _width(interval: Any) -> float | None:
    return None if pd.isna(interval) else float(interval)


def _axis_label(frame: pd.DataFrame, dataset: str) -> str:
    metric = frame.loc[frame["dataset"] == dataset, "metric"].iloc[0]
    return f"{metric} (%)" if metric in PERCENT else str(metric)


def _panels(figure: Figure, number: int, columns: int, width: float, height: float, share: bool, beside: float) -> list[Any]:
    """Lays out panels in rows of at most so many, each of a size in inches, and makes the figure as large as they and what is beside them need."""
    num_rows, num_columns = math.ceil(number / columns), min(number, columns)
    figure.set_size_inches(beside + width * num_columns, 0.4 + height * num_rows)
    panels = list(figure.subplots(num_rows, num_columns, sharey=share, squeeze=False).flat)
    for axes in panels[number:]:
        axes.remove()
    return panels[:number]


def _legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Puts a legend below the panels, in as many columns as labels leave room for, long ones in several lines, and makes the figure higher by it."""
    width, height = figure.get_size_inches()
    fitting = {columns: int((width / columns - HANDLE) / LETTER) for columns in (3, 2, 1)}
    columns = next((columns for columns, room in fitting.items() if max(map(len, labels)) <= room), 1)
    wrapped = [textwrap.fill(label, fitting[columns]) for label in labels]
    num_lines = sum(label.count("\n") + 1 for label in wrapped) / columns
    figure.set_size_inches(width, height + LINE * math.ceil(num_lines))
    figure.legend(handles, wrapped, loc="outside lower center", ncols=columns)


def _explain(figure: Figure) -> None:
    """The legend, which is the same whatever is drawn."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color="0.0", marker="o", linewidth=2.2),
        Line2D([], [], color="0.45", linewidth=0.8),
        Line2D([], [], color="0.35", marker="D", markerfacecolor="white", linewidth=0.8),
    ]
    _legend_below(figure, handles, ["ours", "ours, corrected interval", "published"])
