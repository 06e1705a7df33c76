"""What figures show that no record holds: Jacobians of fresh models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gump.experiment.find_graphs import find_graphs
from gump.experiment.study import DEPTHS, WEIGHTS, jacobian_study

CONTROLLED = ("GUMP", "GUMP (paper)", "GCN", "GIN", "DIGL", "SDRF", "FoSR", "GTR")
"""The systems whose layers can draw their weights by one rule; the rewirings are followed by a GCN."""


def jacobian_data(
    dataset: str = "NCI1",
    num_seeds: int = 3,
    depths: Sequence[int] = DEPTHS,
    hidden_channels: int = 64,
    say: Callable[[str], None] = lambda text: None,
    **which: Any,
) -> dict[str, Any]:
    """Measures what the figure of Jacobians shows: all systems, each with its own initialization, and as controls those that can with one
    and the same. See :func:`gump.experiment.study.jacobian_study`.

    Args:
        dataset: What to take a graph of, as :func:`gump.experiment.find_graphs.find_graphs` knows it.
        num_seeds: How many models are drawn at every depth.
        depths: The numbers of layers.
        hidden_channels: The width of all models.
        say: Told what is measured next.
        which: ``index``, ``pair`` or ``distance``, for another graph and pair than the first at distance ten.

    Returns:
        The data of the figure: a row of panels, one for each rule by which weights are drawn, with a line for each system. It can be
        written as JSON.
    """
    graphs = find_graphs(dataset)
    panels = []
    for weights in WEIGHTS:
        say(f"measuring Jacobians, weights: {weights}")
        names = None if weights == "own" else CONTROLLED
        which |= {"weights": weights, "hidden_channels": hidden_channels, "names": names}
        panels.append(_panel(dataset, jacobian_study(graphs, depths, range(num_seeds), **which)))
    return {"rows": [panels]}


def _panel(dataset: str, study: dict[str, Any]) -> dict[str, Any]:
    lines = [{"name": name, "x": study["depths"], **values} for name, values in study["series"].items()]
    return {"weights": study["about"]["weights"], "about": {"dataset": dataset, **study["about"]}, "lines": lines}
