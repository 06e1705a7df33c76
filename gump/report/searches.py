"""What searches found, by validation."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from gump.files import write_atomically
from gump.record import Record
from gump.report.labels import SEARCH, is_search, label
from gump.report.layout import duration, markdown, plus_minus
from gump.report.ranking import Candidate, rank
from gump.report.table import commit, hardware, side_by_side

NUM_BEST = 5
"""How many points of a search are named on the page."""

_REMARK = (
    "These are no results, and no number of a test set is here. Points are ordered by the validation measure, at the epoch that each "
    "configuration selects: that of the lowest validation *loss*, of the highest *metric*, or the *last*. Numbers by different "
    "rules cannot be compared: where validation chose the epoch, it is flattered. With so few runs, the order of points whose intervals "
    "overlap means little."
)


def searches(records: Sequence[Record], folder: Path, start: Path, planned: Sequence[Record] = ()) -> Iterator[str]:
    """The part of the summary about searches, a row for each; their best points get a page of their own.

    Args:
        records: The runs of searches.
        folder: Where pages with every number lie; this one goes into a folder of its own there.
        start: The folder of the summary, from which links lead on.
        planned: Of every point of every search a record without results, to tell which have not been run.
    """
    points: dict[str, set[str]] = {}
    for plan in planned:
        if is_search(plan):
            points.setdefault(plan.name, set()).add(plan.variant)
    runs: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.name):
        runs.setdefault(record.name, []).append(record)
    if not runs and not points:
        return
    yield "## Searches"
    yield _REMARK
    if runs:
        ranked = {name: rank(found) for name, found in runs.items()}
        yield markdown(pd.DataFrame([_row(runs[name], ranked[name], len(points.get(name, ()))) for name in runs]))
        page = folder / SEARCH / "REPORT.md"
        parts = ["# What searches found", _REMARK]
        for name in runs:
            parts += _best(runs[name], ranked[name])
        write_atomically(page, ("\n\n".join(parts) + "\n").encode())
        link = Path(os.path.relpath(page, start)).as_posix()
        yield f"The {NUM_BEST} best points of each, with what was set: [{link}]({link})."
    if left := [name for name in points if name not in runs]:
        yield f"Not run yet: {', '.join(left)}."
    yield f"`gump run configs/{SEARCH}/NAME.toml` searches, `gump best records/{SEARCH}/NAME` shows all points."


def _row(runs: Sequence[Record], candidates: Sequence[Candidate], num_planned: int) -> dict[str, object]:
    found, best = label(runs[0]), candidates[0]
    return {
        "Dataset": found.dataset,
        "Method": found.method,
        "Search": f"`{_short(runs[0].name)}`",
        "Selected by": runs[0].select,
        "Points": f"{len(candidates)} of {num_planned}" if num_planned > len(candidates) else f"{len(candidates)}",
        "Runs": len(runs),
        "Best on validation": f"{plus_minus(best.measure.mean, best.measure.interval, best.metric)} ({best.metric})",
    }


def _best(runs: Sequence[Record], candidates: Sequence[Candidate]) -> Iterator[str]:
    """The best points of one search, and what it took."""
    found = label(runs[0])
    time = duration(sum(math.nan if (t := record.cost.get("time_s")) is None else t for record in runs))
    made = [f"{time}{f' ({many} side by side)' if (many := side_by_side(runs)) else ''}", *dict.fromkeys(map(hardware, runs))]
    made += dict.fromkeys(f"commit {commit(record)}" for record in runs)
    yield f"## {_short(runs[0].name)}"
    yield f"{found.method} on {found.dataset}, by *{runs[0].select}*: {', '.join(made)}."
    rows = [
        {
            "Set": ", ".join(candidate.variant.split(",")) if candidate.variant else "as it is",
            "Runs": f"{candidate.num_runs}" + (f" ({candidate.num_diverged} diverged)" if candidate.num_diverged else ""),
            f"Validation {candidate.metric}": plus_minus(candidate.measure.mean, candidate.measure.interval, candidate.metric),
            "Validation loss": f"{candidate.loss.mean:.4g}",
        }
        for candidate in candidates[:NUM_BEST]
    ]
    yield markdown(pd.DataFrame(rows))


def _short(name: str) -> str:
    return name.removeprefix(f"{SEARCH}/")
