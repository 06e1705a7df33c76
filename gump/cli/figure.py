"""``gump figure``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gump.cli.console import check_out, plain_errors, print_table

if TYPE_CHECKING:
    from gump.report.figures import FigureKind

MEASURE = "gump figure jacobian --measure"


def figure(
    name: Annotated[str | None, typer.Argument(help="which figure; without a name they are listed")] = None,
    records: Annotated[Path, typer.Option(help="the folder of records")] = Path("records"),
    jacobian: Annotated[Path, typer.Option(help="the measured Jacobians")] = Path("figures/jacobian.json"),
    measure: Annotated[bool, typer.Option("--measure", help="measure them first, for some minutes")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="models that are measured at every depth")] = 3,
    data: Annotated[Path | None, typer.Option(help="draw this saved data and nothing else")] = None,
    out: Annotated[Path, typer.Option(help="the folder to write to")] = Path("out/figures"),
    png: Annotated[bool, typer.Option("--png", help="write a PNG besides SVG and PDF")] = False,
) -> None:
    """Draw a figure of the paper from records or measured Jacobians.

    Its data is saved beside it, and can be drawn again with --data.

    Example: gump figure transfer --out out/figures
    """
    from gump.record import write_atomically
    from gump.report.figure import save_figure
    from gump.report.figures import FIGURES, as_json, has_content, load_data

    if name is None:
        rows = [[name, kind.shows, ", ".join(needs(kind))] for name, kind in FIGURES.items()]
        print_table("figures", ["name", "shows", "needs"], rows)
        return
    with plain_errors():
        if name not in FIGURES:
            raise ValueError(f"'name' must be one of {', '.join(FIGURES)} (got '{name}')")
        check_out(out)
        kind = FIGURES[name]
        if measure and data:
            raise ValueError("'--measure' and '--data' exclude each other: saved data is drawn as it is")
        if measure:
            _measure(kind, jacobian, seeds)
        found = load_data(data, name) if data else _collect(name, kind, records, jacobian)
        if lacks := found.get("missing"):
            typer.echo("\n".join(f"missing: {what}: {why}" for what, why in lacks.items()), err=True)
            typer.echo("\n".join(f"made by: {command}" for command in commands(lacks)), err=True)
        if not has_content(found):
            raise ValueError(f"there is nothing to draw in the figure '{name}'")
        text = as_json(found)
        try:
            drawn = kind.draw(json.loads(text))
        except (KeyError, TypeError) as error:
            raise ValueError(f"the data of the figure '{name}' must be as it was saved (got something else at {error})") from error
        written = save_figure(drawn, out / name, pdf=True, png=png)
        write_atomically(out / f"{name}.json", text.encode())
        typer.echo("\n".join(map(str, [*written, out / f"{name}.json"])))


def needs(kind: FigureKind) -> list[str]:
    """What has to be run for a figure, as commands."""
    return [MEASURE] * kind.uses_jacobian + commands(kind.configs)


def commands(missing: Iterable[str]) -> list[str]:
    """The commands that make what is missing and nothing else: a folder is named where all that figures draw from it is missing."""
    from gump.report.figures import FIGURES

    drawn = {config for kind in FIGURES.values() for config in kind.configs}
    folders: dict[str, list[str]] = {}
    for config in missing:
        folders.setdefault(config.split("/")[0], []).append(config)
    found = []
    for folder, configs in folders.items():
        whole = {config for config in drawn if config.startswith(f"{folder}/")} <= set(configs)
        files = [f"configs/{folder}"] if whole else [f"configs/{config}.toml" for config in configs]
        found.append(MEASURE if folder == "jacobian" else f"gump run {' '.join(files)}")
    return found


def _collect(name: str, kind: FigureKind, records: Path, jacobian: Path) -> dict[str, Any]:
    from gump.record import load_records
    from gump.report.figures import load_data

    measured = load_data(jacobian, "jacobian") if kind.uses_jacobian and jacobian.is_file() else None
    runs = [record for config in kind.configs for record in load_records(records / config)]
    found = kind.collect(runs, measured)
    if kind.uses_jacobian and measured is None:
        found["missing"] = {"jacobian": f"no file {jacobian}"} | found.get("missing", {})
    return {"figure": name, **found}


def _measure(kind: FigureKind, jacobian: Path, seeds: int) -> None:
    from gump.experiment.figure_data import jacobian_data
    from gump.record import write_atomically
    from gump.report.figures import as_json

    if not kind.uses_jacobian:
        raise ValueError("'--measure' is for figures with Jacobians, jacobian and introduction; this one is drawn from records")
    found = jacobian_data(num_seeds=seeds, say=lambda text: typer.echo(text, err=True))
    write_atomically(jacobian, as_json({"figure": "jacobian", "command": f"{MEASURE} --seeds {seeds}", **found}).encode())
