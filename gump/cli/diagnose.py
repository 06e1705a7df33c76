"""``gump diagnose``."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from gump.cli.console import plain_errors, print_table


def diagnose(
    graph: Annotated[str, typer.Argument(help="a file of edges, a dataset such as MUTAG or Ring-20, or smiles:CCO")],
    index: Annotated[int | None, typer.Option(help="one graph of the dataset")] = None,
    sample: Annotated[int, typer.Option(min=1, help="graphs to measure at most")] = 200,
    width: Annotated[int, typer.Option(min=1, help="of the model whose cost is told")] = 64,
    memory: Annotated[float | None, typer.Option(help="gigabytes: which max_block fits?")] = None,
) -> None:
    """Say whether a graph has a bottleneck, and how deep to go.

    A file has two numbers a line (0 1 or 0,1), or is an .npz with edge_index.

    Example: gump diagnose NCI1 --index 7
    """
    from gump.experiment.diagnose import diagnose as run
    from gump.experiment.find_graphs import find_graphs

    with plain_errors():
        with warnings.catch_warnings(record=True) as told:
            graphs = find_graphs(graph)
        for warning in told:
            typer.echo(f"note: {warning.message}", err=True)
        found = run(graphs, graph, index, sample, width, memory)
        print_table(found.title, found.columns, found.rows)
        console = Console()
        for subject, text in found.notes.items():
            if console.is_terminal:
                console.print(Text.assemble((subject, "bold"), "  ", text))
            else:
                typer.echo(f"{subject}\t{text}")
