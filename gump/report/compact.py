"""Short tables: a row for several numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from gump.report.layout import (
    NONE,
    duration,
    filled,
    head,
    measured,
    num_runs,
    plus_minus,
    published_number,
    with_intervals,
)
from gump.report.statistics import SELECTED


def curves(frame: pd.DataFrame, marks: Sequence[str] | None = None, intervals: bool = True) -> pd.DataFrame:
    """Lays curves out, a row for each, with a column for every value of the setting along the axis.

    Args:
        frame: Rows of :func:`gump.report.table.table` that are points of curves along one axis, from one table.
        marks: For each row, what to put behind the method, such as references to footnotes.
        intervals: Whether means have their plain intervals beside them; without them they have a digit less.
    """
    rows = []
    columns = {x: f"{x:g}" for x in sorted(set(frame["x"]))}
    marked = frame.assign(mark=list(marks) if marks is not None else "")
    for (dataset, line), points in marked.groupby(["dataset", "line"], sort=False):
        cells = dict.fromkeys(columns.values(), NONE)
        for _, point in points.iterrows():
            mean, interval, metric = point[f"{SELECTED}_mean"], point[f"{SELECTED}_interval"], point["metric"]
            cells[columns[point["x"]]] = plus_minus(mean, interval, metric) if intervals else measured(mean, metric, fewer=1)
        published = dict.fromkeys(text for _, point in points.iterrows() for text in published_numbers(point))
        rows.append(
            {
                "Dataset": dataset,
                "Method": line + "".join(dict.fromkeys(points["mark"])),
                **cells,
                "Published": "; ".join(published) or NONE,
                "Verdict": _verdicts(points["verdict"]),
                **made(points),
            }
        )
    return filled(pd.DataFrame(rows))


def listed(frame: pd.DataFrame, marks: Sequence[str] | None = None) -> pd.DataFrame:
    """Lays rows out one by one, with a column for every source of published numbers, and behind each of those ours less it.

    Args:
        frame: Rows of :func:`gump.report.table.table` from one table.
        marks: For each row, what to put behind the method, such as references to footnotes.
    """
    sources = source_letters(frame)
    rows = []
    for (_, row), mark in zip(frame.iterrows(), marks or [""] * len(frame), strict=True):
        published = {entry["source"]: published_number(entry) + _difference(row, entry) for entry in published_entries(row)}
        rows.append(
            {
                "Dataset": row["dataset"],
                "Method": method_of(row) + mark,
                f"Ours ({_heads(frame)})": ours(row),
                **{f"Published ({source})" if source else "Published": published.get(source, NONE) for source in sources},
                "Verdict": row["verdict"] or NONE,
                **made(frame.loc[[row.name]]),
            }
        )
    return filled(pd.DataFrame(rows))


def matrix(frame: pd.DataFrame, marks: Sequence[str] | None = None) -> pd.DataFrame:
    """Lays rows out with a row for each method and a column for each dataset, the published numbers and the verdict in parentheses.

    Args:
        frame: Rows of :func:`gump.report.table.table` from one table.
        marks: For each row, what to put behind its number, such as references to footnotes.
    """
    datasets = list(dict.fromkeys(frame["dataset"]))
    rows = []
    letters = source_letters(frame)
    marked = frame.assign(shown=[method_of(row) for _, row in frame.iterrows()], mark=list(marks) if marks is not None else "")
    for method, group in marked.groupby("shown", sort=False):
        cells = dict.fromkeys(datasets, NONE)
        for _, row in group.iterrows():
            published = [published_number(entry) + letters[entry["source"]] for entry in published_entries(row)]
            beside = "; ".join([*published, *filter(None, [row["verdict"]])])
            cells[row["dataset"]] = ours(row) + (f" ({beside})" if beside else "") + row["mark"]
        rows.append({"Method": method, **cells, **made(group)})
    return filled(pd.DataFrame(rows)).rename(columns={d: f"{d} ({head(frame, d)})" for d in datasets})


def source_letters(frame: pd.DataFrame) -> dict[str, str]:
    """The sources of published numbers and what stands for each in a matrix: a letter in parentheses; nothing if there is one source only."""
    sources = dict.fromkeys(entry["source"] for _, row in frame.iterrows() for entry in published_entries(row))
    return {source: f" ({chr(ord('a') + i)})" if len(sources) > 1 else "" for i, source in enumerate(sources)}


def ours(row: Any) -> str:
    """Mean ± plain interval [corrected interval, where it applies]."""
    mean, interval, corrected = (row[f"{SELECTED}_{what}"] for what in ("mean", "interval", "corrected"))
    return with_intervals(mean, interval, corrected, row["metric"])


def published_numbers(row: Any) -> list[str]:
    """The published numbers of a row, each with its source."""
    return [published_number(entry) + (f" ({entry['source']})" if entry["source"] else "") for entry in published_entries(row)]


def made(rows: pd.DataFrame) -> dict[str, str]:
    """How many runs there are in each of some rows, and what made them: the hardware, the time of all together, and the commits."""
    runs = dict.fromkeys(num_runs(*pair) for pair in sorted(zip(rows["num_runs"], rows["num_planned"], strict=True)))
    diverged = f" ({rows['num_diverged'].sum()} diverged)" if rows["num_diverged"].sum() else ""
    beside = list(dict.fromkeys(filter(None, rows["side_by_side"])))
    part = "" if rows["side_by_side"].all() else "in part "
    return {
        "Selected by": ", ".join(dict.fromkeys(rows["select"])),
        "Runs": ", ".join(runs) + diverged,
        "Hardware": _distinct(rows["hardware"]),
        "Time": duration(rows["time_s"].sum(skipna=False)) + (f" ({part}{' or '.join(beside)} side by side)" if beside else ""),
        "Commit": _distinct(rows["commit"]),
    }


def _distinct(cells: pd.Series) -> str:
    return ", ".join(dict.fromkeys(part for cell in cells if cell for part in cell.split(", "))) or NONE


def published_entries(row: Any) -> list[Any]:
    """The published numbers of a row, each as a table with ``published``, ``published_interval`` and ``source``."""
    return [entry for entry in [row, *row["others"]] if pd.notna(entry["published"])]


def _difference(row: Any, entry: Any) -> str:
    """Ours less a published number, in parentheses."""
    if pd.isna(difference := row[f"{SELECTED}_mean"] - entry["published"]):
        return ""
    return f" ({measured(difference, row['metric'], sign='+')})"


def method_of(row: Any) -> str:
    """What a row is called: its method, with what was set otherwise."""
    return f"{row['method']}, {row['setting']}" if row["setting"] else str(row["method"])


def _heads(frame: pd.DataFrame) -> str:
    return "; ".join(dict.fromkeys(head(frame, dataset) for dataset in dict.fromkeys(frame["dataset"])))


def _verdicts(verdicts: pd.Series) -> str:
    """The verdict on all points, or on how many of them each."""
    counts = verdicts[verdicts != ""].value_counts(sort=False)
    if len(counts) == 1 and counts.iloc[0] == len(verdicts):
        return f"{counts.index[0]}, at all {len(verdicts)}"
    return ", ".join(f"{verdict} at {count} of {len(verdicts)}" for verdict, count in sorted(counts.items())) or NONE
