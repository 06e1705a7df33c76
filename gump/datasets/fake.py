"""Small random graphs that can be learned in seconds."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.datasets.dataset import LEVELS, TASKS, Dataset

X_SIZE, EDGE_SIZES = 4, (4, 3)


def fake_dataset(
    level: str = "graph",
    task: str = "multiclass",
    num_graphs: int = 32,
    num_nodes: int = 8,
    num_targets: int | None = None,
    categorical: bool = False,
    edge_features: bool = False,
    missing: float = 0.0,
    seed: int = 0,
) -> Dataset:
    r"""Draws small graphs with a question that can be learned, for tests and first steps.

    What is asked for is written into the features, under noise: the :math:`k`-th column of ``x`` is the :math:`k`-th target (of the one-hot class,
    at task ``"multiclass"``) plus a normal number, at every vertex that the answer is about; one more column is noise alone. Graphs are rings
    of ``num_nodes`` vertices, two more or less, with a few chords. At levels ``"node"`` and ``"link"`` there is a single graph of
    ``num_graphs * num_nodes`` vertices, whose edges prefer equal answers. Three fifths of the answers are for training, a fifth each for
    validation and test.

    Args:
        level: ``"graph"``, ``"source"``, ``"node"`` or ``"link"``.
        task: ``"multiclass"``, ``"binary"``, ``"multilabel"`` or ``"regression"``. Links are always ``"binary"``.
        num_graphs: The number of graphs.
        num_nodes: About how many vertices each has, at least 5.
        num_targets: The number of classes, labels or regressands; by default 3, and 1 at task ``"binary"``.
        categorical: Whether features are categories, numbered from zero, instead of numbers.
        edge_features: Whether there is an ``edge_attr``, whose first column is like the first of ``x``.
        missing: The portion of targets that are NaN; classes are all known.
        seed: Of everything that is random; torch's global state is left alone.

    Example:
        >>> fake_dataset(task="regression", num_graphs=10)
        Dataset('fake', 10 graphs, regression of graphs, num_targets=3)
    """
    if level not in LEVELS or task not in TASKS:
        raise ValueError(f"'level' must be one of {LEVELS} and 'task' of {TASKS} (got {level!r} and {task!r})")
    if num_graphs < 5 or num_nodes < 5:
        raise ValueError(f"'num_graphs' and 'num_nodes' must be at least 5 (got {num_graphs} and {num_nodes})")
    if level == "link":
        task, hidden, num_targets = "binary", "multiclass", 3
    else:
        hidden = task
    if num_targets is None:
        num_targets = 1 if task == "binary" else 3
    if num_targets < (2 if hidden == "multiclass" else 1) or (hidden == "binary" and num_targets != 1):
        raise ValueError(f"'num_targets' must be at least 2 for task 'multiclass', and 1 for 'binary' (got {num_targets})")
    generator = torch.Generator().manual_seed(seed)
    single = level in ("node", "link")
    num_answers = num_graphs * num_nodes if single else num_graphs
    y, signal = _answers(hidden, num_answers, num_targets, generator)
    if single:
        graphs = [_graph(signal, _community_edges(signal, generator), categorical, edge_features, generator)]
    else:
        sizes = torch.randint(num_nodes - 2, num_nodes + 3, (num_graphs,), generator=generator).tolist()
        graphs = [
            _graph(row.expand(size, -1), _ring_edges(size, generator), categorical, edge_features, generator)
            for row, size in zip(signal, sizes, strict=True)
        ]
    if task != "multiclass" and missing > 0:
        y[torch.rand(y.shape, generator=generator) < missing] = torch.nan
    for i, graph in enumerate(graphs):
        if level != "link":
            graph.y = y if single else y[i : i + 1]
        if level == "source":
            graph.source_index = torch.tensor([0])
    order, fifth = torch.randperm(num_answers, generator=generator), num_answers // 5
    train, val, test = order.split([num_answers - 2 * fifth, fifth, fifth])
    return Dataset(
        name="fake",
        graphs=graphs,
        task=task,
        num_targets=1 if level == "link" else num_targets,
        level=level,
        split=None if level == "link" else {"train": train, "val": val, "test": test},
        x_sizes=(X_SIZE,) * (num_targets + 1) if categorical else (),
        edge_sizes=EDGE_SIZES if categorical and edge_features else (),
    )


def _answers(task: str, num_answers: int, num_targets: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The answers in the shape of ``y``, and as rows of numbers from zero to one."""
    if task == "multiclass":
        y = torch.arange(num_answers) % num_targets
        return y, torch.eye(num_targets)[y]
    y = torch.rand(num_answers, num_targets, generator=generator)
    if task == "regression":
        return 2 * y - 1, y
    return y.round(), y.round()


def _ring_edges(num_nodes: int, generator: torch.Generator) -> Tensor:
    v = torch.arange(num_nodes)
    chords = torch.randint(num_nodes, (2, 2), generator=generator)
    edges = torch.cat([torch.stack([v, (v + 1) % num_nodes]), chords[:, chords[0] != chords[1]]], dim=1)
    return to_undirected(edges, num_nodes=num_nodes)


def _community_edges(signal: Tensor, generator: torch.Generator) -> Tensor:
    """Three edges per vertex, to the nearest of a few others in what is asked for."""
    num_nodes = signal.size(0)
    source = torch.arange(num_nodes).repeat(3)
    others = torch.randint(num_nodes - 1, (source.numel(), 5), generator=generator)
    others += others >= source.view(-1, 1)
    nearest = (signal[others] - signal[source].unsqueeze(1)).square().sum(dim=-1).argmin(dim=1)
    return to_undirected(torch.stack([source, others.gather(1, nearest.view(-1, 1)).view(-1)]), num_nodes=num_nodes)


def _graph(signal: Tensor, edge_index: Tensor, categorical: bool, edge_features: bool, generator: torch.Generator) -> Data:
    """A graph whose features tell the signal of each vertex, and whose edges tell the first number of either end."""
    num_nodes = signal.size(0)
    x = torch.cat([signal, torch.rand(num_nodes, 1, generator=generator)], dim=1)
    data = Data(x=_features(x, (X_SIZE,) * x.size(1), categorical, generator), edge_index=edge_index)
    if edge_features:
        low, high = edge_index.min(dim=0).values, edge_index.max(dim=0).values
        pairs, number = torch.stack([low, high]).unique(dim=1, return_inverse=True)
        attr = torch.stack([signal[pairs[0], 0], torch.rand(pairs.size(1), generator=generator)], dim=1)
        data.edge_attr = _features(attr, EDGE_SIZES, categorical, generator)[number]
    return data


def _features(x: Tensor, sizes: tuple[int, ...], categorical: bool, generator: torch.Generator) -> Tensor:
    """Numbers from zero to one with noise, or the categories that they fall into."""
    noisy = x + (0.1 if categorical else 0.5) * torch.randn(x.shape, generator=generator)
    return noisy if not categorical else (noisy.clamp(0, 1) * (torch.tensor(sizes) - 1)).round().long()
