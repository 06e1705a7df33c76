"""What there is, as tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gump.datasets import load_molhiv, load_peptides, load_planetoid, load_tu, statistics
from gump.datasets.dataset import Dataset
from gump.experiment.config import load_config
from gump.experiment.protocol import PROTOCOLS
from gump.experiment.registry import MODELS, TRANSFORMS

Rows = tuple[list[str], list[list[str]]]

BENCHMARKS: dict[str, Callable[[], Dataset]] = {
    **{name: (lambda name=name: load_tu(name)) for name in ("MUTAG", "PROTEINS", "ENZYMES", "NCI1", "NCI109")},  # type: ignore[misc]
    "Peptides-func": lambda: load_peptides("functional"),
    "Peptides-struct": lambda: load_peptides("structural"),
    "ogbg-molhiv": load_molhiv,
    **{name: (lambda name=name: load_planetoid(name)) for name in ("Cora", "CiteSeer", "PubMed")},  # type: ignore[misc]
}
"""The datasets of the paper's tables."""


COUNTED = ("type", "num_graphs", "avg_nodes", "avg_edges", "avg_arcs", "max_degree", "num_features", "num_targets")


def _datasets(_: Path) -> Rows:
    """The paper's table of statistics, counted in the data; edges are counted once."""
    columns, rows = ["dataset"], []
    for name, load in BENCHMARKS.items():
        try:
            counted = statistics(load())
            columns = ["dataset", *COUNTED]
            rows.append([name, *(_number(counted[column]) for column in COUNTED)])
        except (OSError, ImportError, ValueError) as error:
            rows.append([name, str(error)])
    columns += ["what is wrong"] * (len(columns) == 1)
    return columns, [row + [""] * (len(columns) - len(row)) for row in rows]


def _described(things: dict[str, Any]) -> Rows:
    rows = []
    for name, thing in sorted(things.items()):
        first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
        rows.append([name, first])
    return ["name", "what it is"], rows


def _configs(folder: Path) -> Rows:
    rows = []
    for path in sorted(folder.rglob("*.toml")):
        config = load_config(path)[0]
        value, interval = config.published.get("value"), config.published.get("interval")
        rows.append([str(path), "" if value is None else f"{value}" + ("" if interval is None else f" ± {interval}")])
    return ["configuration", "published"], rows


TABLES: dict[str, Callable[[Path], Rows]] = {
    "datasets": _datasets,
    "models": lambda _: _described(MODELS),
    "transforms": lambda _: _described(TRANSFORMS),
    "protocols": lambda _: _described(PROTOCOLS),
    "configs": _configs,
}


def listing(name: str, configs: Path) -> Rows:
    """The columns and rows of one table."""
    return TABLES[name](configs)


def _number(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
