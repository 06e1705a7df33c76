"""Citation networks in Planetoid's files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from gump.datasets.cache import Arrays, cached
from gump.datasets.checksums import SHA256
from gump.datasets.dataset import Dataset
from gump.datasets.pickles import unpickle_arrays
from gump.datasets.raw import Location, download_file, find_raw, read_raw

URL = "https://github.com/kimiyoung/planetoid/raw/master/data/{file}"
PLANETOID = ("Cora", "CiteSeer", "PubMed")
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
NUM_VAL = 500


def load_planetoid(
    name: str,
    root: Location | None = None,
    cache: Location | bool | None = None,
    level: str = "node",
    download: bool = True,
) -> Dataset:
    """Reads a citation network (`Yang et al. 2016 <https://arxiv.org/abs/1603.08861>`_): one graph of papers with their topics.

    The public split has twenty papers per class to train on, 500 for validation and 1,000 for the test. Citations are undirected here, each
    listed once in each orientation, without self-loops. Papers without citations stay; so do the 15 of CiteSeer that the files know
    nothing of, with features zero and class 0 and in no part of the split. Features are the raw ones; scaling them to rows of sum one is
    the trainer's matter.

    The raw files are pickles, which can run code when they are read. They are read only after their checksums matched, and only arrays,
    sparse matrices and dictionaries come out of them.

    Args:
        name: ``"Cora"``, ``"CiteSeer"`` or ``"PubMed"``.
        root: The folder that holds ``NAME/raw/ind.NAME.x`` and its siblings (``NAME`` in lower case there), as for :func:`load_tu`.
        cache: As for :func:`load_tu`.
        level: ``"node"`` to ask for the topics; ``"link"`` to ask which papers are linked, for which there is no official split.
        download: As for :func:`load_tu`.
    """
    if name not in PLANETOID:
        raise ValueError(f"'name' must be one of {', '.join(map(repr, PLANETOID))} (got {name!r})")
    if level not in ("node", "link"):
        raise ValueError(f"'level' must be 'node' or 'link' (got {level!r})")
    files = [f"raw/ind.{name.lower()}.{part}" for part in PARTS]
    folder = find_raw(name, files, root, cache, partial(_fetch, files) if download else None)
    paths = [folder / file for file in files]
    arrays = cached(cache, name, {}, paths, lambda: _read(name, paths))
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    if level == "link":
        return Dataset(name, [Data(x=tensors["x"], edge_index=tensors["edge_index"])], "binary", 1, level="link")
    data = Data(x=tensors["x"], edge_index=tensors["edge_index"], y=tensors["y"])
    split = {part: tensors[part] for part in ("train", "val", "test")}
    return Dataset(name, [data], "multiclass", int(data.y.max()) + 1, level="node", split=split)


def _fetch(files: list[str], folder: Path) -> None:
    for file in files:
        download_file(URL.format(file=Path(file).name), folder / file)


def _unpickle(name: str, path: Path) -> Any:
    known = f"{name}/raw/{path.name}"
    if known not in SHA256:
        raise ValueError(f"{path} is a pickle of unknown checksum, which is not read")
    return unpickle_arrays(read_raw(path, known))


def _read(name: str, paths: list[Path]) -> Arrays:
    """Puts the parts together: papers of known place first, then the test's, which lie in the files in another order than in the graph."""
    part = dict(zip(PARTS, paths, strict=True))
    content = {key: _unpickle(name, path) for key, path in part.items() if key != "test.index"}
    test = np.array(read_raw(part["test.index"], f"{name}/raw/{part['test.index'].name}").split(), dtype=np.int64)
    num_nodes, num_known = len(content["graph"]), content["allx"].shape[0]
    x = np.zeros((num_nodes, content["allx"].shape[1]), dtype=np.float32)
    y = np.zeros((num_nodes, content["ally"].shape[1]))
    x[:num_known], y[:num_known] = content["allx"].toarray(), content["ally"]
    # The i-th row of the test's files belongs to the i-th entry of test.index.
    x[test], y[test] = content["tx"].toarray(), content["ty"]
    pairs = [(paper, other) for paper, others in content["graph"].items() for other in others]
    edge_index = to_undirected(remove_self_loops(torch.tensor(pairs).t())[0], num_nodes=num_nodes)  # merges repeated edges
    num_train = content["y"].shape[0]
    return {
        "x": x,
        "edge_index": edge_index.numpy(),
        "y": y.argmax(axis=1),
        "train": np.arange(num_train),
        "val": np.arange(num_train, num_train + NUM_VAL),
        "test": np.sort(test),
    }
