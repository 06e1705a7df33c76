"""Tables as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from gump.record import RULES
from gump.report.statistics import PERCENT, SELECTED

NONE = "–"
"""What stands where there is no number."""


def overview(frame: pd.DataFrame, rule: str = SELECTED) -> pd.DataFrame:
    """Lays one table out as the paper does: a row for each method, a column for each dataset, and the mean rank.

    Args:
        frame: Rows of :func:`table` from one table.
        rule: How the epoch that counts was chosen, by default as each configuration says.
    """
    datasets = list(dict.fromkeys(frame["dataset"]))
    rows = []
    for (method, setting), group in frame.groupby(["method", "setting"], sort=False):
        cells = dict.fromkeys(datasets, NONE)
        for _, row in group.iterrows():
            published = f" ({published_number(row)})" if pd.notna(row["published"]) else ""
            cells[row["dataset"]] = plus_minus(row[f"{rule}_mean"], row[f"{rule}_interval"], row["metric"]) + published
        rank = group[f"{rule}_rank"].iloc[0]
        rows.append({"Method": method, "Set otherwise": setting, **cells, "Rank": number(rank, 1)})
    result = pd.DataFrame(rows).rename(columns={d: f"{d} ({head(frame, d)})" for d in datasets})
    return filled(result)


def details(frame: pd.DataFrame, marks: Sequence[str] | None = None) -> pd.DataFrame:
    """Lays rows out with all that belongs to the number: the headline and every selection rule, runs, intervals, the published numbers, and the cost.

    Args:
        frame: Rows of :func:`table`.
        marks: For each row, what to put behind the method, such as references to footnotes.
    """
    rows = []
    for (_, row), mark in zip(frame.iterrows(), marks or [""] * len(frame), strict=True):
        ours = {"Ours": _estimate(row, SELECTED), "Selected by": row["select"]}
        ours |= {f"By {rule}": _estimate(row, rule) for rule in RULES}
        runs = num_runs(row["num_runs"], row["num_planned"]) + (f" ({row['num_diverged']} diverged)" if row["num_diverged"] else "")
        sign = "+" if pd.notna(row["difference"]) and row["difference"] >= 0 else ""
        rows.append(
            {
                "Dataset": row["dataset"],
                "Method": f"{row['method']}{mark}",
                "Set otherwise": row["setting"],
                "Runs": runs,
                **ours,
                "Published": published_number(row),
                "Source": row["source"] or NONE,
                "Others": "; ".join(f"{published_number(other)} ({other['source']})" for other in row["others"]) or NONE,
                "Difference": sign + measured(row["difference"], row["metric"]),
                "Verdict": row["verdict"] or NONE,
                "Device": row["device"] or NONE,
                "Time": duration(row["time_s"]),
            }
        )
    return filled(pd.DataFrame(rows))


BUDGETS = {"lrgb": " of 500,000"}
"""What a benchmark allows, beside what a model has."""


def costs(frame: pd.DataFrame) -> pd.DataFrame:
    """Lays out what a run of each row took, and which epochs and commits its number comes from.

    Where runs were trained side by side as one program, it says of how many a time is a share, and to how many the memory belongs.
    """
    rows = []
    for _, row in frame.iterrows():
        share, together = (f" ({word} {many})" if (many := row["side_by_side"]) else "" for word in ("share of", "all"))
        rows.append(
            {
                "Dataset": row["dataset"],
                "Method": row["method"],
                "Set otherwise": row["setting"],
                "Parameters": NONE
                if pd.isna(row["num_parameters"])
                else f"{row['num_parameters']:,.0f}{BUDGETS.get(row['table'], '')}",
                **{f"Epoch by {rule}": number(row[f"{rule}_epoch"], 0) for rule in RULES},
                "Time per epoch": NONE if pd.isna(row["epoch_time_s"]) else duration(row["epoch_time_s"]) + share,
                "Peak memory": NONE
                if pd.isna(row["peak_memory_bytes"])
                else f"{row['peak_memory_bytes'] / 2**20:,.0f} MiB{together}",
                "Commit": row["commit"] or NONE,
            }
        )
    return filled(pd.DataFrame(rows))


def comparison(frame: pd.DataFrame) -> pd.DataFrame:
    """Lays out paired differences.

    Args:
        frame: Rows of :func:`gump.report.comparisons.comparisons` from one table.
    """
    rows = []
    for _, row in frame.iterrows():
        graphs = NONE if pd.isna(row["graphs_first"]) else f"{row['graphs_first']:.0f} : {row['graphs_second']:.0f}"
        rows.append(
            {
                "Dataset": row["dataset"],
                "First": row["first"],
                "Second": row["second"],
                "Runs": row["num_runs"],
                "First less second": with_intervals(row["mean"], row["interval"], row["corrected"], row["metric"]),
                "p": probability(row["p_value"]),
                "p, corrected": probability(row["corrected_p_value"]),
                "Answers that differ": f"{row['num_different']} of {row['num_answers']}" if row["num_answers"] else NONE,
                "Graphs won": graphs,
                "p, graphs": probability(row["sign_p_value"]),
            }
        )
    return filled(pd.DataFrame(rows))


def markdown(frame: pd.DataFrame) -> str:
    r"""Writes a table of text in Markdown, with columns that are aligned in the source too.

    Args:
        frame: What to write, as it is to stand there.

    Example:
        >>> print(markdown(pd.DataFrame({"Method": ["gin", "gin_gump"], "Runs": [5, 100]})))
        | Method   | Runs |
        | -------- | ---- |
        | gin      | 5    |
        | gin_gump | 100  |
    """
    rows = [
        [_cell(column) for column in frame.columns],
        *([_cell(value) for value in row] for row in frame.itertuples(index=False)),
    ]
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(frame.columns))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]])


def measured(value: Any, metric: str, fewer: int = 0, sign: str = "") -> str:
    """A number of a measure, or a dash: two decimals of percents, four of shares; of errors, which have any unit, five digits.

    Example:
        >>> measured(81.236, "accuracy"), measured(0.24381, "ap"), measured(0.000123456789, "mae"), measured(1.5e30, "mae")
        ('81.24', '0.2438', '0.00012346', '1.5e+30')
    """
    if pd.isna(value):
        return NONE
    kind = "g" if metric == "mae" else "f"
    return f"{value:{sign}.{(5 if metric == 'mae' else 2 if metric in PERCENT else 4) - fewer}{kind}}"


def number(value: Any, digits: int) -> str:
    """A number with so many decimals, or a dash."""
    return NONE if pd.isna(value) else f"{value:.{digits}f}"


def num_runs(done: int, planned: float) -> str:
    """The number of runs, with that of the protocol where there are fewer."""
    return f"{done} of {planned:.0f}" if planned > done else f"{done}"


def probability(value: Any) -> str:
    """A p-value, or a dash."""
    return NONE if pd.isna(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def plus_minus(value: float, interval: float, metric: str) -> str:
    """A number and its interval, if it has one."""
    return measured(value, metric) + ("" if pd.isna(interval) else f" ± {measured(interval, metric)}")


def with_intervals(value: float, interval: float, corrected: float, metric: str) -> str:
    """Mean ± plain interval [corrected interval, where it applies]."""
    return plus_minus(value, interval, metric) + _corrected(corrected, metric)


def _corrected(interval: float, metric: str) -> str:
    return "" if pd.isna(interval) else f" [{measured(interval, metric)}]"


def published_number(row: Any) -> str:
    """A published number with its interval, both with as many decimals as the one that has more."""
    numbers = [v for v in (row["published"], row["published_interval"]) if pd.notna(v)]
    if pd.isna(row["published"]):
        return NONE
    digits = max(len(f"{v:g}".partition(".")[2]) for v in numbers)
    return " ± ".join(f"{v:.{digits}f}" for v in numbers)


def _estimate(row: Any, rule: str) -> str:
    """Mean ± plain interval (standard deviation) [corrected interval, where it applies]."""
    metric, runs = row["metric"], row[f"{rule}_runs"]
    if not runs:
        return NONE
    std = row[f"{rule}_std"]
    text = plus_minus(row[f"{rule}_mean"], row[f"{rule}_interval"], metric) + (
        f" ({measured(std, metric)})" if pd.notna(std) else ""
    )
    text += _corrected(row[f"{rule}_corrected"], metric)
    return text if runs == row["num_runs"] else f"{text}, {runs} of {row['num_runs']} runs"


def head(frame: pd.DataFrame, dataset: str) -> str:
    """The measure of a dataset, with its unit."""
    metric = frame.loc[frame["dataset"] == dataset, "metric"].iloc[0]
    return f"{metric}, %" if metric in PERCENT else str(metric)


def duration(seconds: Any) -> str:
    """A time in the unit that suits it."""
    if pd.isna(seconds):
        return NONE
    for size, name in ((3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{1000 * seconds:.1f} ms"


def filled(frame: pd.DataFrame) -> pd.DataFrame:
    """Leaves out columns in which nothing stands."""
    return frame[[column for column in frame.columns if not frame[column].isin(["", NONE]).all()]]


def _cell(value: Any) -> str:
    return re.sub(r"\s+", " ", str(value)).replace("|", "\\|").strip()
