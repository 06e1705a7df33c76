"""Graphs on which one vertex must learn what another, far away, is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.datasets.dataset import Dataset


class _Shape(NamedTuple):
    """The graph of a task: its edges in one orientation, the target, and the hops to it from vertex 0, the source."""

    edges: Tensor
    target: int
    distance: int


def _ring(num_nodes: int) -> _Shape:
    v = torch.arange(num_nodes)
    return _Shape(torch.stack([v, (v + 1) % num_nodes]), num_nodes // 2, num_nodes // 2)


def _crossed_ring(num_nodes: int) -> _Shape:
    ring, v = _ring(num_nodes), torch.arange(num_nodes // 2)
    across, aslant = torch.stack([v, num_nodes - 1 - v]), torch.stack([v[2:], num_nodes + 1 - v[2:]])
    return ring._replace(edges=torch.cat([ring.edges, across, aslant], dim=1))


def _clique_path(num_nodes: int) -> _Shape:
    half = num_nodes // 2
    clique, v = torch.combinations(torch.arange(half)).t(), torch.arange(half - 1, num_nodes - 1)
    return _Shape(torch.cat([clique, torch.stack([v, v + 1])], dim=1), num_nodes - 1, half + 1)


_SHAPES: dict[str, Callable[[int], _Shape]] = {"Ring": _ring, "CrossedRing": _crossed_ring, "CliquePath": _clique_path}
TRANSFER_TASKS = tuple(_SHAPES)


def transfer_task(
    name: str,
    num_nodes: int,
    num_classes: int = 5,
    num_graphs: int | None = None,
    random_features: bool = False,
    seed: int = 0,
) -> list[Data]:
    r"""Builds the graphs of a transfer task: the *source* vertex must tell the label that the *target* vertex holds.

    The tasks of Di Giovanni et al. (`On Over-Squashing in Message Passing Neural Networks <https://arxiv.org/abs/2302.02941>`_), by
    name, on :math:`n` vertices of which vertex 0 is the source:

    - ``"Ring"``: a cycle; the target is opposite, :math:`n / 2` hops away.
    - ``"CrossedRing"``: the cycle with chords between its two sides, which do not bring the target nearer.
    - ``"CliquePath"``: the source is in a clique of :math:`n / 2` vertices, the target at the end of a path of the other
      :math:`n / 2`, so :math:`n / 2 + 1` hops away.

    The target's features are the one-hot label, the source's are zero, all others one. So there are only as many distinct graphs
    as classes: who learns the task has shown that a signal arrives, not that anything generalizes. With ``random_features`` the
    others are drawn from a normal distribution, all graphs differ, and a model can be tested on graphs that it has not seen.

    Labels take turns. ``source_index`` and ``target_index`` are shifted by a PyG ``DataLoader`` like every ``*_index``, so
    ``out[batch.source_index]`` are the answers to compare with ``batch.y``. ``distance`` counts the hops from one to the other. Every
    edge is listed once in each orientation.

    Args:
        name: One of the names above.
        num_nodes: The number of vertices of each graph, even and at least 4. Published figures often call this the distance.
        num_classes: The number of labels and of features.
        num_graphs: How many graphs to build; by default one for each class.
        random_features: Whether the vertices other than source and target get random features.
        seed: Of the random features, which are all that is random; torch's global state is left alone.

    Example:
        >>> transfer_task("Ring", num_nodes=8)[2]
        Data(x=[8, 5], edge_index=[2, 16], y=[1], source_index=[1], target_index=[1], distance=4)
    """
    num_graphs = num_classes if num_graphs is None else num_graphs
    _check(name, num_nodes, num_classes, num_graphs)
    shape = _SHAPES[name](num_nodes)
    edge_index = to_undirected(shape.edges, num_nodes=num_nodes)
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for i in range(num_graphs):
        x = torch.randn(num_nodes, num_classes, generator=generator) if random_features else torch.ones(num_nodes, num_classes)
        x[0] = 0
        x[shape.target] = torch.eye(num_classes)[i % num_classes]
        graphs.append(
            Data(
                x=x,
                edge_index=edge_index.clone(),
                y=torch.tensor([i % num_classes]),
                source_index=torch.tensor([0]),
                target_index=torch.tensor([shape.target]),
                distance=shape.distance,
            )
        )
    return graphs


def load_transfer(
    task: str,
    num_nodes: int,
    num_classes: int = 5,
    num_graphs: int | None = None,
    random_features: bool = False,
    seed: int = 0,
) -> Dataset:
    """Builds a transfer task, as :func:`transfer_task` does, with a split.

    As published, the distinct graphs, one for each class, are at once training, validation and test set (the published files repeat them
    5,500 times). With ``random_features`` all graphs differ, and five sevenths of them are trained on, one seventh is for validation and one
    for the test: 1,000, 200 and 200 by default. Answers are read at the source, so the level is ``"source"``.

    Args:
        task: ``"Ring"``, ``"CrossedRing"`` or ``"CliquePath"``.
        num_nodes: The number of vertices of each graph, even and at least 4. The hops from source to target are each graph's ``distance``.
        num_classes: The number of labels and of features.
        num_graphs: How many graphs to build; by default one for each class or, with random features, 1,400.
        random_features: Whether the vertices other than source and target get random features.
        seed: Of the random features.

    Example:
        >>> load_transfer("Ring", num_nodes=8)
        Dataset('Ring-8', 5 graphs, multiclass of sources, num_targets=5)
    """
    if num_graphs is None:
        num_graphs = 1400 if random_features else num_classes
    graphs = transfer_task(task, num_nodes, num_classes, num_graphs, random_features, seed)
    index = torch.arange(num_graphs)
    if not random_features:
        return Dataset(
            f"{task}-{num_nodes}", graphs, "multiclass", num_classes, "source", dict.fromkeys(("train", "val", "test"), index)
        )
    if num_graphs < 7:
        raise ValueError(f"'num_graphs' must be at least 7 to be split with random features (got {num_graphs})")
    held_out = num_graphs // 7
    train, val, test = index.split([num_graphs - 2 * held_out, held_out, held_out])
    split = {"train": train, "val": val, "test": test}
    return Dataset(f"{task}-{num_nodes}-random", graphs, "multiclass", num_classes, "source", split)


def _check(name: str, num_nodes: int, num_classes: int, num_graphs: int) -> None:
    if name not in _SHAPES:
        raise ValueError(f"'name' must be one of {', '.join(map(repr, TRANSFER_TASKS))} (got {name!r})")
    if num_nodes < 4 or num_nodes % 2 == 1:
        raise ValueError(f"'num_nodes' must be even and at least 4 (got {num_nodes})")
    if num_classes < 2:
        raise ValueError(f"'num_classes' must be at least 2 (got {num_classes})")
    if num_graphs < 1:
        raise ValueError(f"'num_graphs' must be at least 1 (got {num_graphs})")
