"""From records to what a figure draws, and to what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gump.record import Record
from gump.report.labels import split_variant
from gump.report.statistics import SELECTED, Summary, value_at
from gump.report.table import group_records


class Wanted(NamedTuple):
    """The runs behind one line or bar.

    Args:
        config: Their configuration, such as ``"depth/nci1_gcn"``.
        name: What they are called in the figure.
        along: The settings that its sweep changes, that along the axis first.
        values: The values of that setting.
    """

    config: str
    name: str
    along: tuple[str, ...] = ()
    values: tuple[int, ...] = ()


class Found(NamedTuple):
    """What there is of it.

    Args:
        points: For each value that was run the ``x``, the ``mean`` in the unit of tables, ``low`` and ``high``, the number of ``runs``, and the
            ``published`` number of the configuration.
        missing: What was not run, in words; empty if nothing.
    """

    points: list[dict[str, Any]]
    missing: str


def find_runs(records: Sequence[Record], wanted: Wanted, whole_range: bool = False) -> Found:
    """Looks up the runs behind a line.

    Runs with any setting changed that the sweep does not change are no part of it. The number of runs that there should be is that of the
    protocol.

    Args:
        records: Runs of any configurations.
        wanted: Which of them.
        whole_range: Whether the band is from the lowest to the highest run, rather than the plain 95 % interval. With three runs there
            is little else to say.
    """
    points, short, absent = [], [], list(wanted.values)
    own = [record for record in records if record.name == wanted.config]
    for (_, variant), group in group_records(own).items():
        settings = split_variant(variant)
        if set(settings) != set(wanted.along):
            continue
        x = int(settings[wanted.along[0]]) if wanted.along else 0
        absent = [value for value in absent if value != x]
        planned = int(group[0].settings["protocol"].get("num_runs", len(group)))
        where = f"{wanted.along[0]}={x}: " if wanted.along else ""
        if len(group) < planned:
            short.append(f"{where}{len(group)} of {planned} runs")
        estimate = Summary.of(group).estimates.get(SELECTED)
        if estimate is None:
            short.append(f"{where}all runs diverged")
            continue
        values = [value for record in group if (value := value_at(record, SELECTED)) is not None]
        low, high = (
            (min(values), max(values)) if whole_range else (estimate.mean - estimate.interval, estimate.mean + estimate.interval)
        )
        published = group[0].published.get("value")
        points.append({"x": x, "mean": estimate.mean, "low": low, "high": high, "runs": len(values), "published": published})
    if absent and len(absent) < len(wanted.values):
        short.append(f"{wanted.along[0]}={','.join(map(str, absent))}: no record")
    elif absent or not (points or short):
        short.append("no record")
    return Found(sorted(points, key=lambda point: point["x"]), "; ".join(short))


def as_line(found: Found, wanted: Wanted) -> dict[str, Any]:
    """Points as columns, the way a panel takes them."""
    return {"name": wanted.name, **{key: [point[key] for point in found.points] for key in ("x", "mean", "low", "high", "runs")}}


def find_lines(
    records: Sequence[Record], wanted: Sequence[Wanted], whole_range: bool = False
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The lines that there are, and by configuration what is missing."""
    found = {line: find_runs(records, line, whole_range) for line in wanted}
    lines = [as_line(runs, line) for line, runs in found.items() if runs.points]
    return lines, {line.config: runs.missing for line, runs in found.items() if runs.missing}
