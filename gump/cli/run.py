"""``gump run``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gump.cli.best import print_points
from gump.cli.console import LINE_S, bars, check_out, now_and_then, plain_errors, print_table

if TYPE_CHECKING:
    from gump.experiment.config import Config
    from gump.experiment.watch import Watch
    from gump.record import Record

DIVERGED = 3
"""The exit code where runs ended in a loss that was not finite; 1 is bad input, 2 a wrong command line."""


def run(
    configs: Annotated[list[Path], typer.Argument(help="TOML files, or folders of them")],
    splits: Annotated[str | None, typer.Option(help="numbers of runs, such as 0-4,7; all by default")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="how many of them share a batch")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="runs at a time, one thread each")] = 1,
    replicas: Annotated[int | None, typer.Option(min=1, help="runs side by side as one program")] = None,
    records: Annotated[Path, typer.Option(help="the folder of records")] = Path("records"),
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="a setting, such as train.epochs=2")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace records of other settings or data")] = False,
    keep_weights: Annotated[bool, typer.Option("--keep-weights", help="leave trained weights beside the records")] = False,
    tensorboard: Annotated[Path | None, typer.Option(help="a folder for TensorBoard's logs")] = None,
) -> None:
    """Train configurations; none of their runs is trained twice.

    Every run leaves a record. One that was interrupted goes on where it was. Of a [grid], which is a search, validation alone is shown.

    Example: gump run configs/tu/mutag_gin_gump.toml --splits 0-4
    """
    from gump.experiment.config import load_configs
    from gump.experiment.record_folder import runs_of
    from gump.experiment.run import Runner, run_all
    from gump.experiment.settings import parse_assignment
    from gump.experiment.watch import tensorboard_writer
    from gump.record import Record, parse_indices

    with plain_errors("interrupted; runs that are finished are kept, and the same command goes on from them"):
        check_out(records, option="--records")
        overrides = dict(parse_assignment(text) for text in set_ or [])
        loaded = load_configs(configs, overrides)
        if not loaded:
            raise FileNotFoundError(f"there is no configuration in {', '.join(map(str, configs))}")
        if tensorboard and jobs > 1:
            raise ValueError("'--tensorboard' cannot follow several runs at a time; leave out --jobs")
        if replicas and jobs > 1:
            raise ValueError("'--replicas' and '--jobs' exclude each other: replicas are one program")
        if devices > 1 and jobs > 1:
            raise ValueError("'--devices' and '--jobs' exclude each other: either processes share a batch or they share the runs")
        most = max(config.protocol.num_runs for config in loaded)
        indices = None if splits is None else parse_indices(splits, most)
        if jobs == devices == 1 and replicas is None and (hint := _hint(loaded, indices, device)) and _speaks():
            typer.echo(hint, err=True)
        runs, made = runs_of(loaded, indices), []
        with _bars(len(runs)) as (watches, advance):
            watches += tensorboard_writer(tensorboard)
            runner = Runner(records, device, devices, overwrite, watches, num_replicas=replicas, keep_weights=keep_weights)
            places = {runner.folder.path(*run) for run in runs}
            before = {path: Record.load(path).cost if overwrite else {} for path in places if path.is_file()}
            for record in run_all(runner, loaded, indices, jobs):
                made.append(record)
                advance()
        there = sum(not overwrite or Record.load(path).cost == cost for path, cost in before.items())
        if there and _speaks():
            typer.echo(f"{there} of {len(made)} runs were recorded before, in {records}, and are not trained again", err=True)
        if _speaks():
            searches = {config.name for config in loaded if config.is_search}
            if results := [record for record in made if record.name not in searches]:
                _print_summary(results)
            for name in sorted(searches):  # a choice is to be made among them, in which no test set may have a say
                print_points([record for record in made if record.name == name])
        if diverged := [record for record in made if record.status == "diverged"]:
            first = diverged[0]
            if _speaks():
                typer.echo(f"{len(diverged)} of {len(made)} runs diverged; {first.title} {first.index}: {first.note}", err=True)
            raise typer.Exit(DIVERGED)


def _hint(configs: list[Config], indices: list[int] | None, device: str) -> str:
    """What to say where runs would be trained one by one on a GPU that could train them side by side; else nothing."""
    import torch

    from gump.experiment.record_folder import runs_of
    from gump.experiment.registry import obstacle_to_replicas

    if device == "cpu" or not torch.cuda.is_available() or all(obstacle_to_replicas(config.settings) for config in configs):
        return ""
    num_runs = max(len(runs_of([config], indices)) for config in configs)
    return (
        f"hint: --replicas {num_runs} trains these runs as one program, which on a GPU is many times faster, for a single run too"
    )


@contextmanager
def _bars(num_runs: int) -> Iterator[tuple[list[Watch], Callable[[], None]]]:
    """Shows the runs and the epochs of the present one: bars on a terminal, and a line now and then in the log of a job."""
    console = Console(stderr=True)
    if not _speaks():
        yield [], lambda: None
        return
    if not console.is_terminal:
        yield _lines(num_runs)
        return
    with bars(console) as progress:
        runs = progress.add_task("runs", total=num_runs, numbers="")
        epochs = progress.add_task("", total=1, numbers="", visible=False)
        present: list[tuple[str, int]] = []

        def watch(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
            if present != [(config.title, index)]:
                present[:] = [(config.title, index)]
                progress.reset(epochs, total=config.training.epochs, description=f"{config.title} {index}", visible=True)
            progress.update(epochs, completed=epoch, numbers=_numbers(results))

        yield [watch], lambda: progress.advance(runs)


def _lines(num_runs: int) -> tuple[list[Watch], Callable[[], None]]:
    """Says where the runs are, once in ``LINE_S``."""
    num_done, say = 0, now_and_then(LINE_S)

    def watch(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        say(
            f"{num_done} of {num_runs} runs; {config.title} {index}, epoch {epoch} of {config.training.epochs}  {_numbers(results)}"
        )

    def advance() -> None:
        nonlocal num_done
        num_done += 1
        say(f"{num_done} of {num_runs} runs")

    return [watch], advance


def _numbers(results: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in results.items())


def _speaks() -> bool:
    """Whether this is the first of the processes that share a batch, of which the others are silent."""
    return all(os.environ.get(name, "0") == "0" for name in ("LOCAL_RANK", "NODE_RANK"))


def _print_summary(records: list[Record]) -> None:
    """One line per configuration: what its runs reached on the test set, by the rule that it names and by all three."""
    from gump.report.layout import measured
    from gump.report.statistics import COLUMNS, Summary, without_measure

    groups: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        groups.setdefault((record.name, record.variant), {})[record.index] = record
    rows = []
    for (name, variant), group in groups.items():
        found, first = Summary.of(list(group.values())).estimates, next(iter(group.values()))
        cells = [measured(found[rule].mean, first.metric) if rule in found else "-" for rule in COLUMNS]
        value = first.published.get("value", "-")
        if reason := without_measure(list(group.values())):
            typer.echo(f"{first.title}: {reason}", err=True)
        least = min((found[rule].num_runs if rule in found else 0 for rule in COLUMNS), default=0)
        runs = (
            f"{least} of {len(group)}" if least < len(group) else f"{least}"
        )  # in a test set of one class there may be no measure
        rows.append([name, variant, runs, first.metric, first.select, *cells, str(value)])
    columns = ["configuration", "set", "runs", "measure", "selected by", "test", "by loss", "by metric", "last", "published"]
    print_table("runs", columns, rows)
