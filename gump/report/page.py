"""The report: a page of Markdown with its figures."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from gump.files import write_atomically
from gump.record import RULES, Record, load_records
from gump.report.commands import condensed
from gump.report.compact import curves
from gump.report.comparisons import comparisons
from gump.report.figure import bar_figure, curve_figure, save_figure
from gump.report.labels import AGAIN, is_search
from gump.report.layout import comparison, costs, details, markdown, overview
from gump.report.reading import PAGE
from gump.report.statistics import SELECTED
from gump.report.table import table


def write_report(
    records: str | os.PathLike[str] | Sequence[Record],
    folder: str | os.PathLike[str],
    title: str | None = None,
    file_name: str = "REPORT.md",
    planned: Sequence[Record] = (),
) -> Path:
    """Writes what was run beside what was published: a page, its figures, and the data of both as CSV.

    The same records give the same bytes. Files of the same names are replaced, others are left alone. Searches are left out: among their points a
    choice is to be made, in which no test set may have a say.

    Args:
        records: The runs, or the folder that holds their records.
        folder: Where to write.
        title: The heading of the page.
        file_name: The name of the page.
        planned: Of every configuration, with every point of its sweep, a record without results; it makes commands shorter.

    Returns:
        The page's path.
    """
    found = [record for record in read_records(records) if not is_search(record)]
    if not found:
        raise ValueError("'records' must hold results (got searches alone); `gump best` orders the points of one by validation")
    frame, pairs, folder = table(found), comparisons(found), Path(folder)
    parts = [
        f"# {title or 'Ours beside the published numbers'}",
        f"Written by `gump report` from {_count(len(found), 'record')} of {_count(len(frame), 'configuration')}.",
        *_verdicts(frame),
    ]
    footnotes: dict[str, str] = {}
    for name, rows in frame.groupby("table", sort=False):
        parts += [f"## {name}", *_figures(str(name), rows, folder)]
        parts += _sections(rows, pairs[pairs["table"] == name], footnotes, planned)
    parts += ["## How to read this", PAGE]
    parts += [f"[^{mark}]: {' '.join(note.split())}" for note, mark in footnotes.items()]
    data = frame.assign(others=frame["others"].map(json.dumps), notes=frame["notes"].map(json.dumps))
    for stem, content in (("results", data), ("comparisons", pairs)):
        csv = content.to_csv(index=False, float_format="%.7g", lineterminator="\n")
        write_atomically(folder / "data" / f"{stem}.csv", csv.encode())
    write_atomically(folder / file_name, ("\n\n".join(parts) + "\n").encode())
    return folder / file_name


def read_records(records: str | os.PathLike[str] | Sequence[Record]) -> list[Record]:
    """The runs, read from their folder if that is what is given; there must be one."""
    if not isinstance(records, str | os.PathLike):
        if not records:
            raise ValueError("'records' must hold at least one record (got none)")
        return list(records)
    if not Path(records).is_dir():
        raise FileNotFoundError(f"'records' must be a folder of records (got {os.fspath(records)!r}, which is none)")
    found = load_records(records)
    if not found:
        raise ValueError(
            f"'records' must hold at least one record (got none in {os.fspath(records)!r}); `gump run CONFIG` makes them"
        )
    return found


def _verdicts(frame: pd.DataFrame) -> Iterator[str]:
    """Says first of all where ours falls short."""
    judged = frame[frame["verdict"] != ""]
    if judged.empty:
        return
    counts = judged["verdict"].value_counts()
    told = [f"{counts[verdict]} {words}" for verdict, words in _VERDICTS.items() if verdict in counts]
    yield f"Of {_count(len(judged), 'number')} with a published one beside it, {', '.join(told)}."
    if (short := judged[judged["verdict"] == "short"]).empty:
        return
    yield "Short of the best published number, be it the first or one of the others:"
    yield markdown(
        _columns(details(short), ["Dataset", "Method", "Set otherwise", "Runs", "Ours", "Selected by", "Published", "Others"])
    )


_VERDICTS = {
    "at or above": "at or above the best published number",
    "within": "below it by no more than our interval",
    "short": "short of it",
}


_SELECTED = {"loss": "validation loss", "metric": "validation metric", "last": "last epoch"}


def _only(values: pd.Series) -> str:
    """The value that all share; empty if they differ."""
    return str(values.iloc[0]) if values.nunique() == 1 else ""


def curve_path(name: str, axis: str) -> Path:
    """Where the figure of a table's curves along a setting lies, from its page."""
    return Path("figures") / f"{_file_name(f'{name}_{axis}')}.svg"


def _figures(name: str, rows: pd.DataFrame, folder: Path) -> Iterator[str]:
    """Draws a table's figures and refers to them."""
    if not (bars := rows[(rows["axis"] == "") & rows[f"{SELECTED}_mean"].notna()]).empty:
        path = folder / "figures" / f"{_file_name(name)}.svg"
        save_figure(bar_figure(bars), path, _drawn(bars))
        yield f"![{name}: ours beside the published numbers](figures/{path.name})"
    for axis, points in rows[(rows["axis"] != "") & rows[f"{SELECTED}_mean"].notna()].groupby("axis"):
        path = folder / curve_path(name, str(axis))
        chance = points["chance"].iloc[0] if points["chance"].nunique(dropna=False) == 1 else None
        save_figure(curve_figure(points, str(axis), None if pd.isna(chance) else chance), path, _drawn(points))
        yield f"![{name}: results against {axis}](figures/{path.name})"


def _sections(rows: pd.DataFrame, pairs: pd.DataFrame, footnotes: dict[str, str], planned: Sequence[Record]) -> Iterator[str]:
    for axis, points in rows[rows["axis"] != ""].groupby("axis"):
        yield f"### Against {axis}"
        yield f"{_selected(points)}. Every point by every rule, with its cost, is in [data/results.csv](data/results.csv)."
        yield markdown(curves(points, marks_of(points, footnotes)))
    if not (plain := rows[rows["axis"] == ""]).empty:
        yield from _every_number(plain, footnotes)
    if not (apart := pairs[pairs["axis"] == ""]).empty:
        yield "### Paired differences"
        yield markdown(comparison(apart))
    if along := len(pairs) - len(apart):
        yield f"{_count(along, 'paired difference')} between points of curves in [data/comparisons.csv](data/comparisons.csv)."
    yield "### Run it again"
    yield f"Into a folder of its own, `{AGAIN}`: where there is a record, nothing is trained. `gump report {AGAIN}` then reports on it."
    yield "```sh\n" + "\n".join(condensed(rows, planned)) + "\n```"


def _every_number(rows: pd.DataFrame, footnotes: dict[str, str]) -> Iterator[str]:
    yield "### Overview"
    yield f"{_selected(rows)}:"
    yield markdown(overview(rows))
    for rule in RULES:
        if rule != _only(rows["select"]) and rows[f"{rule}_rank"].notna().any():
            yield f"All selected by {_SELECTED[rule]}:"
            yield markdown(overview(rows, rule))
    yield "### Every number"
    yield markdown(details(rows, marks_of(rows, footnotes)))
    yield "### Cost"
    yield markdown(costs(rows))


def _selected(rows: pd.DataFrame) -> str:
    return f"Selected by {_SELECTED.get(_only(rows['select']), 'the rule that each configuration names')}"


def marks_of(rows: pd.DataFrame, footnotes: dict[str, str]) -> list[str]:
    """References to what has to be said beside each row; what is new is added."""
    return ["".join(f"[^{footnotes.setdefault(note, str(len(footnotes) + 1))}]" for note in notes) for notes in rows["notes"]]


def _drawn(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns that figures read, as a file can hold them."""
    names = ["table", "dataset", "method", "setting", "axis", "x", "line", "metric", "num_runs", "select"]
    names += [f"{SELECTED}_{what}" for what in ("mean", "interval", "corrected")] + [
        "published",
        "published_interval",
        "others",
        "chance",
    ]
    return rows[names].assign(others=rows["others"].map(json.dumps))


def _columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    return frame[[name for name in names if name in frame.columns]]


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
