"""What a loader returns: graphs, and what is asked about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import torch
from torch import Tensor
from torch_geometric.data import Data

LEVELS = ("graph", "source", "node", "link")
TASKS = ("multiclass", "binary", "multilabel", "regression")


@dataclass(frozen=True, repr=False)
class Dataset(Sequence[Data]):
    """Graphs with the question that a benchmark asks about them. Reads like a list of ``Data``.

    Args:
        name: What the benchmark is called.
        graphs: The graphs; a single one where the question is about its vertices or links.
        task: ``"multiclass"`` (``y`` holds classes), ``"binary"`` or ``"multilabel"`` (``y`` holds zeros and ones) or ``"regression"``; NaN where
            a label or a number is missing.
        num_targets: How many numbers a model must return for each answer: classes, labels or regressands.
        level: What the answers are about: ``"graph"``; ``"source"`` (one answer per graph, read at the vertex that its ``source_index`` names);
            ``"node"``; or ``"link"`` (whether two vertices are linked, for which the graph's own edges are the positive examples).
        split: The official split, if there is one: ``"train"``, ``"val"`` and ``"test"`` name graphs or, at level ``"node"``, vertices.
        x_sizes: If the columns of ``x`` are categories, how many each has; numbers otherwise.
        edge_sizes: The same for the columns of ``edge_attr``.
        note: What has to be said beside any number obtained on this data.
        fingerprint: Tells these graphs from others, where somebody has taken it.
        scaffolds: If the graphs are molecules, a number for the scaffold of each, equal where they share it.
        target_names: What the numbers that a model returns are about, where it is known: the classes, or the labels or regressands.
        lines: If the graphs come from the lines of a table, the number of each one's, as an editor counts them.

    Shapes:
        - **y:** :math:`(R)` classes, or :math:`(R, T)` numbers for the :math:`T` targets of the other tasks, with a row for each answer: one in
          every graph, as many as vertices at level ``"node"``; none at level ``"link"``
    """

    name: str
    graphs: Sequence[Data]
    task: str
    num_targets: int
    level: str = "graph"
    split: dict[str, Tensor] | None = None
    x_sizes: tuple[int, ...] = ()
    edge_sizes: tuple[int, ...] = ()
    note: str = ""
    fingerprint: str = ""
    scaffolds: Tensor | None = None
    target_names: tuple[str, ...] = ()
    lines: Tensor | None = None

    def __post_init__(self) -> None:
        if self.task not in TASKS or self.level not in LEVELS:
            raise ValueError(f"'task' must be one of {TASKS} and 'level' of {LEVELS} (got {self.task!r} and {self.level!r})")
        if not self.graphs:
            raise ValueError(f"'graphs' must have a graph at least (got none for {self.name!r})")
        if self.level != "link" and isinstance(y := self.graphs[0].get("y"), Tensor):
            self._check_targets(y)

    def _check_targets(self, y: Tensor) -> None:
        """Refuses what is asked about a graph if it is not as the task has it."""
        got = f"(got {str(y.dtype).removeprefix('torch.')} of shape {list(y.shape)} in the first graph of {self.name!r})"
        if self.task == "multiclass":
            if y.dtype not in (torch.long, torch.uint8) or y.numel() != y.size(0):
                raise ValueError(f"'y' must be whole numbers of shape [R], the classes of R answers {got}; call .long().view(-1)")
        elif (y.dim() != 2 or y.size(1) != self.num_targets) and not (self.task == "binary" and y.dim() == 1):
            raise ValueError(
                f"'y' must have shape [R, {self.num_targets}], a row for each of R answers {got}; call .view(-1, {self.num_targets})"
            )

    @property
    def num_features(self) -> int:
        """The number of columns of ``x``."""
        return self.graphs[0].num_features

    @property
    def num_edge_features(self) -> int:
        """The number of columns of ``edge_attr``."""
        return self.graphs[0].num_edge_features

    @cached_property
    def targets(self) -> Tensor:
        """What is right about every answer, a row for each; classes are a single column."""
        y = torch.cat([graph.y for graph in self.graphs])
        return y.view(y.size(0), -1)

    def __len__(self) -> int:
        return len(self.graphs)

    def __iter__(self) -> Iterator[Data]:
        return iter(self.graphs)

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> list[Data]: ...
    def __getitem__(self, index: int | slice) -> Data | list[Data]:
        return list(self.graphs[index]) if isinstance(index, slice) else self.graphs[index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.name}', {len(self)} graphs, {self.task} of {self.level}s, num_targets={self.num_targets})"
