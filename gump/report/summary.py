"""The summary: all results on one page, in the order of the paper."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from gump.files import write_atomically
from gump.record import Record
from gump.report.averaged import together
from gump.report.commands import condensed
from gump.report.compact import curves, listed, matrix, source_letters
from gump.report.labels import AGAIN, is_search, label
from gump.report.layout import NONE, duration, head, markdown
from gump.report.missing import missing, told
from gump.report.page import curve_path, marks_of, read_records, write_report
from gump.report.reading import SUMMARY
from gump.report.searches import searches
from gump.report.sections import SECTIONS, Section
from gump.report.shortfalls import shortfalls
from gump.report.table import table
from gump.report.times import times

NUM_WITH_INTERVALS = 6
"""Up to so many points, a curve has its intervals beside its means."""


def write_summary(
    records: str | os.PathLike[str] | Sequence[Record],
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    planned: Sequence[Record] = (),
    timed: str | os.PathLike[str] | None = None,
) -> Path:
    """Writes a page with all results in short, and for every folder of configurations a page with every number.

    The same records and configurations give the same bytes. Of searches there is a page with their best points by validation, and no number of a
    test set.

    Args:
        records: The runs, or the folder that holds their records.
        folder: Where to write the pages with every number, each into a folder of its own.
        path: The summary.
        planned: Of every configuration, with every point of its sweep, a record without results: the summary names those that have not been run.
        timed: What ``benchmarks/epochs.py`` printed, for a table of times; by default there is none.

    Returns:
        The summary's path.
    """
    found, folder, path = read_records(records), Path(folder), Path(path)
    results = [record for record in found if not is_search(record)]
    among = [record for record in found if is_search(record)]
    frame = table(results) if results else pd.DataFrame(columns=["table", "method"])
    lacking = missing([plan for plan in planned if not is_search(plan)], found)
    pages = {}
    for name in dict.fromkeys(frame["table"]):
        of_page = [record for record in results if label(record).table == name]
        page = write_report(of_page, folder / name, f"Ours beside the published numbers: {name}", planned=planned)
        pages[name] = Path(os.path.relpath(page, path.parent)).as_posix()
    sections = _sections({*frame["table"], *lacking["table"]})
    chosen = [(s, _of(s, frame), _of(s, lacking)) for s in sections]
    chosen = [(s, rows, absent) for s, rows, absent in chosen if len(rows) or len(absent)]
    parts = [
        "# Results",
        f"Written by `gump report --summary` from {len(found):,} records. A number is what a configuration, or a point of its sweep, came to.",
        markdown(pd.DataFrame([_counts(*part, pages) for part in chosen])),
    ]
    footnotes: dict[str, str] = {}
    for part in chosen:
        parts += _section(*part, pages, planned, footnotes)
    parts += shortfalls(results, frame) if results else ()
    parts += together(results, frame) if results else ()
    parts += times(timed) if timed else ()
    parts += searches(among, folder, path.parent, planned)
    parts += ["## How to read this", SUMMARY]
    parts += [f"[^{mark}]: {' '.join(note.split())}" for note, mark in footnotes.items()]
    write_atomically(path, ("\n\n".join(parts) + "\n").encode())
    return path


def _sections(tables: set[str]) -> list[Section]:
    """The sections in their order, with one for every table that has none."""
    return [*SECTIONS, *(Section(name, name) for name in sorted(tables - {section.table for section in SECTIONS}))]


def _of(section: Section, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that belong to a section."""
    rows = frame[frame["table"] == section.table]
    if section.methods:
        return rows[rows["method"].isin(section.methods)]
    return rows[~rows["method"].isin([method for other in SECTIONS if other.table == section.table for method in other.methods])]


def _counts(section: Section, rows: pd.DataFrame, absent: pd.DataFrame, pages: dict[str, str]) -> dict[str, object]:
    begun = rows["num_runs"] < rows["num_planned"] if len(rows) else pd.Series(dtype=bool)
    verdicts = list(rows["verdict"][~begun]) if len(rows) else []
    return {
        "Part": f"[{section.heading}](#{_anchor(section.heading)})",
        "Numbers": len(rows),
        **{verdict.capitalize(): verdicts.count(verdict) for verdict in ("at or above", "within", "short")},
        "None published": verdicts.count(""),
        "Runs missing": int(begun.sum()),
        "Not run": len(absent),
        "Runs": f"{rows['num_runs'].sum():,}" if len(rows) else "0",
        "Time": duration(rows["time_s"].sum(skipna=False)) if len(rows) else NONE,
        "Every number": f"[{section.table}]({pages[section.table]})" if len(rows) else NONE,
    }


def _anchor(heading: str) -> str:
    """Where a heading is found on a page, as GitHub has it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _section(
    section: Section,
    rows: pd.DataFrame,
    absent: pd.DataFrame,
    pages: dict[str, str],
    planned: Sequence[Record],
    footnotes: dict[str, str],
) -> Iterator[str]:
    yield f"## {section.heading}"
    if section.remark and len(rows):
        yield section.remark
    if len(rows):
        yield from _numbers(section, rows, Path(pages[section.table]), footnotes)
        yield f"Every number, with figures: [{pages[section.table]}]({pages[section.table]}). To run it again, into `{AGAIN}`:"
        yield "```sh\n" + "\n".join(condensed(rows, planned)) + "\n```"
    yield from told(absent)


def _numbers(section: Section, rows: pd.DataFrame, page: Path, footnotes: dict[str, str]) -> Iterator[str]:
    rows = rows.assign(notes=[[note for note in notes if not _DIVERGED.match(note)] for notes in rows["notes"]])
    plain = rows[rows["axis"] == ""]
    if not plain.empty:
        is_matrix = plain["method"].nunique() > 1 and plain["dataset"].nunique() > 1
        yield from _folded((matrix if is_matrix else listed)(plain, marks_of(plain, footnotes)))
        if is_matrix and (sources := source_letters(plain)):
            yield f"Published: {'; '.join(f'{letter} {source}'.strip() for source, letter in sources.items())}."
    for axis, points in rows[rows["axis"] != ""].groupby("axis"):
        measures = dict.fromkeys(head(points, dataset) for dataset in points["dataset"])
        chance = f"; guessing gives {points['chance'].iloc[0]:g}" if points["chance"].nunique() == 1 else ""
        yield f"{'; '.join(measures).capitalize()}, against `{axis}`{chance}:"
        few = points["x"].nunique() <= NUM_WITH_INTERVALS
        yield from _folded(curves(points, marks_of(points, footnotes), few))
        yield f"![{section.table}: results against {axis}]({(page.parent / curve_path(section.table, str(axis))).as_posix()})"


_DIVERGED = re.compile(r"Run \d+ diverged")
"""Notes that the number of runs makes up for."""


def _folded(frame: pd.DataFrame) -> Iterator[str]:
    """A table, and as a sentence what is the same in all its rows."""
    same = {
        column: str(frame[column].iloc[0])
        for column in ("Dataset", "Method", "Selected by", "Runs", "Hardware", "Commit")
        if column in frame and len(frame) > 1 and frame[column].nunique() == 1
    }
    yield markdown(frame.drop(columns=list(same)))
    if same:
        yield f"All rows: {'; '.join(f'{column.lower()} {value}' for column, value in same.items())}."
