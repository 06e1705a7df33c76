"""``gump best``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gump.cli.console import plain_errors, print_table

if TYPE_CHECKING:
    from gump.record import Record


def best(
    records: Annotated[Path, typer.Argument(help="the folder of a search's records")],
    top: Annotated[int, typer.Option(min=1, help="how many points to show")] = 10,
) -> None:
    """Order the points of a search by validation.

    Test sets are not looked at. Points with fewer runs than others come after them.

    Example: gump best records/search/mutag_gin_gump
    """
    from gump.record import load_records

    with plain_errors():
        found = load_records(records)
        if not found:
            raise FileNotFoundError(f"there are no records in {records}; gump run makes them")
        print_points(found, top)


def print_points(records: Sequence[Record], top: int | None = None) -> None:
    """The points of one search, from the best on validation."""
    from gump.report.ranking import rank

    rows = []
    for candidate in rank(records)[:top]:
        measure, loss = candidate.measure, candidate.loss
        spread = "" if math.isnan(measure.interval) else f" ± {measure.interval:.2g}"
        cells = [f"{measure.mean:.4g}{spread}", f"{loss.mean:.4g}"]
        rows.append([candidate.name, candidate.variant, str(candidate.num_runs), str(candidate.num_diverged), *cells])
    columns = ["configuration", "set", "runs", "diverged", f"validation {records[0].metric}", "validation loss"]
    print_table("best on validation", columns, rows)
