"""``gump report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gump.cli.console import check_out, plain_errors

if TYPE_CHECKING:
    from gump.record import Record


def report(
    records: Annotated[Path, typer.Argument(help="the folder of records, or one below it")] = Path("records"),
    out: Annotated[Path, typer.Option(help="the folder to write to")] = Path("out/report"),
    summary: Annotated[Path | None, typer.Option(help="a page for all; every folder of records has its own")] = None,
    configs: Annotated[Path, typer.Option(help="what should have been run, for the summary")] = Path("configs"),
    times: Annotated[Path | None, typer.Option(help="what benchmarks/epochs.py printed, for the summary")] = None,
) -> None:
    """Write a page and figures: ours beside the published numbers.

    Example: gump report records --out out/report
    """
    from gump.report import write_report, write_summary

    with plain_errors():
        check_out(out)
        if summary is None:
            path = write_report(records, out)
        else:
            check_out(summary, "RESULTS.md", "--summary")
            path = write_summary(records, out, summary, _planned(configs), times)
        console = Console()
        if console.is_terminal:
            from rich.markdown import Markdown

            console.print(Markdown(path.read_text()))
        else:
            typer.echo(path.read_text())
        typer.echo(f"written to {path}", err=True)


def _planned(folder: Path) -> list[Record]:
    """Of every configuration below a folder, with every point of its sweep, a record without results."""
    from gump.experiment.config import load_configs
    from gump.record import Record

    if not folder.is_dir():
        raise FileNotFoundError(f"'--configs' must be a folder of configurations (got '{folder}', which is none)")
    return [
        Record(
            config.name,
            0,
            config.settings,
            "",
            config.variant,
            published=config.published,
            provenance={"config": config.path, "search": config.is_search},
        )
        for config in load_configs([folder])
    ]
