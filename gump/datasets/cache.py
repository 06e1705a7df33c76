"""A cache of graphs as flat arrays, which loads fast and without unpickling."""

from __future__ import annotations

import glob
import hashlib
import json
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gump.datasets.raw import Location, cache_folder, file_sha256
from gump.files import open_atomically

FORMAT = 1
"""The version of the layout; another one is another file."""

Arrays = dict[str, np.ndarray]
"""All graphs of a dataset, one after the other: ``num_nodes`` and ``num_edges`` of each, ``x``, ``edge_index`` (shape :math:`(2, E)`, counting from
the first vertex of each graph), ``y``, perhaps ``edge_attr``, and whatever else a loader wants to keep."""


def cached(
    cache: Location | bool | None,
    name: str,
    settings: Mapping[str, Any],
    files: Sequence[Path],
    build: Callable[[], Arrays],
    reader: str | None = "",
) -> Arrays:
    """Returns the arrays that ``build`` makes, from the cache if they are there.

    The key holds everything that the arrays depend on: name, settings, the version of the layout, and the SHA-256 of every raw file as it is
    now, so that a changed file is read (and checked) again. A cache file that cannot be read is built anew; a cache that cannot be written is
    a warning.

    Args:
        cache: A folder; ``None`` for the default one; ``False`` for no cache at all.
        name: The dataset.
        settings: What else the arrays depend on.
        files: The raw files.
        build: Reads and checks them.
        reader: The version of what reads the files, each of which has an entry of its own; ``None`` where it is not installed, so that any
            entry will do.
    """
    if cache is False:
        return build()
    key = json.dumps([FORMAT, name, dict(settings), [[path.name, file_sha256(path)] for path in files]], sort_keys=True)
    folder, entry = cache_folder(cache) / "graphs", f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    path = folder / (f"{entry}-{reader}.npz" if reader else f"{entry}.npz")
    found = [path] if reader is not None else sorted(folder.glob(f"{glob.escape(entry)}-*.npz"))
    arrays = next((arrays for each in reversed(found) if (arrays := _read(each)) is not None), None)
    if arrays is None:
        arrays = build()
        try:
            _write(path, arrays)
        except OSError as error:
            warnings.warn(f"{name} could not be kept in the cache: {error}", stacklevel=3)
    return arrays


def to_graphs(arrays: Arrays) -> list[Data]:
    """Cuts flat arrays into graphs, which are views of them.

    Rows of ``x`` belong to vertices, of ``edge_attr`` to edges, of ``y`` to graphs. Each graph's ``y`` keeps its leading dimension of one, so that
    the batch has one row per graph.
    """
    tensors = {name: torch.from_numpy(arrays[name]) for name in ("x", "edge_index", "edge_attr", "y") if name in arrays}
    nodes, edges = arrays["num_nodes"].tolist(), arrays["num_edges"].tolist()
    sizes = {"x": nodes, "edge_index": edges, "edge_attr": edges, "y": [1] * len(nodes)}
    parts = {name: tensor.split(sizes[name], dim=1 if name == "edge_index" else 0) for name, tensor in tensors.items()}
    return [Data(**dict(zip(parts, values, strict=True))) for values in zip(*parts.values(), strict=True)]


def _read(path: Path) -> Arrays | None:
    """The arrays in a file, each in its own type again; none if the file is not there or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            types = json.loads(str(file["types"]))
            return {name: file[name].astype(kind, copy=False) for name, kind in types.items()}
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,  # how zipfile says that it does not know a compression
    ):
        return None


def _write(path: Path, arrays: Arrays) -> None:
    """Writes arrays with their types, each in the smallest type that holds its numbers."""
    types = json.dumps({name: array.dtype.str for name, array in arrays.items()})
    content: dict[str, Any] = {name: _narrow(array) for name, array in arrays.items()}
    with open_atomically(path) as file:
        np.savez_compressed(file, types=np.array(types), **content)


def _narrow(array: np.ndarray) -> np.ndarray:
    """The same numbers in the smallest integer type that holds them all, if there is one."""
    if array.size == 0 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return array
    for kind in (np.uint8, np.int8, np.uint16, np.int16, np.int32):
        info = np.iinfo(kind)
        if info.min <= array.min() and array.max() <= info.max and array.dtype.itemsize > np.dtype(kind).itemsize:
            narrow = array.astype(kind)
            return narrow if np.array_equal(narrow, array) else array
    return array
