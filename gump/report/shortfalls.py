"""Whether a number that falls short of a published one could be short by the draw of the test set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from gump.record import Record
from gump.report.compact import method_of, ours, published_entries
from gump.report.held_out import held_out
from gump.report.layout import markdown, published_number
from gump.report.statistics import SELECTED
from gump.report.table import group_records

HEADING = "One test set, or another"
REMARK = (
    "The paper holds out one test set for all of its runs, and ours are each tested on graphs of their own. Which graphs our runs had right tells "
    "how far a number on one held-out test set is from its mean over all draws of one: *standard deviation*. More runs on that test set do not "
    "make it smaller, and the published intervals leave it out. Here are the numbers that are below a published one; behind each published one "
    "stands how many of these standard deviations it is above ours. Of draws from one distribution one in twenty is more than two away from its "
    "mean. This says what a difference between two numbers from two test sets is worth. It says little of methods on one test set, which share "
    "its draw, and a published number that could be the luck of its test set need not be."
)

MIN_ANSWERS = 5.0
"""How often a graph must have been tested on, in the mean, for its share of right answers to be worth something."""


def shortfalls(records: Sequence[Record], frame: pd.DataFrame) -> Iterator[str]:
    """The part of the summary that sets numbers below the published ones beside what the draw of a test set is worth.

    Args:
        records: The runs.
        frame: The rows of :func:`gump.report.table.table` for them.
    """
    groups, rows = group_records(records), []
    below = frame[frame["verdict"].isin(["within", "short"])]
    for _, row in below.sort_values(["dataset", "table", "method"], kind="stable").iterrows():
        found = held_out(groups[row["name"], row["variant"]])
        if found is None or found.answers_per_graph < MIN_ANSWERS or not found.std > 0:
            continue
        away = (
            f"{published_number(entry)} ({(entry['published'] - row[f'{SELECTED}_mean']) / found.std:+.1f})"
            for entry in published_entries(row)
        )
        rows.append(
            {
                "Dataset": row["dataset"],
                "Table": row["table"],
                "Method": method_of(row),
                "Runs": row["num_runs"],
                "Graphs in a test set": f"{found.num_tested} of {found.num_graphs:,}",
                "Ours (accuracy, %)": ours(row),
                "Standard deviation": f"{found.std:.2f}",
                "Published (standard deviations above ours)": "; ".join(away),
            }
        )
    if rows:
        yield f"## {HEADING}"
        yield REMARK
        yield markdown(pd.DataFrame(rows))
        yield "`gump.report.held_out` has the formula, and computes it from the records of a configuration."
