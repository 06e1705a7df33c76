"""The molecules of ogbg-molhiv."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from gump.datasets.cache import Arrays, cached, to_graphs
from gump.datasets.checksums import REGENERATED
from gump.datasets.dataset import Dataset
from gump.datasets.molecule import ATOM_SIZES, BOND_SIZES
from gump.datasets.raw import Location, download_file, find_raw, parse_table, read_raw, unpack

URL = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip"
FOLDER = "ogbg_molhiv"
COLUMNS = {
    "num-node-list": 1,
    "num-edge-list": 1,
    "edge": 2,
    "node-feat": len(ATOM_SIZES),
    "edge-feat": len(BOND_SIZES),
    "graph-label": 1,
}
NOTES = {
    True: "atom and bond features were computed again from the SMILES with RDKit 2022.09.5 and are not OGB's to the byte",
    False: "atom and bond features were taken as they are: no checksum of theirs is known",
}
SPLIT = {"train": "train", "val": "valid", "test": "test"}


def load_molhiv(root: Location | None = None, cache: Location | bool | None = None, download: bool = True) -> Dataset:
    """Reads ``ogbg-molhiv`` (`Hu et al. 2020 <https://arxiv.org/abs/2005.00687>`_): does a molecule keep HIV from replicating?

    41,127 molecules with categories as features, nine for atoms and three for bonds, in OGB's csv files. Every bond is listed in both
    orientations. The official split is by scaffold, so that the molecules of the test are built differently from those of training.

    Structure, labels and split must be OGB's. The features may be those that were computed again from the SMILES, or others, such as OGB's
    own, whose checksum is not known; these must fit the molecules. The dataset's ``note`` says which.

    Args:
        root: The folder that holds ``ogbg_molhiv/raw/edge.csv.gz`` and its siblings, as for :func:`load_tu`.
        cache: As for :func:`load_tu`.
        download: As for :func:`load_tu`.
    """
    raw, split = [f"raw/{part}.csv.gz" for part in COLUMNS], [f"split/scaffold/{part}.csv.gz" for part in SPLIT.values()]
    folder = find_raw(FOLDER, raw + split, root, cache, _fetch if download else None)
    arrays = cached(cache, FOLDER, {}, [folder / file for file in raw + split], lambda: _read(folder))
    note = NOTES[bool(arrays["regenerated"])]
    return Dataset(
        name="ogbg-molhiv",
        graphs=to_graphs(arrays),
        task="binary",
        num_targets=1,
        split={part: torch.from_numpy(arrays[part]) for part in SPLIT},
        x_sizes=ATOM_SIZES,
        edge_sizes=BOND_SIZES,
        note=note,
    )


def _fetch(folder: Path) -> None:
    archive = folder / "archive.zip"
    download_file(URL, archive)
    unpack(archive, folder)
    archive.unlink()


def _read(folder: Path) -> Arrays:
    """Reads and checks the csv files."""
    paths = {part: folder / f"raw/{part}.csv.gz" for part in COLUMNS}
    content = {part: read_raw(path, f"{FOLDER}/raw/{path.name}") for part, path in paths.items()}
    table = {part: parse_table(paths[part], content[part], int, width) for part, width in COLUMNS.items()}
    _check(paths, table)
    bonds = table["edge"]
    found = [hashlib.sha256(content[Path(known).name.removesuffix(".csv.gz")]).hexdigest() for known in REGENERATED]
    arrays = {
        "num_nodes": table["num-node-list"][:, 0],
        "num_edges": 2 * table["num-edge-list"][:, 0],
        "x": table["node-feat"],
        "edge_index": np.stack([bonds, bonds[:, ::-1]], axis=1).reshape(-1, 2).T.copy(),
        "edge_attr": np.repeat(table["edge-feat"], 2, axis=0),
        "y": table["graph-label"].astype(np.float32),
        "regenerated": np.array(found == list(REGENERATED.values())),
    }
    for part, file in SPLIT.items():
        path = folder / f"split/scaffold/{file}.csv.gz"
        arrays[part] = parse_table(path, read_raw(path, f"{FOLDER}/split/scaffold/{path.name}"), int, 1)[:, 0]
    num_graphs = arrays["num_nodes"].size
    if not np.array_equal(np.sort(np.concatenate([arrays[part] for part in SPLIT])), np.arange(num_graphs)):
        raise ValueError(f"the files under {folder / 'split/scaffold'} must share the {num_graphs:,} molecules among them")
    return arrays


def _check(paths: dict[str, Path], table: dict[str, np.ndarray]) -> None:
    """Refuses files that contradict each other, which is all that can be said of features whose checksum is not known."""
    num_nodes, num_bonds = table["num-node-list"][:, 0], table["num-edge-list"][:, 0]
    rows = {"num-edge-list": num_nodes.size, "graph-label": num_nodes.size, "node-feat": num_nodes.sum()}
    for part, count in (rows | {"edge": num_bonds.sum(), "edge-feat": num_bonds.sum()}).items():
        if len(table[part]) != count:
            raise ValueError(f"{paths[part]} must have {count:,} lines (got {len(table[part]):,}): a file was truncated")
    for part, sizes in (("node-feat", ATOM_SIZES), ("edge-feat", BOND_SIZES)):
        if (table[part] < 0).any() or (table[part] >= np.array(sizes)).any():
            raise ValueError(f"{paths[part]} must have categories from zero, fewer than {sizes} in its columns")
    if not np.isin(table["graph-label"], (0, 1)).all():
        raise ValueError(f"{paths['graph-label']} must have zeros and ones only")
    if (table["edge"] < 0).any() or (table["edge"] >= np.repeat(num_nodes, num_bonds)[:, None]).any():
        raise ValueError(f"{paths['edge']} must name atoms of the molecule that a bond belongs to")
    first = np.repeat(np.cumsum(num_nodes) - num_nodes, num_bonds)[:, None]
    degree = np.bincount((table["edge"] + first).reshape(-1), minlength=len(table["node-feat"]))
    # An atom's degree, hydrogen included, less its hydrogen is the number of its bonds, where neither is in the category of what is too many.
    total, hydrogen = table["node-feat"][:, 2], table["node-feat"][:, 4]
    wrong = (total - hydrogen != degree) & (total < ATOM_SIZES[2] - 1) & (hydrogen < ATOM_SIZES[4] - 1)
    if wrong.any():
        raise ValueError(
            f"{paths['node-feat']} must agree with the bonds in the degree of every atom (not so in line {wrong.argmax() + 1})"
        )
