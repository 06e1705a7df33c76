"""A graph of the user's own."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

MAX_NODES = 10**8
"""More vertices than this are a slip in a file rather than a graph."""


def load_own(path: str | os.PathLike[str]) -> Data:
    """Reads one graph from a file: a list of edges as text, or arrays of NumPy.

    - *Text*: an edge on each line, as the numbers of its two vertices, counted from zero; what follows a ``#`` is a comment.
    - ``.npz``: an array ``edge_index`` of shape ``[2, num_edges]`` and, if there are vertex features, ``x`` with a row for each vertex.

    The graph is undirected: every edge is listed once in each orientation, whichever the file has. Self-loops are removed and repeated edges
    merged. There are as many vertices as rows of ``x``, or else one more than the largest number that occurs. Weights and attributes of
    edges are not read. Without ``x`` in the file there is none in the result.

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
        return Data(edge_index=edge_index, num_nodes=num_nodes)
    return Data(x=torch.from_numpy(x), edge_index=edge_index)


def _from_text(path: Path) -> np.ndarray:
    edges = []
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text, or arrays of NumPy in a file whose name ends in .npz (got neither)") from error
    for number, line in enumerate(lines, start=1):
        if not (ends := line.split("#")[0].strip()):
            continue
        if not re.fullmatch(r"[0-9]{1,15}\s+[0-9]{1,15}", ends):
            raise ValueError(
                f"{path} must have two whole numbers on each line, the ends of an edge (got {line.strip()!r} in line {number})"
            )
        edges.append([int(end) for end in ends.split()])
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
    if x is not None and (x.ndim != 2 or x.dtype.kind not in "biuf" or not np.isfinite(x).all()):
        raise ValueError(
            f"'x' in {path} must be finite numbers of shape [num_nodes, num_features] (got {list(x.shape)} of {x.dtype}, "
            "or some that are not finite)"
        )
    return edges.astype(np.int64), None if x is None else x.astype(np.float32)
