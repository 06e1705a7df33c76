"""``gump report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gump.cli.console import check_out, plain_errors


def report(
    records: Annotated[Path, typer.Argument(help="the folder of records, or one below it")] = Path("records"),
    out: Annotated[Path, typer.Option(help="the folder to write to")] = Path("out/report"),
) -> None:
    """Write a page and figures: ours beside the published numbers.

    Example: gump report records --out out/report
    """
    from gump.report import write_report

    with plain_errors():
        check_out(out)
        path = write_report(records, out)
        console = Console()
        if console.is_terminal:
            from rich.markdown import Markdown

            console.print(Markdown(path.read_text()))
        else:
            typer.echo(path.read_text())
        typer.echo(f"written to {path}", err=True)
