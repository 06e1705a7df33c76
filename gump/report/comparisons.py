"""Which systems of a report are compared run by run, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from gump.record import Record
from gump.report.paired import common_runs, paired_difference
from gump.report.statistics import SELECTED
from gump.report.table import group_records, table

COLUMNS = (
    *(
        "table",
        "dataset",
        "metric",
        "axis",
        "first",
        "second",
        "num_runs",
        "mean",
        "interval",
        "corrected",
        "p_value",
        "corrected_p_value",
    ),
    *("num_answers", "num_different", "num_only_first", "num_only_second", "graphs_first", "graphs_second", "sign_p_value"),
)


def comparisons(records: Sequence[Record], rule: str = SELECTED) -> pd.DataFrame:
    """Compares, dataset by dataset, what asks for comparison: GUMP with the methods of the same base GNN, and a change with none.

    The first are configurations as they stand, one with ``gump`` in its name or its title and one without, of one table and dataset. The second
    are configurations with a setting changed, other than the dataset's own, against the same configuration unchanged. Pairs that share fewer
    than two runs with the same test set are left out. The p-values are of each comparison by itself: of twenty without a difference,
    one is expected below 0.05. ``axis`` is the setting along a curve, where two points of one are compared.

    Args:
        records: The runs, in any order.
        rule: How the epoch that counts was chosen, by default as each configuration says.
    """
    groups = group_records(records)
    rows = []
    for first, second in _pairs(table(records)):
        a, b = (groups[row["name"], row["variant"]] for row in (first, second))
        if len(common_runs(a, b, rule)) < 2:
            continue
        found = paired_difference(a, b, rule)
        names = [f"{row['method']}, {row['setting']}" if row["setting"] else row["method"] for row in (first, second)]
        rows.append(
            {
                **{key: first[key] for key in ("table", "dataset", "metric", "axis")},
                **dict(zip(("first", "second"), names, strict=True)),
                "num_runs": len(found.indices),
                "mean": found.difference.mean,
                "interval": found.difference.interval,
                "corrected": found.difference.corrected_interval,
                "p_value": found.difference.p_value,
                "corrected_p_value": found.difference.corrected_p_value,
                "num_answers": found.num_answers,
                "num_different": found.num_different,
                **{
                    key: math.nan if (value := getattr(found, key)) is None else value
                    for key in ("num_only_first", "num_only_second", "graphs_first", "graphs_second", "sign_p_value")
                },
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _pairs(frame: pd.DataFrame) -> Iterator[tuple[pd.Series, pd.Series]]:
    for _, rows in frame.groupby(["table", "dataset"], sort=False):
        members = [row for _, row in rows.iterrows()]
        for first in members:
            for second in members:
                same = first["setting"] == second["setting"] and first["base"] == second["base"]
                if same and first["variant"] == second["variant"] and _is_gump(first) and not _is_gump(second):
                    yield first, second
                changed = first["variant"] and not second["variant"] and first["name"] == second["name"]
                if changed and "dataset." not in first["variant"]:
                    yield first, second


def _is_gump(row: pd.Series) -> bool:
    return "gump" in f"{row['name']} {row['method']}".lower()
