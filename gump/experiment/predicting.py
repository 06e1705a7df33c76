"""What trained weights answer about new data, as a table."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from gump.datasets import TRANSFER_TASKS, load_tu
from gump.datasets.cache import to_graphs
from gump.datasets.molecule import ATOM_SIZES, Molecule, bare_molecule, molecule_arrays, read_molecules
from gump.datasets.raw import NotHereError
from gump.datasets.smiles import smiles_column
from gump.datasets.table import Table, is_table, read_table, shown_lines
from gump.experiment.config import build
from gump.experiment.device import fabric_on
from gump.experiment.find_graphs import BENCHMARKS, find_graphs, is_file
from gump.experiment.registry import DATASETS
from gump.experiment.task import TASKS
from gump.experiment.trained import AT_ONCE, Trained, load_trained

READ_AT_ONCE = 10_000
"""Molecules that are read before they are asked about, so that memory is bounded and all cores have work."""

REASON = "reason"
"""The column that says why a line has no answer."""

Rows = list[list[str]]
Answer = tuple[list[str], str]
"""The numbers about a graph as text, which may be empty, and why there are none, if there are none."""


class Prediction(NamedTuple):
    """The answers to new data as the rows of a table.

    Args:
        columns: What the columns are called.
        num_rows: How many rows there will be.
        parts: The rows, some at a time, as text; answers are computed when they are asked for.
    """

    columns: list[str]
    num_rows: int
    parts: Iterator[Rows]


class Panel:
    """Trained models that are asked the same: their mean answers and, of several, how far these are spread.

    Probabilities are averaged, or numbers where it is a regression. The spread is the standard deviation over the models.

    Args:
        models: The models, which must have learned to answer one question.
    """

    def __init__(self, models: Sequence[Trained]) -> None:
        self.models, self.dataset = models, models[0].dataset
        self.task = TASKS[self.dataset.task]
        for other in models[1:]:
            if (one := _question(models[0])) != (another := _question(other)):
                raise ValueError(f"'weights' must answer one question, to be averaged (got {one} and {another})")
        self.names = self.dataset.target_names or tuple(map(str, range(self.dataset.num_targets)))

    @property
    def columns(self) -> list[str]:
        """What the numbers of an answer are called: the class, then a column for each class, label or regressand, then their spreads."""
        what = "predicted" if self.dataset.task == "regression" else "probability"
        columns = ["predicted"] if self.dataset.task == "multiclass" else []
        columns += [f"{what}_{name}" for name in self.names]
        return columns + [f"spread_{name}" for name in self.names if len(self.models) > 1]

    @property
    def no_answer(self) -> list[str]:
        """A row without numbers."""
        return [""] * len(self.columns)

    def __call__(self, graphs: Sequence[Data], first: int) -> Rows:
        """The answers to a part of the graphs, a row for each; ``first`` is the place of the first graph among all."""
        return self.answer([self.prepare(graph, number) for number, graph in enumerate(graphs, first)])

    def prepare(self, graph: Data, number: int) -> list[Data]:
        """A graph as each of the models wants it; what several of them do to it is done once."""
        made: dict[str, Data] = {}
        return [model.prepare(graph, number, made) for model in self.models]

    def answer(self, ready: Sequence[Sequence[Data]]) -> Rows:
        """The answers to graphs that are prepared, a row for each."""
        asked = zip(self.models, zip(*ready, strict=True), strict=True)
        each = torch.stack([self.task.expected(model.answer(graphs)).double().cpu() for model, graphs in asked])
        mean = each.mean(0)
        numbers = torch.cat([mean, each.std(0)], dim=1) if len(self.models) > 1 else mean
        rows = [[f"{number:.7g}" for number in row] for row in numbers.tolist()]
        if self.dataset.task == "multiclass":
            rows = [[self.names[found], *row] for found, row in zip(self.task.answer(mean), rows, strict=True)]
        return rows


def predict_data(weights: Sequence[Path], data: str, smiles: str | None = None, device: str = "auto") -> Prediction:
    """Asks trained weights about new data.

    Rows come in the order of the data. Those of a table of molecules keep its columns; what RDKit cannot read, or a transform cannot take, has no
    answer but a reason, and a warning counts it. Graphs have their number, counted from zero, and so have vertices, where the answers are about them.

    Args:
        weights: Files that ``gump run --keep-weights`` has left, or folders of them, whose answers are averaged.
        data: For weights that were trained on molecules a table as :func:`gump.datasets.load_smiles` reads it, which need not have any targets.
            Otherwise what :func:`gump.experiment.find_graphs.find_graphs` knows, such as an ``.npz``; for weights of the TU collection the name of a
            dataset in its format, which is read with the settings that these were trained with.
        smiles: The column of SMILES, by default the one that the weights were trained on.
        device: ``"cpu"``, ``"cuda"``, or what Lightning Fabric knows besides.
    """
    models, place = [load_trained(path) for path in _files(weights)], fabric_on(device).device
    for model in models:
        model.model.to(place)
    panel, path = Panel(models), Path(data).expanduser()
    if panel.dataset.level == "link":
        raise ValueError("'weights' must answer about graphs or vertices (got links); load_trained asks about pairs in Python")
    if panel.dataset.x_sizes == ATOM_SIZES and (is_file(data) or is_table(path)):
        table = read_table(path)
        column = smiles_column(table, smiles or models[0].settings["dataset"].get("smiles", "smiles"))
        if taken := [name for name in (*panel.columns, REASON) if name in table.columns]:
            raise ValueError(f"{path} must leave the columns of the answers free (got one called {taken[0]!r}); rename it")
        return Prediction([*table.columns, *panel.columns, REASON], len(table.lines), _about_molecules(panel, table, column))
    if is_table(path):
        raise _other_graphs(panel.dataset.name, f"'{data}', a table of molecules")
    graphs = _find_graphs(models[0], data)
    if panel.dataset.level == "node":
        num_vertices = sum(int(graph.num_nodes or 0) for graph in graphs)
        return Prediction(["graph", "vertex", *panel.columns], num_vertices, _about_graphs(panel, graphs))
    return Prediction(["graph", *panel.columns], len(graphs), _about_graphs(panel, graphs))


def _question(model: Trained) -> str:
    """What a model can be asked, told from others."""
    about = model.dataset
    names = ", ".join(about.target_names) or f"{about.num_targets} targets"
    return f"{about.task} of {about.level}s, {names}"


def _files(weights: Sequence[Path]) -> list[Path]:
    files = []
    for path in weights:
        found = sorted(path.glob("*.pt")) if path.is_dir() else [path]
        if not found:
            below = sorted({str(file.parent) for file in path.rglob("*.pt")})  # of settings that were changed, or points of a sweep
            where = f"some are in {', '.join(below)}" if below else "`gump run --keep-weights` leaves one beside every record"
            raise FileNotFoundError(
                f"'weights' must be files of weights, or folders of them (got '{path}', in which there are none); {where}"
            )
        files += found
    return list({path.resolve(): path for path in files}.values())


def _find_graphs(model: Trained, data: str) -> Sequence[Data]:
    """The graphs that are asked about; for weights of the TU collection those of a dataset in its format, if it is no file that is meant."""
    settings, name = model.settings["dataset"], data.removeprefix("tu:")
    is_named = name != data
    if settings["kind"] == "tu" and _is_no_tu(data) and not is_file(data):
        raise _other_graphs(model.dataset.name, f"'{data}', which is of another kind")
    if settings["kind"] != "tu" or (not is_named and (is_file(data) or Path(data).name != data)):
        return find_graphs(data)
    is_sure = is_named or not Path(data).suffix  # or else it may be a file that is not there
    try:
        return list(build(settings | {"name": name}, DATASETS, download=is_sure, one_class=True))
    except NotHereError:
        if is_sure:
            raise
        return find_graphs(data)


def _is_no_tu(name: str) -> bool:
    """Whether a name stands for graphs that are not of the TU collection."""
    is_transfer = re.fullmatch(rf"({'|'.join(TRANSFER_TASKS)})-\d+", name)
    is_benchmark = name in BENCHMARKS and getattr(BENCHMARKS[name], "func", None) is not load_tu
    return name == "fake" or name.startswith("smiles:") or is_transfer is not None or is_benchmark


def _other_graphs(trained_on: str, got: str) -> ValueError:
    return ValueError(f"'data' must be graphs like those of {trained_on}, which the weights were trained on (got {got})")


def _about_graphs(panel: Panel, graphs: Sequence[Data]) -> Iterator[Rows]:
    for first in range(0, len(graphs), AT_ONCE):
        part = graphs[first : first + AT_ONCE]
        places: Rows = [[str(number)] for number in range(first, first + len(part))]
        if panel.dataset.level == "node":
            sizes = [int(graph.num_nodes or 0) for graph in part]
            places = [[*place, str(vertex)] for place, size in zip(places, sizes, strict=True) for vertex in range(size)]
        yield [[*place, *answer] for place, answer in zip(places, panel(part, first), strict=True)]


def _about_molecules(panel: Panel, table: Table, column: str) -> Iterator[Rows]:
    own, failed, num_asked = list(zip(*table.columns.values(), strict=True)), [], 0
    for start in range(0, len(own), READ_AT_ONCE):
        found = read_molecules(table.columns[column][start : start + READ_AT_ONCE], _molecule_or_reason, show=False)
        for i in range(0, len(found), AT_ONCE):
            part, rows = found[i : i + AT_ONCE], []
            molecules = [each for each in part if isinstance(each, Molecule)]
            answers = _answers_and_reasons(panel, to_graphs(molecule_arrays(molecules)) if molecules else [], num_asked)
            num_asked += len(molecules)
            for row, each in enumerate(part, start + i):
                answer, reason = next(answers) if isinstance(each, Molecule) else (panel.no_answer, each)
                failed += [row] if reason else []
                rows.append([*own[row], *answer, reason])
            yield rows
    if failed:
        warnings.warn(
            f"{table.path}: {len(failed):,} of {len(own):,} molecules have no answer ({shown_lines(table.lines[np.array(failed)])}); the column "
            f"{REASON!r} says why",
            stacklevel=2,
        )


def _answers_and_reasons(panel: Panel, graphs: Sequence[Data], first: int) -> Iterator[Answer]:
    """The answer to every graph or, where there is none, the reason; one that cannot be prepared does not lose the others."""
    ready = [_prepared_or_reason(panel, graph, number) for number, graph in enumerate(graphs, first)]
    answers = iter(_answered(panel, [each for each in ready if not isinstance(each, str)]))
    for each in ready:
        yield (panel.no_answer, each) if isinstance(each, str) else next(answers)


def _prepared_or_reason(panel: Panel, graph: Data, number: int) -> list[Data] | str:
    try:
        return panel.prepare(graph, number)
    except ValueError as error:
        return str(error).removeprefix(f"graph {number} ")  # which is no number of the table


def _answered(panel: Panel, ready: Sequence[Sequence[Data]]) -> list[Answer]:
    """The answers to graphs that are prepared; where a model refuses one of them, each is asked about alone."""
    try:
        return [(row, "") for row in panel.answer(ready)] if ready else []
    except ValueError as error:
        if len(ready) == 1:
            return [(panel.no_answer, str(error))]
        return [answer for each in ready for answer in _answered(panel, [each])]


def _molecule_or_reason(smiles: str) -> Molecule | str:
    try:
        return bare_molecule(smiles)
    except ValueError as error:
        return str(error)
