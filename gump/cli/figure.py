"""``gump figure``."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gump.cli.console import check_out, plain_errors, print_table

if TYPE_CHECKING:
    from gump.report.figures import FigureKind

MEASURE = "gump figure jacobian --measure"
JACOBIAN = Path("figures/jacobian.json")
SEEDS = 3


def figure(
    name: Annotated[str | None, typer.Argument(help="which figure; without a name they are listed")] = None,
    records: Annotated[Path, typer.Option(help="the folder of records")] = Path("records"),
    jacobian: Annotated[Path | None, typer.Option(help=f"Jacobians, {JACOBIAN} by default")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="measure them first, for some minutes")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help=f"models at every depth, {SEEDS} by default")] = None,
    dataset: Annotated[str | None, typer.Option(help="measure a graph of it, not of NCI1")] = None,
    index: Annotated[int | None, typer.Option(help="the number of that graph")] = None,
    pair: Annotated[tuple[int, int] | None, typer.Option(metavar="U V", help="source and target in it")] = None,
    distance: Annotated[int | None, typer.Option(min=1, help="or how far apart they are, not 10")] = None,
    data: Annotated[Path | None, typer.Option(help="draw this saved data and nothing else")] = None,
    out: Annotated[Path, typer.Option(help="the folder to write to")] = Path("out/figures"),
    png: Annotated[bool, typer.Option("--png", help="write a PNG besides SVG and PDF")] = False,
) -> None:
    """Draw a figure of the paper from records or measured Jacobians.

    Its data is saved beside it, and can be drawn again with --data.

    Example: gump figure transfer --out out/figures
    """
    from gump.files import write_atomically
    from gump.report.figure import save_figure
    from gump.report.figures import FIGURES, as_json, has_content, load_data

    if name is None:
        rows = [[name, kind.shows, ", ".join(needs(kind))] for name, kind in FIGURES.items()]
        print_table("figures", ["name", "shows", "needs"], rows)
        return
    with plain_errors():
        if name not in FIGURES:
            close = difflib.get_close_matches(name, FIGURES, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"'name' must be one of {', '.join(FIGURES)} (got '{name}'{hint})")
        check_out(out)
        kind = FIGURES[name]
        own = _given({"dataset": dataset, "index": index, "pair": pair, "distance": distance})
        _check(name, kind, measure, own, _given({"jacobian": jacobian, "seeds": seeds, "data": data}))
        if jacobian is None:
            jacobian = out / JACOBIAN.name if own else JACOBIAN  # that of the paper's pair stays
        if measure:
            _measure(jacobian, seeds or SEEDS, own)
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


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in options.items() if value is not None}


def _check(name: str, kind: FigureKind, measure: bool, own: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Refuses options that would do nothing."""
    asked = ["measure"] * measure + [*own] + [option for option in other if option in ("jacobian", "seeds")]
    if asked and not kind.uses_jacobian:
        raise ValueError(f"'--{asked[0]}' is for figures with Jacobians, jacobian and introduction; this one is drawn from records")
    if measure and "data" in other:
        raise ValueError("'--measure' and '--data' exclude each other: saved data is drawn as it is")
    if not measure and (idle := [option for option in asked if option != "jacobian"]):
        raise ValueError(f"'--{idle[0]}' must come with '--measure' (got it alone); without, what was measured before is drawn")
    if own and name != "jacobian":
        raise ValueError(f"'--{next(iter(own))}' is for the figure jacobian; this one is about the paper's pair")
    if "pair" in own and "distance" in own:
        raise ValueError("'--pair' and '--distance' exclude each other: a pair has the distance that it has")


def _measure(jacobian: Path, seeds: int, own: Mapping[str, Any]) -> None:
    from gump.experiment.figure_data import jacobian_data
    from gump.files import write_atomically
    from gump.report.figures import as_json

    found = jacobian_data(num_seeds=seeds, say=lambda text: typer.echo(text, err=True), **own)
    values = {"seeds": [seeds], **{option: value if option == "pair" else [value] for option, value in own.items()}}
    command = shlex.join([*MEASURE.split(), *(str(word) for option, words in values.items() for word in (f"--{option}", *words))])
    write_atomically(jacobian, as_json({"figure": "jacobian", "command": command, **found}).encode())
