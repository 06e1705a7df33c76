"""Finds the graphs that a name stands for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch_geometric.data import Data

from gump.datasets import (
    TRANSFER_TASKS,
    fake_dataset,
    load_molhiv,
    load_peptides,
    load_planetoid,
    load_transfer,
    load_tu,
    read_smiles,
)
from gump.datasets.dataset import Dataset
from gump.datasets.own import load_own

BENCHMARKS: dict[str, Callable[..., Dataset]] = {
    **{name: partial(load_tu, name) for name in ("MUTAG", "PROTEINS", "ENZYMES", "NCI1", "NCI109")},
    "Peptides-func": partial(load_peptides, "functional"),
    "Peptides-struct": partial(load_peptides, "structural"),
    "ogbg-molhiv": load_molhiv,
    **{name: partial(load_planetoid, name) for name in ("Cora", "CiteSeer", "PubMed")},
}
"""The datasets of the paper's tables."""

MAX_TRANSFER = {"Ring": 10**6, "CrossedRing": 10**6, "CliquePath": 4000}
"""The largest transfer tasks that are built; each vertex of a clique has as many edges as there are others."""


def find_graphs(name: str) -> list[Data]:
    """Finds the graphs that a name stands for.

    Args:
        name: A file that :func:`gump.datasets.own.load_own` reads; a dataset of ``gump list datasets``; ``tu:NAME`` for any other of the TU
            collection; a transfer task with its number of vertices, such as ``Ring-20``; ``smiles:CCO``, a molecule; or ``fake``.
    """
    if name.startswith("smiles:"):
        return [read_smiles(name.removeprefix("smiles:"))]
    if is_file(name):
        return [load_own(name)]
    if name in BENCHMARKS:
        return list(BENCHMARKS[name]())
    if name == "fake":
        return list(fake_dataset())
    if name.startswith("tu:"):
        return list(load_tu(name.removeprefix("tu:"), one_class=True))
    if match := re.fullmatch(rf"({'|'.join(TRANSFER_TASKS)})-(\d+)", name):
        if int(match[2]) > (most := MAX_TRANSFER[match[1]]):
            raise ValueError(f"'graph' must be a transfer task of at most {most:,} vertices, {match[1]}-{most} (got '{name}')")
        return list(load_transfer(match[1], int(match[2])))
    known = [*BENCHMARKS, *(f"{task}-20" for task in TRANSFER_TASKS), "fake"]
    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), lower, 1)
    hint = f"; did you mean {lower[close[0]]}?" if close else ""
    if not close and re.fullmatch(r"[A-Za-z][\w-]+", name):
        hint = f"; for one of the TU collection say tu:{name}, for a molecule smiles:{name}"
    elif re.search(r"[][()=#@]", name):
        hint = f"; for a molecule say smiles:{name}"
    raise ValueError(
        f"'graph' must be a file, tu:NAME, smiles:MOLECULE, or one of {', '.join(known)} (got '{name}', which is none of them{hint})"
    )


def is_file(name: str) -> bool:
    """Whether there is a file of that name; molecules may be longer than a file's name can be."""
    try:
        return Path(name).expanduser().is_file()
    except OSError:
        return False
