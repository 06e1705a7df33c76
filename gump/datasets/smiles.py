"""Molecules of the user's own: a table with a column of SMILES."""

from __future__ import annotations

import warnings
from itertools import compress
from pathlib import Path

import numpy as np
import torch

from gump.datasets.cache import Arrays, cached, to_graphs
from gump.datasets.dataset import Dataset
from gump.datasets.duplicates import check_duplicates, without_duplicates
from gump.datasets.molecule import (
    ATOM_SIZES,
    BOND_SIZES,
    Molecule,
    bare_molecule,
    canonical_smiles,
    molecule_arrays,
    murcko_scaffold,
    rdkit_version,
    read_molecules,
)
from gump.datasets.raw import Location
from gump.datasets.table import SHOWN, Table, read_table, shown_lines
from gump.datasets.targets import answers, choose_targets, choose_task, class_names, warn_of_lost_digits

PARTS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""What the column of the split may say, and which part it is."""

FORMAT = 2
"""The version of what is kept of a table in the cache."""


def load_smiles(
    path: Location,
    smiles: str = "smiles",
    targets: str | list[str] | None = None,
    task: str | None = None,
    split: str | None = "split",
    skip_invalid: bool = False,
    duplicates: str = "keep",
    cache: Location | bool | None = None,
) -> Dataset:
    """Reads molecules and what is asked about them from a table of your own, with a line for each and a column of SMILES.

    The file is a ``.csv`` or ``.tsv``, packed as ``.gz`` or not, whose first line names the columns. Molecules become graphs with the features of the
    Open Graph Benchmark, as :func:`read_smiles` has them: nine categories for atoms, three for bonds, hydrogen left implicit. Salts and
    single atoms are molecules like any others.

    A molecule that stands in several lines, however it is written there, may be learned from and tested on in one random split: a warning says how
    many there are, and how many of them have targets that differ. ``duplicates`` keeps them apart, and so does a split by scaffold.

    Labels and regressands that are missing (an empty cell, or ``NaN``) count for nothing in loss and measure; classes must be known. Classes are
    numbered in the order of their numbers or of the alphabet. Regressands stay in the unit of the file; of several columns, those whose numbers
    are large weigh more in the measure, unless they are scaled before, while in the loss that :mod:`gump.experiment` trains by all weigh alike.
    ``lines`` of what is returned says which line of the file each graph is.

    The first call takes longest, for RDKit has to read the molecules; later ones read the cache.

    Args:
        path: The file; a relative path is one from the present folder.
        smiles: The column of SMILES, which may be written in capitals in the file.
        targets: The columns that are asked for; by default the only one that holds numbers, or all of these where they hold nothing but zeros
            and ones.
        task: ``"binary"``, ``"multilabel"``, ``"multiclass"`` or ``"regression"``. By default zeros and ones are labels, words are classes and
            fractions regressands; whole numbers in a single column need the word, and so do classes that look like numbers (``1,200``, ``<5``).
        split: The column of the official split, which says ``train``, ``val`` (or ``valid``) or ``test`` in every line; ``None`` for none, even where
            there is a column of that name.
        skip_invalid: Whether to leave out, with a warning, what RDKit cannot read; otherwise it is an error.
        duplicates: What to do with molecules that stand in several lines, which are those with equal canonical SMILES: ``"keep"`` all lines; keep the
            ``"first"`` of each, of those with the fewest missing values, whatever the others say; or ``"refuse"`` such a table.
        cache: As for :func:`load_tu`. Another version of RDKit makes another entry, since it may see molecules otherwise; where there is no
            RDKit, any entry will do.
    """
    check_duplicates(duplicates)
    path = Path(path).expanduser()
    table = read_table(path)
    column = smiles_column(table, smiles)
    split, parts = _split_column(table, split)
    if targets is not None:
        choose_targets(table, targets, (column, split))  # while nothing is read yet
    name = Path(path.name.removesuffix(".gz")).stem
    settings = {"smiles": column, "format": FORMAT}
    arrays = cached(cache, name, settings, [path], lambda: _read(table, column), rdkit_version())
    valid = arrays["valid"]
    note = ""
    if not valid.all():
        if not skip_invalid:
            raise _unreadable(table, column, ~valid)
        note = f"{(~valid).sum():,} of {valid.size:,} molecules were left out, which RDKit could not read"
        warnings.warn(f"{path}: {note} ({shown_lines(table.lines[~valid])})", stacklevel=2)
    table = table.only(valid)
    names = choose_targets(table, targets, (column, split))
    task = choose_task(table, names, task)
    kept, found = without_duplicates(table, arrays["molecules"], answers(table, names, task), duplicates)
    note = "; ".join(filter(None, [note, found]))
    table = table.only(kept)
    known = answers(table, choose_targets(table, names, (column, split)), task)  # of what is left
    if task == "regression":
        warn_of_lost_digits(table, names)
    y = np.zeros((kept.size, *known.shape[1:]), known.dtype)
    y[kept] = known
    return Dataset(
        name=name,
        graphs=list(compress(to_graphs({**arrays, "y": y}), kept)),
        task=task,
        num_targets=int(known.max()) + 1 if task == "multiclass" else len(names),
        split=None if parts is None else _indices(parts[valid][kept]),
        x_sizes=ATOM_SIZES,
        edge_sizes=BOND_SIZES,
        note=note,
        scaffolds=torch.from_numpy(arrays["scaffolds"][kept]),
        target_names=tuple(class_names(table, names[0]) if task == "multiclass" else names),
        lines=torch.from_numpy(table.lines),
    )


def smiles_column(table: Table, smiles: str) -> str:
    """The name of the column of SMILES as the file has it, which may be written in capitals there."""
    if (column := table.find(smiles)) is None:
        raise ValueError(f"'smiles' must be a column of {table.path} (got {smiles!r}; there are: {table.names()})")
    return column


def _split_column(table: Table, split: str | None) -> tuple[str | None, np.ndarray | None]:
    """The name of the column as the file has it and the part that every row is in, if the table says so."""
    column = None if split is None else table.find(split)
    if column is None:
        if split not in (None, "split"):
            raise ValueError(f"'split' must be a column of {table.path} (got {split!r}; there are: {table.names()})")
        return None, None
    cells = table.columns[column]
    if other := [i for i, cell in enumerate(cells) if cell.lower() not in PARTS]:
        raise ValueError(
            f"'split' must be a column that says 'train', 'val' or 'test' in every line of {table.path} (got {cells[other[0]]!r} in line "
            f'{table.lines[other[0]]}); pass split=None (split = "none" in a configuration) to do without'
        )
    return column, np.array([PARTS[cell.lower()] for cell in cells])


def _indices(parts: np.ndarray) -> dict[str, torch.Tensor]:
    return {part: torch.from_numpy(np.flatnonzero(parts == part)) for part in PARTS.values()}


def _read(table: Table, column: str) -> Arrays:
    """Reads the molecules that RDKit understands, with a number for each and for its scaffold, equal where they are; ``valid`` says which rows
    they are."""
    rows = read_molecules(table.columns[column], _molecule)
    found, valid = [row for row in rows if row is not None], np.array([row is not None for row in rows])
    if not found:
        raise _unreadable(table, column, ~valid)
    molecules, canonical, scaffolds = zip(*found, strict=True)
    numbers = {"molecules": canonical, "scaffolds": scaffolds}
    arrays = {name: np.unique(texts, return_inverse=True)[1] for name, texts in numbers.items()}
    return molecule_arrays(molecules) | arrays | {"valid": valid}


def _molecule(smiles: str) -> tuple[Molecule, str, str] | None:
    """A molecule with an atom at least, its canonical SMILES and its scaffold; ``None`` for what is none."""
    try:
        return bare_molecule(smiles), canonical_smiles(smiles), murcko_scaffold(smiles)
    except ValueError:
        return None


def _unreadable(table: Table, column: str, wrong: np.ndarray) -> ValueError:
    first = np.flatnonzero(wrong)[:SHOWN].tolist()
    shown = ", ".join(f"{table.columns[column][row]!r} in line {table.lines[row]}" for row in first)
    more = f" and {wrong.sum() - SHOWN:,} more" if wrong.sum() > SHOWN else ""
    leave_out = "correct them, or pass skip_invalid=True (skip_invalid = true in a configuration) to leave them out"
    way_out = "correct them, or name another column with 'smiles'" if wrong.all() else leave_out
    return ValueError(
        f"{table.path} must have molecules that RDKit understands in its column {column!r} (got {shown}{more}, of {wrong.size:,}); {way_out}"
    )
