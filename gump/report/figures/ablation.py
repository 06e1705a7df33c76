"""What each part of GUMP is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gump.record import Record
from gump.report.figures.runs import Wanted, find_runs
from gump.report.style import HATCHES, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = {"nci1": "NCI1", "proteins": "PROTEINS"}
PARTS = {
    "full": "GUMP",
    "conv_gin": "GIN convolution",
    "conv_graph": "GraphConv",
    "no_projection": "without projection",
    "no_weights": "without weights",
    "no_base": "without base GNN",
}


def _wanted(dataset: str) -> list[Wanted]:
    return [Wanted(f"ablation/{dataset}_{part}", name) for part, name in PARTS.items()]


CONFIGS = tuple(wanted.config for dataset in DATASETS for wanted in _wanted(dataset))
START = 50
"""Where bars begin: what guessing gives for two classes of one size, as in NCI1."""


def collect(records: Sequence[Record], jacobian: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A panel for each dataset, a bar for each part that was taken away or replaced, with its plain 95 % interval."""
    panels, missing = [], {}
    for dataset, title in DATASETS.items():
        bars = []
        for wanted in _wanted(dataset):
            found = find_runs(records, wanted)
            bars += [{"name": wanted.name, **{k: v for k, v in point.items() if k != "x"}} for point in found.points]
            if found.missing:
                missing[wanted.config] = found.missing
        panels.append({"title": title, "bars": bars})
    return {"band": "plain 95 % interval of the mean over splits", "rows": [panels], "missing": missing}


def draw(data: Mapping[str, Any]) -> Figure:
    """Draws bars that begin at 50 %, the number in each, and as a hollow diamond what is published."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = [panel for row in data["rows"] for panel in row if panel["bars"]]
    names = [name for name in PARTS.values() if any(bar["name"] == name for panel in panels for bar in panel["bars"])]
    looks = dict(zip(PARTS.values(), zip(("0.35", "0.8", "0.8", "white", "white", "white"), HATCHES, strict=True), strict=True))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.6 + 2.6 * len(panels), 1.0 + 0.3 * len(names)), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
            start = min([START, *(5 * math.floor(_low(bar) / 5) for bar in panel["bars"])])
            for bar in panel["bars"]:
                y, (color, hatch) = names.index(bar["name"]), looks[bar["name"]]
                axes.barh(
                    y, bar["mean"] - start, left=start, height=0.68, color=color, hatch=hatch, edgecolor="black", linewidth=0.8
                )
                if bar["low"] is not None:
                    axes.errorbar(bar["mean"], y, xerr=bar["mean"] - bar["low"], color="black", elinewidth=1.2, capsize=2.5)
                if bar["published"] is not None:
                    axes.plot(
                        bar["published"], y, color="black", marker="D", markerfacecolor="white", linestyle="", label="published"
                    )
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
                axes.annotate(f"{bar['mean']:.1f}", (start, y), (5, 0), textcoords="offset points", va="center", bbox=box)
            axes.set(title=panel["title"], xlabel=f"accuracy (%), from {start}", ylim=(len(names) - 0.5, -0.5))
            axes.set_xlim(left=start)
            axes.set_yticks(range(len(names)), names)
            axes.grid(visible=False, axis="y")
        handles = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        if handles:
            figure.legend(handles.values(), handles, loc="outside lower center")
    return figure


def _low(bar: Mapping[str, Any]) -> float:
    return bar["mean"] if bar["low"] is None else bar["low"]
