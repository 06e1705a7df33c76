"""A dataset held on one device, from which batches are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.collate import collate


class _Column(NamedTuple):
    """One attribute of all graphs, end to end."""

    values: Tensor
    dim: int
    shifted: bool
    rows: int
    """Which of the store's slices it follows."""


class GraphStore:
    """Holds graphs as flat tensors on a device and assembles any batch of them there, equal to what PyG's ``DataLoader`` collates.

    Collating Python objects costs more than a training step of a small model. Here a batch is one gather per attribute.

    Args:
        graphs: Graphs with the same attributes.
        device: Where the tensors lie.

    Example:
        >>> graphs = [Data(x=torch.ones(n, 1), edge_index=torch.tensor([[0], [1]])) for n in (2, 3)]
        >>> GraphStore(graphs).batch(torch.tensor([1, 0])).edge_index
        tensor([[0, 3],
                [1, 4]])
    """

    def __init__(self, graphs: Sequence[Data], device: torch.device | str = "cpu") -> None:
        if len(graphs) == 0:
            raise ValueError("'graphs' must not be empty")
        self.device = torch.device(device)
        self.num_nodes = torch.tensor([graph.num_nodes for graph in graphs])
        self._slices = [torch.arange(len(graphs) + 1), _pointer(self.num_nodes)]
        data, slices, _ = collate(Data, list(graphs), increment=False, add_batch=False)
        self._columns = {key: self._column(graphs[0], key, value, slices[key]) for key, value in data.items() if key in slices}

    def _column(self, graph: Data, key: str, value: Any, pointer: Tensor) -> _Column:
        if not isinstance(value, Tensor):
            value, pointer = torch.as_tensor(value), self._slices[0]
        rows = next((i for i, known in enumerate(self._slices) if torch.equal(known, pointer)), len(self._slices))
        if rows == len(self._slices):
            self._slices.append(pointer)
        dim, step = graph.__cat_dim__(key, graph[key]), graph.__inc__(key, graph[key])
        if not isinstance(step, int) or step not in (0, graph.num_nodes):
            raise ValueError(f"'{key}' must be shifted by the number of vertices or not at all when batching (got {step})")
        return _Column(value.to(self.device), dim or 0, "index" in key and step != 0, rows)

    def __len__(self) -> int:
        return self.num_nodes.numel()

    def batch(self, index: Tensor) -> Batch:
        """Assembles the graphs with these numbers, which may repeat, in this order."""
        offset = _pointer(self.num_nodes[index])
        gathers = [self._gather(pointer, index) for pointer in self._slices]
        batch = Batch()
        for key, column in self._columns.items():
            rows, sizes = gathers[column.rows]
            value = column.values.index_select(column.dim, rows)
            if column.shifted:
                first = torch.repeat_interleave(offset[:-1].to(self.device), sizes, output_size=rows.numel())
                value = value + first  # vertices count along the last dimension of every ``*_index``
            batch[key] = value
        sizes = gathers[1][1]
        batch.batch = torch.repeat_interleave(torch.arange(index.numel(), device=self.device), sizes, output_size=int(offset[-1]))
        batch.ptr = offset.to(self.device)
        batch.num_nodes = int(offset[-1])
        batch._num_graphs = index.numel()
        return batch

    def _gather(self, pointer: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the graphs with these numbers, and how many each has."""
        sizes = pointer[index + 1] - pointer[index]
        target = _pointer(sizes)
        shift = (pointer[index] - target[:-1]).to(self.device)
        total, sizes = int(target[-1]), sizes.to(self.device)
        rows = torch.arange(total, device=self.device) + torch.repeat_interleave(shift, sizes, output_size=total)
        return rows, sizes


class TransformedStore:
    """Assembles batches as :class:`GraphStore` does, of graphs that are transformed only then, since all of them would be too large.

    Args:
        graphs: The graphs.
        device: Where the batches lie.
    """

    def __init__(self, graphs: Sequence[Data], device: torch.device | str = "cpu") -> None:
        self.graphs, self.device = graphs, torch.device(device)

    def __len__(self) -> int:
        return len(self.graphs)

    def batch(self, index: Tensor) -> Batch:
        """Assembles the graphs with these numbers, in this order."""
        return GraphStore([self.graphs[i] for i in index.tolist()], self.device).batch(torch.arange(index.numel()))


def _pointer(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
