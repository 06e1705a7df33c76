"""What every subcommand does alike: errors in one line, tables that a script can read, and word of what takes long."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

LINE_S = 60.0
"""Seconds from one line about the progress to the next, where there is no terminal for bars."""

TRACKED_S = 2.0
"""Seconds after which a line says what comes next, where there is no terminal for a bar."""


@contextmanager
def plain_errors(interrupted: str = "interrupted") -> Iterator[None]:
    """Says what is wrong in one line; a stack trace is for defects of our own.

    Args:
        interrupted: What to say after Ctrl-C.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _say_warning
        try:
            yield
        except BrokenPipeError:  # who read our output has seen enough, as head does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain when it ends
            raise typer.Exit(1) from None
        except (ValueError, OSError, ImportError, MemoryError) as error:
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            typer.echo(interrupted, err=True)
            raise typer.Exit(130) from None


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Says a warning in one line, without the code that gave it."""
    typer.echo(f"warning: {' '.join(str(message).split())}", err=True)


def check_out(out: Path, file: str | None = None, option: str = "--out") -> None:
    """Refuses a place that cannot be written to, before anything is computed for it.

    Args:
        out: What the option was given.
        file: The name of a file that would do, where it is to be one; a folder otherwise.
        option: Its name.
    """
    if file and out.is_dir():
        raise ValueError(f"'{option}' must be a file (got '{out}', which is a folder); name one in it, such as {out / file}")
    folders = out.parents if file else (out, *out.parents)
    if taken := next((path for path in folders if path.exists() and not path.is_dir()), None):
        what = "below a folder" if file else "a folder"
        raise ValueError(f"'{option}' must be {what} (got '{out}', and '{taken}' is a file); name another place")


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on a terminal, columns separated by tabs where output is piped; cells stand as they are, square brackets too."""
    console = Console()
    if not console.is_terminal:
        for row in [columns, *rows]:
            typer.echo("\t".join(row))
        return
    table = Table(title=Text(title), title_justify="left")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def bars(console: Console, **settings: Any) -> Progress:
    """Bars that have a title, a count, the time that is left, and ``numbers``, a field of each."""
    title, numbers = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[numbers]}")
    return Progress(title, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), numbers, console=console, **settings)


def now_and_then(every_s: float) -> Callable[[str], None]:
    """Says a line in the log of a job, unless that was done a moment ago."""
    said_at = time.monotonic()

    def say(line: str) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= every_s:
            said_at = time.monotonic()
            typer.echo(line, err=True)

    return say


def track(names: Collection[str], what: str) -> Iterator[str]:
    """Goes through things that may take long, and shows how far it is.

    On a terminal it is a bar, which is drawn from one thing to the next, so that each may have a bar of its own, and vanishes in the end; in
    the log of a job it is a line before each thing, but for those that soon follow others.

    Args:
        names: What the things are called.
        what: What all of them are called.
    """
    console, say = Console(stderr=True), now_and_then(TRACKED_S)
    if not console.is_terminal:
        for number, name in enumerate(names):
            say(f"{number} of {len(names)} {what}; {name}")
            yield name
        return
    with bars(console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task(what, total=len(names), numbers="")
        for number, name in enumerate(names):
            progress.update(task, completed=number, numbers=name, refresh=True)
            yield name
