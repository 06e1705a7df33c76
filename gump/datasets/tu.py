"""The TU benchmark collection."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch_geometric.utils import coalesce, remove_self_loops

from gump.datasets.cache import Arrays, cached, to_graphs
from gump.datasets.checksums import SHA256
from gump.datasets.dataset import Dataset
from gump.datasets.raw import Location, download_file, find_raw, parse_table, read_raw, unpack

URL = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"
PARTS = ("A", "graph_indicator", "graph_labels", "graph_attributes", "node_labels", "node_attributes", "edge_labels")
"""The files ``NAME_PART.txt`` that are read where they are there; the first two always are."""
COLUMNS = {"A": 2, "graph_indicator": 1, "graph_labels": 1}

FORMAT = 2
"""The version of what is kept of a dataset in the cache."""

MAX_WIDTH, MAX_UNUSED = 1000, 10
"""The most columns that labels become, whichever is more: so many, or so many for each that occurs."""


def load_tu(
    name: str,
    root: Location | None = None,
    cache: Location | bool | None = None,
    use_node_attr: bool = False,
    strict: bool = True,
    download: bool = True,
    one_class: bool = False,
) -> Dataset:
    """Reads one dataset of the TU collection (`Morris et al. 2020 <https://arxiv.org/abs/2007.08663>`_), any of them by its name.

    Features are the one-hot vertex labels and edge attributes the one-hot edge labels, as PyG's ``TUDataset`` gives them by default; a single
    one where there are no vertex labels. Self-loops are removed and repeated edges merged; vertices without edges stay. Classes are numbered in the
    order of the file's labels, which are their ``target_names``.

    Files that are truncated or altered are refused: those of the paper's five datasets by their checksums, all others where their files
    contradict each other. What no other file tells can still go unnoticed there: a wrong label, or the loss of both orientations of the
    last edges.

    Args:
        name: The dataset, such as ``"MUTAG"``.
        root: The folder that holds ``NAME/raw/NAME_A.txt`` and its siblings, which is not written into; by default the environment variable
            ``GUMP_DATA`` names it. What is not there is downloaded into the cache.
        cache: The folder to keep read graphs in; by default the environment variable ``GUMP_CACHE`` names it, or it is
            ``~/.cache/torch-gump``. ``False`` for none.
        use_node_attr: Whether to put the vertices' numeric attributes before their labels.
        strict: Whether to refuse edges that are listed in one orientation only, and a last graph of several vertices without any edge. Both
            are signs of a file that was cut off, though a dataset may be like that.
        download: Whether to download what is not there; otherwise it is an error.
        one_class: Whether all graphs may be of one class, as is well where nothing is learned from them; otherwise it is an error.
    """
    files = [f"raw/{name}_A.txt", f"raw/{name}_graph_indicator.txt"]
    files += [
        file.removeprefix(f"{name}/")
        for file in SHA256
        if file.startswith(f"{name}/raw/{name}_") and file[len(name) + 1 :] not in files
    ]
    folder = find_raw(name, files, root, cache, partial(_fetch, name) if download else None)
    parts = {part: path for part in PARTS if (path := folder / "raw" / f"{name}_{part}.txt").is_file()}
    if not use_node_attr and "node_attributes" in parts and "node_labels" not in parts:
        warnings.warn(
            f"{name} has attributes of its vertices and no labels; 'use_node_attr' reads them, now every vertex has a 1",
            stacklevel=2,
        )
    if (folder / "raw" / f"{name}_edge_attributes.txt").is_file():
        warnings.warn(f"{name}_edge_attributes.txt is not read: edges have their labels alone, if there are any", stacklevel=2)
    settings = {"use_node_attr": use_node_attr, "strict": strict, "format": FORMAT}
    arrays = cached(cache, name, settings, list(parts.values()), lambda: _read(name, parts, use_node_attr, strict))
    y = arrays["y"]
    if y.ndim > 1:
        return Dataset(name, to_graphs(arrays), "regression", y.shape[1])
    classes = arrays["classes"].tolist()
    if len(classes) < 2 and not one_class:
        raise ValueError(
            f"{parts['graph_labels']} must have two classes at least, to be told apart (got {classes[0]} in every line)"
        )
    return Dataset(name, to_graphs(arrays), "multiclass", len(classes), target_names=tuple(map(str, classes)))


def _fetch(name: str, folder: Path) -> None:
    archive = folder / "archive.zip"
    download_file(URL.format(name=name), archive)
    unpack(archive, folder / "raw")
    archive.unlink()


def _read(name: str, paths: dict[str, Path], use_node_attr: bool, strict: bool) -> Arrays:
    """Reads and checks the text files of a dataset."""
    content = {part: read_raw(path, f"{name}/raw/{path.name}") for part, path in paths.items()}
    for part, text in content.items():
        # A set whose files all lack the last line break was written that way; a single one was cut off.
        if not text.endswith(b"\n") and any(other.endswith(b"\n") for other in content.values()):
            raise ValueError(f"{paths[part]} must end with a line break, as its siblings do: it was truncated")
    table = {
        part: parse_table(paths[part], text, float if part.endswith("attributes") else int, COLUMNS.get(part))
        for part, text in content.items()
    }
    edges, graph = table["A"] - 1, table["graph_indicator"][:, 0] - 1
    _check_indicator(paths["graph_indicator"], graph)
    _check_lines(paths, table)
    _check_edges(paths, edges, graph, strict)
    num_graphs, num_nodes = int(graph[-1]) + 1, graph.size
    if use_node_attr and "node_attributes" not in table:
        raise ValueError(f"'use_node_attr' must be false for {name}, which has no {name}_node_attributes.txt (got true)")
    columns = [table["node_attributes"].astype(np.float32)] if use_node_attr else []
    columns += _one_hot(paths["node_labels"], table["node_labels"]) if "node_labels" in table else []
    x = np.concatenate(columns, axis=1) if columns else np.ones((num_nodes, 1), dtype=np.float32)
    edge_index, edge_attr = torch.from_numpy(edges.T.copy()), None
    if "edge_labels" in table:
        edge_attr = torch.from_numpy(np.concatenate(_one_hot(paths["edge_labels"], table["edge_labels"]), axis=1))
    edge_index, edge_attr = coalesce(*remove_self_loops(edge_index, edge_attr), num_nodes)
    owner = graph[edge_index[0].numpy()]
    sizes = np.bincount(graph)
    arrays = {
        "num_nodes": sizes,
        "num_edges": np.bincount(owner, minlength=num_graphs),
        "x": x,
        "edge_index": edge_index.numpy() - (np.cumsum(sizes) - sizes)[owner],
        **_answers(paths, table),
    }
    return arrays if edge_attr is None else {**arrays, "edge_attr": edge_attr.numpy()}


def _answers(paths: dict[str, Path], table: dict[str, np.ndarray]) -> Arrays:
    """Classes counted from zero, with the labels that they have in the file, or, in a dataset without, the regressands."""
    if "graph_labels" in table:
        classes, y = np.unique(table["graph_labels"][:, 0], return_inverse=True)
        return {"y": y.astype(np.int64), "classes": classes}
    if "graph_attributes" in table:
        return {"y": table["graph_attributes"].astype(np.float32)}
    missing = paths["A"].with_name(paths["A"].name.removesuffix("A.txt") + "graph_labels.txt")
    raise FileNotFoundError(f"{missing} is missing; put it beside {paths['A'].name}")


def _check_lines(paths: dict[str, Path], table: dict[str, np.ndarray]) -> None:
    """Refuses files of different length on the same things; which of the two is wrong cannot be told."""
    counts = {
        "graph": ("graph", "graph_indicator", int(table["graph_indicator"].max())),
        "node": ("vertex", "graph_indicator", len(table["graph_indicator"])),
        "edge": ("edge", "A", len(table["A"])),
    }
    for part in PARTS[2:]:
        thing, other, count = counts[part.split("_")[0]]
        if part in table and len(table[part]) != count:
            raise ValueError(
                f"{paths[part]} must have a line for each {thing} of {paths[other].name}, {count:,} (got {len(table[part]):,}): one of the two "
                "was truncated or altered"
            )


def _check_indicator(path: Path, graph: np.ndarray) -> None:
    step = np.diff(graph, prepend=-1)
    wrong = (step < 0) | (step > 1) | (np.arange(graph.size) == 0) & (step != 1)
    if wrong.any():
        line = int(wrong.argmax())
        raise ValueError(f"{path} must count the graphs from 1 without gaps (got {graph[line] + 1} in line {line + 1})")


def _check_edges(paths: dict[str, Path], edges: np.ndarray, graph: np.ndarray, strict: bool) -> None:
    path, indicator = paths["A"], paths["graph_indicator"].name

    def first(wrong: np.ndarray) -> str:
        line = int(wrong.argmax())
        return f"{tuple((edges[line] + 1).tolist())} in line {line + 1}"

    outside = (edges.min(axis=1) < 0) | (edges.max(axis=1) >= graph.size)
    if outside.any():
        raise ValueError(f"{path} must name vertices from 1 to {graph.size:,}, as {indicator} has lines (got {first(outside)})")
    across = graph[edges[:, 0]] != graph[edges[:, 1]]
    if across.any():
        raise ValueError(f"{path} must join vertices that are of one graph by {indicator} (got {first(across)})")
    if not strict:
        return
    lonely = ~np.isin(edges[:, 0] * graph.size + edges[:, 1], edges[:, 1] * graph.size + edges[:, 0])
    if lonely.any():
        raise ValueError(
            f"{path} must list every edge in both orientations (got {first(lonely)} in one): it was truncated or altered, or lists edges "
            "once and needs them both ways, or the dataset is directed and you must pass strict=False (strict = false in a configuration)"
        )
    last = int(graph[-1])
    if (graph == last).sum() > 1 and not (graph[edges[:, 0]] == last).any():
        raise ValueError(
            f"{path} must have an edge of the last graph, {last + 1}: it was truncated, or there is none and you must pass strict=False "
            "(strict = false in a configuration)"
        )


def _one_hot(path: Path, table: np.ndarray) -> list[np.ndarray]:
    """For every column of labels a matrix with a column for each number from the smallest to the largest; refuses those with large gaps."""
    found = []
    for labels in table.T:
        low, high, num_labels = int(labels.min()), int(labels.max()), np.unique(labels).size
        if (width := high - low + 1) > max(MAX_WIDTH, MAX_UNUSED * num_labels):
            raise ValueError(
                f"{path} must have labels without large gaps, since every number from the smallest to the largest becomes a feature (got "
                f"{num_labels:,} different ones from {low} to {high} in line {int(labels.argmax()) + 1}); number them consecutively"
            )
        found.append(np.zeros((labels.size, width), dtype=np.float32))
        found[-1][np.arange(labels.size), labels - low] = 1
    return found
