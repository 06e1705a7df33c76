"""The command ``gump``: parse, call one function, print."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated

if not all(map(find_spec, ("lightning_fabric", "pandas", "rich", "torchmetrics", "typer"))):
    raise SystemExit("error: the command needs: pip install 'torch-gump[cli]'")

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from gump.experiment.config import Config
    from gump.experiment.watch import Watch
    from gump.record import Record

DIVERGED = 3
"""The exit code where runs ended in a loss that was not finite; 1 is bad input, 2 a wrong command line."""

app = typer.Typer(
    name="gump",
    help="Trains and compares deep graph networks: configuration in, record out.\n\nExample: gump run configs/tu --splits 0-4",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Says what is wrong in one line; a stack trace is for defects of our own."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        typer.echo(f"error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        typer.echo("interrupted; what is finished is kept, and the same command goes on from here", err=True)
        raise typer.Exit(130) from None


@app.command("list")
def list_command(
    what: Annotated[str, typer.Argument(help="datasets, models, transforms, protocols, configs or all")] = "all",
    configs: Annotated[Path, typer.Option(help="the folder of configurations")] = Path("configs"),
) -> None:
    """Show what there is, the datasets with their statistics.

    Example: gump list datasets
    """
    from gump.experiment.listing import TABLES, listing

    with _plain_errors():
        if what != "all" and what not in TABLES:
            raise ValueError(f"'what' must be one of {', '.join(TABLES)} or all (got '{what}')")
        for name in TABLES if what == "all" else (what,):
            columns, rows = listing(name, configs)
            _print_table(name, columns, rows)


@app.command()
def run(
    configs: Annotated[list[Path], typer.Argument(help="TOML files, or folders of them")],
    splits: Annotated[str | None, typer.Option(help="numbers of runs, such as 0-4,7; all by default")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="how many of them share a batch")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="runs at a time, in processes of one thread")] = 1,
    replicas: Annotated[int, typer.Option(min=1, help="runs side by side as one program")] = 1,
    records: Annotated[Path, typer.Option(help="the folder of records")] = Path("records"),
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="a setting, such as train.epochs=2")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace records made with other settings")] = False,
    tensorboard: Annotated[Path | None, typer.Option(help="a folder for TensorBoard's logs")] = None,
) -> None:
    """Train configurations; none of their runs is trained twice.

    Every run leaves a record. One that was interrupted goes on where it was.

    Example: gump run configs/tu/mutag_gin_gump.toml --splits 0-4
    """
    from gump.experiment.config import load_config
    from gump.experiment.run import Runner, parse_indices, run_all
    from gump.experiment.settings import parse_assignment
    from gump.experiment.watch import tensorboard_writer

    with _plain_errors():
        overrides = dict(parse_assignment(text) for text in set_ or [])
        files = [file for path in configs for file in (sorted(path.rglob("*.toml")) if path.is_dir() else [path])]
        loaded = [config for file in dict.fromkeys(map(Path.resolve, files)) for config in load_config(file, overrides)]
        if not loaded:
            raise FileNotFoundError(f"there is no configuration in {', '.join(map(str, configs))}")
        if tensorboard and jobs > 1:
            raise ValueError("'--tensorboard' cannot follow several runs at a time; leave out --jobs")
        if replicas > 1 and jobs > 1:
            raise ValueError("'--replicas' and '--jobs' exclude each other: replicas are one program")
        indices = None if splits is None else parse_indices(splits)
        made = []
        with _bars(sum(len(indices or range(config.protocol.num_runs)) for config in loaded)) as (watches, advance):
            watches += tensorboard_writer(tensorboard)
            runner = Runner(records, device, devices, overwrite, watches, num_replicas=replicas)
            for record in run_all(runner, loaded, indices, jobs):
                made.append(record)
                advance()
        if _speaks():
            _print_summary(made)
        if any(record.status == "diverged" for record in made):
            raise typer.Exit(DIVERGED)


@app.command()
def report(
    records: Annotated[Path, typer.Argument(help="the folder of records, or one below it")] = Path("records"),
    out: Annotated[Path, typer.Option(help="the folder to write to")] = Path("out/report"),
) -> None:
    """Write a page and figures: ours beside the published numbers.

    Example: gump report records --out out/report
    """
    from gump.report import write_report

    with _plain_errors():
        path = write_report(records, out)
        console = Console()
        if console.is_terminal:
            from rich.markdown import Markdown

            console.print(Markdown(path.read_text()))
        else:
            typer.echo(path.read_text())
        typer.echo(f"written to {path}", err=True)


@contextmanager
def _bars(num_runs: int) -> Iterator[tuple[list[Watch], Callable[[], None]]]:
    """Shows the runs and the epochs of the present one on a terminal; says nothing where output is piped."""
    console = Console(stderr=True)
    if not console.is_terminal or not _speaks():
        yield [], lambda: None
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[numbers]}"))
    with Progress(*columns, console=console) as progress:
        runs = progress.add_task("runs", total=num_runs, numbers="")
        epochs = progress.add_task("", total=1, numbers="", visible=False)
        present: list[tuple[str, int]] = []

        def watch(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
            if present != [(config.title, index)]:
                present[:] = [(config.title, index)]
                progress.reset(epochs, total=config.training.epochs, description=f"{config.title} {index}", visible=True)
            numbers = "  ".join(f"{name} {value:.4g}" for name, value in results.items())
            progress.update(epochs, completed=epoch, numbers=numbers)

        yield [watch], lambda: progress.advance(runs)


def _speaks() -> bool:
    """Whether this is the first of the processes that share a batch, of which the others are silent."""
    return all(os.environ.get(name, "0") == "0" for name in ("LOCAL_RANK", "NODE_RANK"))


def _print_summary(records: list[Record]) -> None:
    """One line per configuration: what its runs reached on the test set, by either rule of choice."""
    from gump.report.statistics import PERCENT

    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.name, record.variant), []).append(record)
    rows = []
    for (name, variant), group in groups.items():
        scale, digits = (100, 2) if group[0].metric in PERCENT else (1, 4)  # as the published numbers are printed
        values = [_test_values(group, rule) for rule in ("loss", "metric", "last")]
        cells = [f"{scale * mean(v):.{digits}f}" if v else "-" for v in values]
        value = group[0].published.get("value", "-")
        rows.append([name, variant, str(len(group)), group[0].metric, *cells, str(value)])
    _print_table("runs", ["configuration", "set", "runs", "measure", "by loss", "by measure", "last", "published"], rows)


def _test_values(records: list[Record], rule: str) -> list[float]:
    return [record.results[rule]["test"] for record in records if record.results.get(rule, {}).get("test") is not None]


def _print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on a terminal, columns separated by tabs where output is piped."""
    console = Console()
    if not console.is_terminal:
        for row in [columns, *rows]:
            typer.echo("\t".join(row))
        return
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def main() -> None:
    """Runs the command."""
    app()


if __name__ == "__main__":
    main()
