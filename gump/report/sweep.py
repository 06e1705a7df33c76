"""Which rows of a table are points of a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """Where a row lies on a curve.

    Args:
        setting: The setting along the axis, ``"dataset.num_nodes"``.
        value: Its value.
        rest: The settings that tell one curve of a method from another.
    """

    setting: str
    value: float
    rest: str


def find_points(overrides: Sequence[Mapping[str, str]]) -> list[Point | None]:
    """Finds the curve in a family of rows that differ in what was set otherwise than in the file.

    Of the settings that are numbers and differ, the one with the most values runs along the axis, or else the first of them. Those that go
    along with it, as the number of layers with the size of a ring, are not mentioned; all others tell curves apart. A row without a second
    one on its curve is no point.

    Args:
        overrides: For each row the settings with their values.

    Example:
        >>> find_points([{"model.num_layers": "2"}, {"model.num_layers": "4"}, {"train.lr": "0.1"}])
        [Point(setting='model.num_layers', value=2.0, rest=''), Point(setting='model.num_layers', value=4.0, rest=''), None]
    """
    points: list[Point | None] = [None] * len(overrides)
    for keys in {tuple(sorted(row)): tuple(row) for row in overrides}.values():
        members = [i for i, row in enumerate(overrides) if set(row) == set(keys)]
        rows = [overrides[i] for i in members]
        numeric = [key for key in keys if all(_number(row[key]) is not None for row in rows)]
        axis = max(numeric, key=lambda key: len({row[key] for row in rows}), default=None)
        if axis is None or len({row[axis] for row in rows}) < 2:
            continue
        others = [key for key in keys if key != axis and not _goes_along(key, axis, rows)]
        names = [", ".join(f"{key}={row[key]}" for key in others) for row in rows]
        for i, row, name in zip(members, rows, names, strict=True):
            if names.count(name) > 1:
                points[i] = Point(axis, float(row[axis]), name)
    return points


def _goes_along(key: str, axis: str, rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether a setting is decided by the one along the axis and not the same everywhere."""
    values: dict[str, set[str]] = {}
    for row in rows:
        values.setdefault(row[axis], set()).add(row[key])
    return all(len(found) == 1 for found in values.values()) and len({row[key] for row in rows}) > 1


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
