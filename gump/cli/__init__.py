"""The command ``gump``: parse, call one function, print. One module per subcommand, whose function has its name and help."""

from __future__ import annotations

from importlib.util import find_spec

if not all(map(find_spec, ("lightning_fabric", "pandas", "rich", "torchmetrics", "typer"))):
    raise SystemExit("error: the command needs: pip install 'torch-gump[cli]'")

import typer

from gump.cli.best import best
from gump.cli.compare import compare
from gump.cli.diagnose import diagnose
from gump.cli.explore import explore
from gump.cli.figure import figure
from gump.cli.list import list_command
from gump.cli.predict import predict
from gump.cli.report import report
from gump.cli.run import DIVERGED, run

__all__ = ["DIVERGED", "app", "main"]

app = typer.Typer(
    name="gump",
    help="Trains and compares deep graph networks: configuration in, record out.\n\nExample: gump run configs/tu --splits 0-4",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("list")(list_command)
app.command()(run)
app.command()(predict)
app.command()(report)
app.command()(best)
app.command()(compare)
app.command()(diagnose)
app.command()(explore)
app.command()(figure)


def main() -> None:
    """Runs the command."""
    app()
