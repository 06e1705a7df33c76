"""The figures by name, and how their data is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gump.record import Record, plain
from gump.report.figures import ablation, depth, introduction, jacobian, transfer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FigureKind(NamedTuple):
    """A figure of the paper.

    Args:
        shows: What is on it, in a few words.
        configs: The configurations whose records it draws.
        uses_jacobian: Whether it draws measured Jacobians.
        collect: Makes its data of records and of measured Jacobians, of as many as there are; ``missing`` in it says what is not there.
        draw: Draws the data.
    """

    shows: str
    configs: tuple[str, ...]
    uses_jacobian: bool
    collect: Callable[[Sequence[Record], Mapping[str, Any] | None], dict[str, Any]]
    draw: Callable[[Mapping[str, Any]], Figure]


FIGURES = {
    "introduction": FigureKind(
        "Jacobian and accuracy against depth", introduction.CONFIGS, True, introduction.collect, introduction.draw
    ),
    "transfer": FigureKind("accuracy against size, three tasks", transfer.CONFIGS, False, transfer.collect, transfer.draw),
    "jacobian": FigureKind("Jacobian against depth, all systems", jacobian.CONFIGS, True, jacobian.collect, jacobian.draw),
    "depth": FigureKind("accuracy against depth, NCI1", depth.CONFIGS, False, depth.collect, depth.draw),
    "ablation": FigureKind("accuracy without parts of GUMP", ablation.CONFIGS, False, ablation.collect, ablation.draw),
}


def has_content(data: Mapping[str, Any]) -> bool:
    """Whether there is anything to draw."""
    return any(panel.get("lines") or panel.get("bars") for row in data["rows"] for panel in row)


def as_json(data: Mapping[str, Any]) -> str:
    r"""Data as it is saved: numbers with seven digits, null where there is none. A figure drawn from it is the same however often it is saved.

    Example:
        >>> as_json({"mean": 1 / 3, "low": float("nan")})
        '{\n "mean": 0.3333333,\n "low": null\n}\n'
    """
    return json.dumps(plain(data), indent=1, allow_nan=False) + "\n"


def load_data(path: str | os.PathLike[str], name: str) -> dict[str, Any]:
    """Reads the saved data of a figure.

    Args:
        path: The file.
        name: The figure that it must be of.
    """
    try:
        data = json.loads(Path(path).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not saved data of a figure: {error}") from error
    if not isinstance(data, dict) or data.get("figure") != name:
        found = data.get("figure") if isinstance(data, dict) else None
        raise ValueError(f"{path} must be saved data of the figure '{name}' (got {found!r} as its 'figure')")
    rows = data.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, list) and all(isinstance(p, dict) for p in row) for row in rows):
        raise ValueError(f"{path} must have 'rows', which are lists of panels, as saved data of the figure '{name}' has")
    return data
