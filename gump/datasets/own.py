"""A graph of the user's own."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from gump.datasets.raw import short

FORMATS = (
    "a list of edges as text, two whole numbers from 0 on a line with a space, a tab or a comma between them, "
    "or .npz with an array 'edge_index'"
)
"""What can be read, in the words of errors."""

EDGE = re.compile(r"([0-9]{1,15})(?:\s*[,;]\s*|\s+)([0-9]{1,15})(?:(?:\s*[,;]\s*|\s+)([-+.0-9eE]+))?")
"""A line of text: two vertices and, perhaps, a number that is not read."""

HEAD = re.compile(r"[^\W\d][\w ]*(\s*[,;]\s*[^\W\d][\w ]*){1,2}")
"""The first line of a CSV file, with two or three names."""

MAX_NODES = 10**8
"""More vertices than this are a slip in a file rather than a graph."""


def load_own(path: str | os.PathLike[str]) -> Data:
    """Reads one graph from a file: a list of edges as text, or arrays of NumPy.

    - *Text*: an edge on each line, as the numbers of its two vertices, counted from zero, with spaces, a tab, a comma or a semicolon between
      them. A third number, such as a weight, is not read, and a warning says so. What follows a ``#`` or a ``%`` is a comment, and the first
      line may name the columns of a CSV file.
    - ``.npz``: an array ``edge_index`` of shape ``[2, num_edges]`` and, if there are vertex features, ``x`` with a row for each vertex.

    The graph is undirected: every edge is listed once in each orientation, whichever the file has. Self-loops are removed and repeated edges
    merged. There are as many vertices as rows of ``x``, or else one more than the largest number that occurs, and a
    warning says which numbers do not. Weights and attributes of edges are not read. Without ``x`` in the file there is none in the result.

    Args:
        path: The file.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        ...     print("0 1  # a path of three vertices", "1 2", sep=chr(10), file=file, flush=True)
        ...     load_own(file.name)
        Data(edge_index=[2, 4], num_nodes=3)
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"'path' must be a file with a list of edges, or .npz (got '{path}', which is none)")
    edges, x = _from_arrays(path) if path.suffix == ".npz" else (_from_text(path), None)
    num_nodes = int(edges.max(initial=-1)) + 1 if x is None else len(x)
    if edges.min(initial=0) < 0 or edges.max(initial=-1) >= num_nodes:
        wrong = edges.min() if edges.min() < 0 else edges.max()
        raise ValueError(f"{path} must number vertices from 0 to {num_nodes - 1} (got {wrong})")
    if num_nodes == 0:
        raise ValueError(f"{path} must have an edge or a vertex at least (got none)")
    if num_nodes > MAX_NODES:
        raise ValueError(f"{path} must have at most {MAX_NODES:,} vertices (got {num_nodes:,}); number them from zero without gaps")
    edge_index = to_undirected(remove_self_loops(torch.from_numpy(edges))[0], num_nodes=num_nodes)
    if x is None:
        _warn_of_gaps(path, edges, num_nodes)
        return Data(edge_index=edge_index, num_nodes=num_nodes)
    return Data(x=torch.from_numpy(x), edge_index=edge_index)


def _warn_of_gaps(path: Path, edges: np.ndarray, num_nodes: int) -> None:
    """Warns of vertices that nothing but larger numbers tells of, such as the first where a file counts from one."""
    found = np.zeros(num_nodes, dtype=bool)
    found[edges] = True
    if not found.all():
        missing = np.flatnonzero(~found)
        which = f"{missing[0]}" if missing.size == 1 else f"{missing[0]} and {missing.size - 1:,} more"
        warnings.warn(
            f"{path} leaves out {which} of the numbers from 0 to {num_nodes - 1:,}: these count as vertices without edges",
            stacklevel=3,
        )


def _from_text(path: Path) -> np.ndarray:
    edges, weighted = [], 0
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be {FORMATS} (got something that is not text)") from error
    lines = [re.split("[#%]", line)[0].strip() for line in lines]
    head = next((number for number, line in enumerate(lines) if line), -1)
    for number, line in enumerate(lines):
        if not line or (number == head and HEAD.fullmatch(line)):
            continue
        if not (match := EDGE.fullmatch(line)):
            raise ValueError(f"{path} must be {FORMATS} (got {short(line)!r} in line {number + 1})")
        edges.append([int(match[1]), int(match[2])])
        weighted += match[3] is not None
    if weighted:
        warnings.warn(
            f"{path} has a third number in {weighted:,} of {len(edges):,} lines: weights of edges are not read", stacklevel=3
        )
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T.copy()


def _from_arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} must be an archive of arrays, as np.savez writes it (got something else); give a list of edges another ending"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in ("edge_index", "x") if name in file}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} must hold plain arrays, as np.savez writes them ({error})") from error
    edges, x = arrays.get("edge_index"), arrays.get("x")
    if edges is None or edges.ndim != 2 or len(edges) != 2 or not np.issubdtype(edges.dtype, np.integer):
        got = "none" if edges is None else f"{list(edges.shape)} of {edges.dtype}"
        raise ValueError(f"{path} must hold an array 'edge_index' of whole numbers and shape [2, num_edges] (got {got})")
    if x is None:
        return edges.astype(np.int64), None
    with np.errstate(over="ignore"):
        features = x.astype(np.float32) if x.dtype.kind in "biuf" else None
    if features is None or x.ndim != 2 or x.shape[1] == 0 or not np.isfinite(features).all():
        raise ValueError(
            f"'x' in {path} must be finite numbers of shape [num_nodes, num_features], also in single precision (got {list(x.shape)} of "
            f"{x.dtype}, or some that are not finite)"
        )
    return edges.astype(np.int64), features
