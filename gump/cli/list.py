"""``gump list``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gump.cli.console import plain_errors, print_table, track


def list_command(
    what: Annotated[str, typer.Argument(help="datasets, models, transforms, protocols, configs or all")] = "all",
    configs: Annotated[Path, typer.Option(help="the folder of configurations")] = Path("configs"),
) -> None:
    """Show what there is, the datasets with their statistics.

    Example: gump list datasets
    """
    from gump.experiment.listing import TABLES, listing

    with plain_errors():
        if what != "all" and what not in TABLES:
            raise ValueError(f"'what' must be one of {', '.join(TABLES)} or all (got '{what}')")
        if what == "configs" and not configs.is_dir():
            raise FileNotFoundError(f"'--configs' must be a folder of configurations (got '{configs}', which is none)")
        for name in TABLES if what == "all" else (what,):
            columns, rows = listing(name, configs, track)
            print_table(name, columns, rows)
