"""``gump compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gump.cli.console import plain_errors, print_table

if TYPE_CHECKING:
    from gump.report.against import Standing


def compare(
    records: Annotated[list[Path], typer.Argument(help="folders of records, of a configuration or a point each")],
    select: Annotated[str | None, typer.Option(help="loss, metric or last; by default each one's own rule")] = None,
) -> None:
    """Compare configurations with the first, on the splits they share.

    Brackets have the interval that allows for splits that overlap; won and lost are seen from the row. Of a search, validation alone is
    compared.

    Example: gump compare records/coins/mutag_gin records/coins/mutag_gump
    """
    from gump.record import RULES
    from gump.report.against import against_first, read_configuration
    from gump.report.statistics import SELECTED

    with plain_errors():
        if select is not None and select not in RULES:
            raise ValueError(f"'--select' must be one of {', '.join(RULES)} (got '{select}')")
        if len(records) < 2:
            raise ValueError(f"'records' must be two folders or more (got {len(records)}); the others are compared with the first")
        standings = against_first([read_configuration(folder) for folder in records], select or SELECTED)
        _print_means(standings)
        _print_differences(standings)
        _print_answers(standings)


def _print_means(standings: Sequence[Standing]) -> None:
    """What each configuration reached, by itself."""
    from gump.report.layout import with_intervals
    from gump.report.statistics import TEST

    rows = []
    for standing in standings:
        summary, found = standing.summary, standing.summary.estimates[standing.rule]
        text = with_intervals(found.mean, found.interval, found.corrected_interval, summary.metric)
        text += "" if found.num_runs == summary.num_runs else f", {found.num_runs} runs"
        rows.append([summary.name, summary.variant, str(summary.num_runs), str(summary.num_diverged), standing.select, text])
    part = "test" if standings[0].part == TEST else "validation"
    columns = ["configuration", "set", "runs", "diverged", "selected by", f"{part} {standings[0].summary.metric}"]
    print_table("configurations", columns, rows)


def _print_differences(standings: Sequence[Standing]) -> None:
    """The others less the first, over the splits that they share."""
    from gump.report.layout import probability, with_intervals

    rows = []
    for standing in standings:
        if (pair := standing.difference) is not None:
            summary, less = standing.summary, pair.difference
            text = with_intervals(less.mean, less.interval, less.corrected_interval, summary.metric)
            counts = pair.runs_first, len(pair.indices) - pair.runs_first - pair.runs_second, pair.runs_second
            cells = [str(len(pair.indices)), text, probability(less.p_value), probability(less.corrected_p_value)]
            rows.append([summary.name, summary.variant, *cells, *map(str, counts)])
    columns = ["configuration", "set", "splits", "less the first", "p", "p, corrected", "won", "tied", "lost"]
    print_table("split by split", columns, rows)


def _print_answers(standings: Sequence[Standing]) -> None:
    """The answers of the others beside those of the first, where records hold classes."""
    from gump.report.layout import number, probability

    rows = []
    for standing in standings:
        if (pair := standing.difference) is not None and pair.num_answers:
            counts = pair.num_only_first, pair.num_only_second, pair.graphs_first, pair.graphs_second
            cells = [f"{pair.num_different} of {pair.num_answers}", *(number(count, 0) for count in counts)]
            rows.append([standing.summary.name, standing.summary.variant, *cells, probability(pair.sign_p_value)])
    columns = ["configuration", "set", "answers that differ", "only it right", "only the first right"]
    if rows:
        print_table("answer by answer", [*columns, "graphs won", "graphs lost", "p, graphs"], rows)
