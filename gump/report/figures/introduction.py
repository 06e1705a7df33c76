"""The claim in one picture: Jacobian and accuracy against depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gump.record import Record
from gump.report.figures import depth
from gump.report.figures.jacobian import AXES, medians
from gump.report.figures.panels import line_figure
from gump.report.figures.runs import find_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYSTEMS = {"GCN-GUMP": "GUMP", "GCN": "GCN"}
WANTED = tuple(wanted._replace(name=SYSTEMS[wanted.name]) for wanted in depth.WANTED if wanted.name in SYSTEMS)
CONFIGS = tuple(wanted.config for wanted in WANTED)
NAMES = {
    ("own", "GUMP"): "GUMP",
    ("own", "GCN"): "GCN",
    ("he", "GCN"): "GCN, He weights",
    ("glorot", "GUMP"): "GUMP, Glorot weights",
}
"""Each as it is, and each with the weights that the other one starts with."""


def collect(records: Sequence[Record], jacobian: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """GUMP and GCN on NCI1: the Jacobian at the start, with each other's weights as controls, and the accuracy in the end."""
    lines, missing = find_lines(records, WANTED)
    measured = (
        [(panel["weights"], line) for row in jacobian["rows"] for panel in row for line in medians(panel)] if jacobian else []
    )
    norms = [line | {"name": NAMES[key]} for weights, line in measured if (key := (weights, line["name"])) in NAMES]
    left = {"title": "fresh models", "lines": norms}
    right = {"title": "trained models", "lines": lines}
    band = "left: lowest and highest over seeds; right: plain 95 % interval of the mean over splits"
    return {"band": band, "rows": [[left, right]], "missing": missing}


def draw(data: Mapping[str, Any]) -> Figure:
    """Draws the Jacobian beside the accuracy, both against the number of layers."""
    if [len(row) for row in data["rows"]] != [2]:
        found = " and ".join(str(len(row)) for row in data["rows"]) or "none"
        raise ValueError(f"the data of the figure 'introduction' must have one row of two panels (got {found})")
    [[left, right]] = data["rows"]
    rows = [[left | AXES, right | {"x": "number of layers", "y": "accuracy (%)", "even": True}]]
    return line_figure(rows, width=3.2, height=2.6, columns=2, share=False)
