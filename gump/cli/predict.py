"""``gump predict``."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gump.cli.console import LINE_S, bars, check_out, now_and_then, plain_errors

if TYPE_CHECKING:
    from gump.experiment.predicting import Prediction


def predict(
    weights: Annotated[list[Path], typer.Argument(help="files of weights, or folders of them")],
    data: Annotated[str, typer.Argument(help="a table of SMILES, or else graphs: .npz, MUTAG")],
    out: Annotated[Path | None, typer.Option(help="the .csv to write; by default it is printed")] = None,
    smiles: Annotated[str | None, typer.Option(help="the column of SMILES")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto")] = "auto",
) -> None:
    """Ask trained weights about new data.

    Weights are what gump run --keep-weights leaves; of several, answers are averaged, with their spread. A line that RDKit cannot read
    has a reason instead of an answer.

    Example: gump predict records/mine new.csv --out answers.csv
    """
    from gump.experiment.predicting import predict_data
    from gump.files import write_atomically

    with plain_errors():
        if out is not None:
            check_out(out, "answers.csv")
            if out.suffix.lower() != ".csv":
                raise ValueError(f"'--out' must end in .csv (got '{out}')")
            if out.exists() and Path(data).exists() and out.samefile(data):
                raise ValueError(f"'--out' must be another file than the data (got '{out}' for both)")
        found = predict_data(weights, data, smiles, device)
        kept = io.StringIO()
        table = csv.writer(sys.stdout if out is None else kept, lineterminator="\n")
        for number, rows in enumerate(_shown(found, bar=out is not None or not sys.stdout.isatty())):
            table.writerows(rows if number else [found.columns, *rows])  # nothing is printed if the data are refused
        if out is not None:
            write_atomically(out, kept.getvalue().encode())
            typer.echo(f"written to {out}", err=True)


def _shown(found: Prediction, bar: bool) -> Iterator[list[list[str]]]:
    """Hands rows on and shows how far it is: a bar on a terminal, unless the rows are shown there, a line now and then in a log."""
    console, say, num_done = Console(stderr=True), now_and_then(LINE_S), 0
    hidden = not (bar and console.is_terminal)
    # It has no thread that draws it, since molecules are read in processes that are forked.
    with bars(console, transient=True, auto_refresh=False, disable=hidden) as progress:
        answers = progress.add_task("answers", total=found.num_rows, numbers="")
        for rows in found.parts:
            yield rows
            num_done += len(rows)
            progress.update(answers, completed=num_done, refresh=True)
            if num_done == found.num_rows:
                progress.stop()  # before a warning comes
            if not console.is_terminal:
                say(f"{num_done:,} of {found.num_rows:,} answers")
