"""The peptides of the Long Range Graph Benchmark."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from gump.datasets.cache import Arrays, cached, to_graphs
from gump.datasets.dataset import Dataset
from gump.datasets.molecule import ATOM_SIZES, BOND_SIZES, molecule_arrays, rdkit_version, read_molecule, read_molecules
from gump.datasets.pickles import unpickle_arrays
from gump.datasets.raw import Location, download_file, find_raw, parse_table, read_raw

FUNCTIONAL, STRUCTURAL = "peptides-functional", "peptides-structural"
NAMES = {"functional": "peptides-func", "structural": "peptides-struct", "descriptors": "peptides-descriptors"}
CSV = {FUNCTIONAL: "peptide_multi_class_dataset.csv.gz", STRUCTURAL: "peptide_structure_normalized_dataset.csv.gz"}
URLS = {
    FUNCTIONAL: "https://www.dropbox.com/s/ol2v01usvaxbsr8/peptide_multi_class_dataset.csv.gz?dl=1",
    STRUCTURAL: "https://www.dropbox.com/s/0d4aalmq4b4e2nh/peptide_structure_normalized_dataset.csv.gz?dl=1",
}
URL_SPLIT = "https://www.dropbox.com/s/j4zcnx2eipuo0xz/splits_random_stratified_peptide.pickle?dl=1"
MD5_SPLIT = "5a0114bdadc80b94fc7ae974f13ef061"
SPLIT = {part: f"split/stratified-random/{part}.csv.gz" for part in ("train", "val", "test")}
NUM_LABELS = 10
STRUCTURE = (
    *(f"Inertia_{kind}_{axis}" for kind in ("mass", "valence") for axis in "abc"),
    *(f"length_{axis}" for axis in "abc"),
    "Spherocity",
    "Plane_best_fit",
)
"""The eleven columns of Peptides-struct: moments of inertia, by mass and by valence, lengths along three axes, and two measures of shape."""


NOTES = {
    "descriptors": "descriptors of the molecular graph; not Peptides-struct",
    "structural": "targets standardized by the training set, where the benchmark takes all molecules; errors are in a slightly other unit",
}
"""What has to be said beside a number."""


def load_peptides(
    target: str = "functional",
    root: Location | None = None,
    cache: Location | bool | None = None,
    download: bool = True,
) -> Dataset:
    """Reads the 15,535 peptides of the Long Range Graph Benchmark (`Dwivedi et al. 2022 <https://arxiv.org/abs/2206.08164>`_).

    Molecules of 151 atoms on average, made from SMILES with RDKit, with OGB's categories as features. Three questions can be asked:

    - ``"functional"`` (Peptides-func): which of ten functions does it have?
    - ``"structural"`` (Peptides-struct): eleven numbers that describe its shape in space. They come in a file of their own.
    - ``"descriptors"``: five numbers that follow from the molecular graph itself, :data:`gump.datasets.molecule.DESCRIPTORS`; the last two, its
      diameter and the mean distance of its atoms, are long-range. **This is not Peptides-struct** and its errors compare with no published
      number; it is a regression that needs no further file.

    Regressands are standardized with the mean and the standard deviation of the training set. (The benchmark's own are standardized with
    those of all molecules, so its unit of error is a slightly different one.)

    The split is the official one. The first call takes a minute or two, for RDKit has to read every molecule; later ones read the cache.

    Args:
        target: What to ask for, as above.
        root: The folder that holds ``peptides-functional/raw/peptide_multi_class_dataset.csv.gz`` and
            ``peptides-functional/split/stratified-random/train.csv.gz``, ``val.csv.gz`` and ``test.csv.gz`` (row numbers); and
            ``peptides-structural/raw/peptide_structure_normalized_dataset.csv.gz`` for the structure. As for :func:`load_tu`.
        cache: As for :func:`load_tu`. Another version of RDKit makes another entry, since it may see molecules otherwise; where there
            is no RDKit, any entry will do.
        download: As for :func:`load_tu`.
    """
    if target not in NAMES:
        raise ValueError(f"'target' must be one of {', '.join(map(repr, NAMES))} (got {target!r})")
    folder = STRUCTURAL if target == "structural" else FUNCTIONAL
    table, split_paths = _find(folder, root, cache, download)
    files = [table, *split_paths.values()]
    arrays = cached(cache, folder, {}, files, lambda: _read(folder, table, split_paths), rdkit_version())
    split = {part: torch.from_numpy(arrays[part]) for part in SPLIT}
    if target == "functional":
        y = arrays["labels"].astype(np.float32)
    else:
        y = standardize(arrays["descriptors" if target == "descriptors" else "structure"], arrays["train"])
    return Dataset(
        name=NAMES[target],
        graphs=to_graphs({**arrays, "y": y}),
        task="multilabel" if target == "functional" else "regression",
        num_targets=y.shape[1],
        split=split,
        x_sizes=ATOM_SIZES,
        edge_sizes=BOND_SIZES,
        note=NOTES.get(target, ""),
    )


def standardize(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Shifts and scales every column so that its training part has mean zero and standard deviation one."""
    part = values[train]
    scale = part.std(axis=0, ddof=1)
    return ((values - part.mean(axis=0)) / np.where(scale > 0, scale, 1)).astype(np.float32)


def _find(folder: str, root: Location | None, cache: Location | bool | None, download: bool) -> tuple[Path, dict[str, Path]]:
    """The table and the split, which both tables share and which lies beside the functions."""
    if folder == STRUCTURAL:
        found = find_raw(folder, [f"raw/{CSV[folder]}"], root, cache, _fetch_structural if download else None)
        return found / "raw" / CSV[folder], _find(FUNCTIONAL, root, cache, download)[1]
    found = find_raw(folder, [f"raw/{CSV[folder]}", *SPLIT.values()], root, cache, _fetch_functional if download else None)
    return found / "raw" / CSV[folder], {part: found / file for part, file in SPLIT.items()}


def _fetch_functional(folder: Path) -> None:
    download_file(URLS[FUNCTIONAL], folder / "raw" / CSV[FUNCTIONAL])
    pickle = folder / "split.pickle"
    download_file(URL_SPLIT, pickle, MD5_SPLIT)
    split = unpickle_arrays(pickle.read_bytes())
    pickle.unlink()
    for part, file in SPLIT.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{int(row)}\n" for row in split[part]).encode(), mtime=0))


def _fetch_structural(folder: Path) -> None:
    download_file(URLS[STRUCTURAL], folder / "raw" / CSV[STRUCTURAL])


def _read(folder: str, table: Path, split_paths: dict[str, Path]) -> Arrays:
    """Reads and checks the table and the split, and builds the graphs."""
    rows = _rows(table, read_raw(table, f"{folder}/raw/{table.name}"))
    answers = {"labels": _labels(table, rows)} if folder == FUNCTIONAL else {"structure": _structure(table, rows)}
    split = {
        part: parse_table(path, read_raw(path, f"{FUNCTIONAL}/{SPLIT[part]}"), int, 1)[:, 0] for part, path in split_paths.items()
    }
    if not np.array_equal(np.sort(np.concatenate(list(split.values()))), np.arange(len(rows))):
        raise ValueError(f"the files under {split_paths['train'].parent} must share the {len(rows):,} rows of {table} among them")
    return {**molecule_arrays(read_molecules([row["smiles"] for row in rows], read_molecule)), **answers, **split}


def _rows(path: Path, content: bytes) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    if not rows or any(None in row or None in row.values() or not row.get("smiles") for row in rows):
        raise ValueError(f"{path} must have a value in every column of every line, SMILES among them: it was truncated or altered")
    return rows


def _labels(path: Path, rows: Sequence[dict[str, str]]) -> np.ndarray:
    try:
        labels = np.array([json.loads(row["labels"]) for row in rows])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} must have lists of equal length in its column 'labels': {error}") from error
    if labels.shape[1:] != (NUM_LABELS,) or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"{path} must have {NUM_LABELS} zeros and ones in every line of its column 'labels'")
    return labels


def _structure(path: Path, rows: Sequence[dict[str, str]]) -> np.ndarray:
    try:
        values = np.array([[float(row[name]) for name in STRUCTURE] for row in rows])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} must have numbers in its columns {', '.join(STRUCTURE)}: {error}") from error
    if not np.isfinite(values).all():
        raise ValueError(f"{path} must have finite numbers only")
    return values
