"""Loads a dataset and applies its transforms, once."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import time
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
import torch_geometric
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform, Compose

import gump
from gump.datasets.cache import Arrays, cached
from gump.datasets.dataset import Dataset
from gump.datasets.workers import num_cores, process_pool, show_progress
from gump.experiment.config import build
from gump.experiment.outside import outside_code
from gump.experiment.registry import DATASETS, TRANSFORMS
from gump.transforms import AddLineGraph

WORTH_PROCESSES_S = 10.0
"""Work that would take longer is shared among processes, each of which needs seconds to start."""

CHUNK = 32

FAULTS_OF_THE_MACHINE = (ImportError, MemoryError, torch.OutOfMemoryError)
"""Errors that a transform would have with other graphs, too: a package is missing, or memory is short."""

WAY_OUT = "; leave it out of the data, or give the transform another setting"
"""What to do about a graph of a dataset that a transform does not take."""


def prepare(settings: Mapping[str, Any], line_graph: bool, root: Path | None = None) -> Dataset:
    """Loads the dataset of a configuration and applies its transforms, or has them applied later where they say so; what they made beforehand
    is kept in the cache.

    Args:
        settings: The configuration's tables.
        line_graph: Whether graphs carry their line graph.
        root: The folder of raw data, by default as the loader finds it.
    """
    takes_root = "root" in inspect.signature(DATASETS[settings["dataset"]["kind"]]).parameters
    dataset: Dataset = build(settings["dataset"], DATASETS, **({"root": root} if root and takes_root else {}))
    dataset = dataclasses.replace(dataset, fingerprint=_fingerprint(dataset.graphs))
    chain: list[BaseTransform] = [build(transform, TRANSFORMS) for transform in settings["transform"]]
    if settings["transform"] and dataset.level == "link":
        raise ValueError(
            "'transform' must be empty where links are asked about: transforms would see those that are to be predicted"
        )
    if line_graph and dataset.level != "link":
        chain.append(AddLineGraph())
    if not chain:
        return dataset
    data = dataset.fingerprint
    if dataset.x_sizes and settings["transform"]:  # encodings that are appended to categories would be cut to whole numbers
        floats = _with_numbers(dataset.graphs)
        dataset, data = dataclasses.replace(dataset, graphs=floats), _fingerprint(floats)
    tables = _bare_tables(settings)
    times = [table["when"] for table in settings["transform"]]
    num_first = times.index("batch") if "batch" in times else len(chain)  # whatever comes after a late one is late
    if num_first:
        key = {
            "data": data,
            "transforms": tables[:num_first],
            "line_graph": len(tables) < num_first,
            "code": _code(chain[:num_first]),
        }
        first = Compose(chain[:num_first])
        arrays = cached(None, f"{dataset.name}-transformed", key, [], lambda: _flat(_apply(first, dataset.graphs)))
        dataset = dataclasses.replace(dataset, graphs=_graphs(arrays))
    if num_first < len(chain):
        dataset = dataclasses.replace(dataset, graphs=TransformedGraphs(dataset.graphs, Compose(chain[num_first:])))
    return dataset


class Preparation:
    """What a configuration does to graphs before a model takes them, for graphs that are not those of its dataset; nothing is kept.

    Those with an equal ``key`` make the same of a graph.

    Args:
        settings: The configuration's tables.
        line_graph: Whether graphs carry their line graph.
        categories: Whether the columns of ``x`` are categories.
    """

    def __init__(self, settings: Mapping[str, Any], line_graph: bool, categories: bool) -> None:
        chain: list[BaseTransform] = [build(transform, TRANSFORMS) for transform in settings["transform"]]
        self.transform = Compose([*chain, AddLineGraph()] if line_graph else chain)
        self.with_numbers = categories and bool(chain)
        self.key = json.dumps([_bare_tables(settings), line_graph, self.with_numbers], sort_keys=True)

    def __call__(self, graph: Data, number: int = 0) -> Data:
        """A graph as a model takes it; ``number`` is its place in a list, by which goes what is random about a transform."""
        if self.with_numbers:
            [graph] = _with_numbers([graph])
        return _transformed(self.transform, graph, number)


def _bare_tables(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tables of transforms without when they are applied, which changes nothing about their results."""
    return [{key: value for key, value in table.items() if key != "when"} for table in settings["transform"]]


def _with_numbers(graphs: Sequence[Data]) -> list[Data]:
    """Graphs whose categories are numbers, to which others can be appended."""
    copies = [copy(graph) for graph in graphs]
    for graph in copies:
        graph.x = graph.x.float()
    return copies


class TransformedGraphs(Sequence[Data]):
    """Graphs that are transformed whenever they are asked for, for transforms whose results are too large to be kept.

    One that comes out otherwise than the first, so that they cannot be in one batch, is refused.

    Args:
        graphs: The graphs.
        transform: What is done to them, one after the other.
    """

    def __init__(self, graphs: Sequence[Data], transform: Compose) -> None:
        self.graphs, self.transform = graphs, transform

    def __len__(self) -> int:
        return len(self.graphs)

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> list[Data]: ...
    def __getitem__(self, index: int | slice) -> Data | list[Data]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        graph = self._transformed(number)
        _check_alike(graph, number, self._kinds, 0)
        return graph

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return _kinds(self._transformed(0))

    def _transformed(self, number: int) -> Data:
        return _transformed(self.transform, copy(self.graphs[number]), number, WAY_OUT)


def _apply(transform: Compose, graphs: Sequence[Data]) -> list[Data]:
    """Transforms graphs, in several processes if it takes long."""
    start, done = time.perf_counter(), []
    for number, graph in enumerate(graphs):
        done.append(_transformed(transform, graph, number, WAY_OUT))
        spent = time.perf_counter() - start
        if spent > 1 and spent / len(done) * len(graphs) > WORTH_PROCESSES_S:
            break
    if len(done) == len(graphs):
        return done
    first = range(len(done), len(graphs), CHUNK)
    rest = [list(graphs[i : i + CHUNK]) for i in first]
    with process_pool(min(num_cores(), len(rest)), "spawn", torch.set_num_threads, (1,)) as pool:
        results = pool.map(_apply_chunk, [transform] * len(rest), [_flat(chunk) for chunk in rest], first)
        for arrays in show_progress(results, len(rest), f"preparing {len(graphs)} graphs"):
            done += _graphs(arrays)
    return done


def _apply_chunk(transform: Compose, arrays: Arrays, first: int) -> Arrays:
    return _flat([_transformed(transform, graph, number, WAY_OUT) for number, graph in enumerate(_graphs(arrays), first)], first)


def _transformed(transform: Compose, graph: Data, number: int, way_out: str = "") -> Data:
    """Transforms one graph; what is random about it, such as the signs of eigenvectors, depends on the graph's number only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        for step in transform.transforms:
            try:
                graph = step(graph)
                if not isinstance(graph, Data):
                    raise TypeError(f"it returned {graph!r} and no graph")
            except FAULTS_OF_THE_MACHINE:
                raise
            except Exception as error:  # of whatever kind a transform has for graphs that it does not take
                why = str(error) or type(error).__name__
                raise ValueError(f"graph {number} cannot be transformed by {type(step).__name__} ({why}){way_out}") from error
    return graph


def _kinds(graph: Data) -> dict[str, str]:
    """What attributes must have in common with those of other graphs, to be joined with them."""
    kinds = {}
    for key, value in graph:
        kinds[key] = (
            "a string" if isinstance(value, str) else "a number" if isinstance(value, int | float) else type(value).__name__
        )
        if isinstance(value, Tensor):
            dim = graph.__cat_dim__(key, value)
            grows = {dim % value.dim()} if isinstance(dim, int) and value.dim() else set()
            sizes = ["*" if i in grows else str(size) for i, size in enumerate(value.shape)]
            kinds[key] = f"shape [{', '.join(sizes)}]"
    return kinds


def _check_alike(graph: Data, number: int, kinds: Mapping[str, str], first: int) -> None:
    """Refuses a graph that cannot be joined with the first one, whose kinds are given."""
    own = _kinds(graph)
    for key in sorted(own.keys() | kinds.keys()):
        one, other = kinds.get(key, "none"), own.get(key, "none")
        if one != other:
            raise ValueError(
                f"'{key}' must be alike in all graphs, to be joined (got {other} on graph {number}, and {one} on graph {first}); leave one of them "
                "out of the data, or give the transforms other settings if it comes from them"
            )


def _flat(graphs: Sequence[Data], first: int = 0) -> Arrays:
    """Graphs as flat arrays: for every attribute the values end to end, and the extent of each graph's along the dimension that grows.

    Graphs are numbered from ``first`` in errors.
    """

    def check() -> None:
        kinds = _kinds(graphs[0])
        for number, graph in enumerate(graphs, first):
            _check_alike(graph, number, kinds, first)

    arrays: Arrays = {"num_nodes": np.array([graph.num_nodes for graph in graphs])}
    keys = set(graphs[0].keys())
    if any(set(graph.keys()) != keys for graph in graphs):
        check()
    for key in sorted(keys - {"num_nodes"}):
        values = [graph[key] for graph in graphs]
        if isinstance(values[0], Tensor):
            dim = graphs[0].__cat_dim__(key, values[0])
            if values[0].dim() == 0 or not isinstance(dim, int):
                raise ValueError(f"'{key}' must be a tensor that can be joined with those of other graphs (got {values[0]!r})")
            try:
                joined = torch.cat(values, dim)
            except (RuntimeError, TypeError):
                check()
                raise
            arrays[f"{key}:{dim % values[0].dim()}"] = joined.numpy()
            arrays[f"{key}:sizes"] = np.array([value.size(dim) for value in values])
        else:
            if len(set(map(type, values))) > 1:
                check()
            arrays[f"{key}:plain"] = np.array(values)
            if arrays[f"{key}:plain"].dtype.kind not in "biufU":
                raise ValueError(f"'{key}' must be a tensor, a number or a string (got {values[0]!r})")
    return arrays


def _graphs(arrays: Arrays) -> list[Data]:
    """Graphs from flat arrays, as views of them."""
    columns: dict[str, Sequence[Any]] = {}
    for name, array in arrays.items():
        key, _, how = name.partition(":")
        if how == "plain":
            columns[key] = array.tolist()
        elif how.isdigit():
            columns[key] = torch.from_numpy(array).split(arrays[f"{key}:sizes"].tolist(), dim=int(how))
    graphs = [Data(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
    for graph, num_nodes in zip(graphs, arrays["num_nodes"].tolist(), strict=True):
        if "x" not in graph:
            graph.num_nodes = num_nodes
    return graphs


def _fingerprint(graphs: Sequence[Data]) -> str:
    """Tells datasets apart by what is in them."""
    digest = hashlib.sha256()
    for name, array in _flat(graphs).items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _code(chain: Sequence[BaseTransform]) -> str:
    """Tells versions of transforms apart: of ours by the code that they may import, of others by the file that defines them."""
    folder, digest = Path(gump.__file__).parent, hashlib.sha256(torch_geometric.__version__.encode())
    for room in ("transforms", "linalg", "kernels", "line_graph.py"):
        for path in sorted((folder / room).rglob("*.py")) if (folder / room).is_dir() else [folder / room]:
            digest.update(path.read_bytes() if path.is_file() else b"")
    digest.update(outside_code(type(transform) for transform in chain).encode())
    return digest.hexdigest()[:16]
