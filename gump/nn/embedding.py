"""Features that are categories become vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gump.nn.arguments import can_look


class CategoricalEmbedding(torch.nn.Module):
    r"""Turns rows of categories, such as the features of an atom or a bond, into vectors: a table for every column, and the sum of what they say.

    .. math::
        \mathbf{h} = \sum_{k} \mathbf{E}_k[c_k] \; (+ \; \mathbf{W} \mathbf{u} + \mathbf{b})

    With tables for the columns of `Hu et al. 2020 <https://arxiv.org/abs/2005.00687>`_ these are the atom and bond encoders of the Open Graph
    Benchmark. Numeric columns :math:`\mathbf{u}`, such as positional encodings that a transform has appended, follow the categories and go
    through a linear layer. Tables start Xavier-uniform.

    The tables are multiplied with rows that have a one for every category, which is the same in one product, and whose gradient adds up in a
    fixed order; it builds a row as wide as all tables are long. A category that has no row in its table is an error on the CPU; on a GPU, and
    for replicas side by side, looking would mean to wait, and there the vector is not a number.

    Args:
        sizes: How many categories each column has.
        channels: The width of the vectors.
        num_numeric: How many numeric columns follow.

    Shapes:
        - **input:** :math:`(R, K)` categories, or :math:`(R, K + U)` with numeric columns, of any type
        - **output:** :math:`(R, F)`

    Example:
        >>> CategoricalEmbedding([119, 5], channels=16)(torch.tensor([[5, 0], [7, 2], [5, 0]])).shape
        torch.Size([3, 16])
    """

    _bounds: Tensor

    def __init__(self, sizes: Sequence[int], channels: int, num_numeric: int = 0) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"'sizes' must have the number of categories of a column at least, each positive (got {tuple(sizes)})")
        if channels < 1 or num_numeric < 0:
            raise ValueError(f"'channels' must be positive and 'num_numeric' not negative (got {channels} and {num_numeric})")
        self.sizes, self.channels, self.num_numeric = tuple(sizes), channels, num_numeric
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(size, channels) for size in sizes)
        self.lin = torch.nn.Linear(num_numeric, channels) if num_numeric else None
        self.register_buffer("_bounds", torch.empty(2, len(sizes), dtype=torch.long), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for table in self.tables:
            torch.nn.init.xavier_uniform_(table.weight)  # type: ignore[arg-type]
        if self.lin is not None:
            self.lin.reset_parameters()
        first = [sum(self.sizes[:k]) for k in range(len(self.sizes))]
        self._bounds.copy_(torch.tensor([first, self.sizes]))  # here, where a module that was made on the meta device is filled

    def forward(self, x: Tensor) -> Tensor:
        """Looks the rows up."""
        num_columns = len(self.sizes)
        if x.dim() != 2 or x.size(1) != num_columns + self.num_numeric:
            shape = f"[rows, {num_columns + self.num_numeric}]"
            raise ValueError(
                f"'x' must have {num_columns} columns of categories and {self.num_numeric} of numbers, shape {shape} (got {list(x.shape)})"
            )
        categories = x[:, :num_columns].long()
        if can_look(x):
            self._check(x, categories)
        weight = torch.cat([table.weight for table in self.tables])  # type: ignore[misc]
        first, sizes = self._bounds
        known = (categories >= 0) & (categories < sizes)
        ones = torch.where(known, 1.0, torch.nan).to(weight.dtype)
        hot = weight.new_zeros(x.size(0), weight.size(0)).scatter(1, torch.where(known, categories + first, first), ones)
        with torch.autocast(x.device.type, enabled=False):  # the tables are looked up, not rounded
            out = hot @ weight
        return out if self.lin is None else out + self.lin(x[:, num_columns:].to(weight.dtype))

    def _check(self, x: Tensor, categories: Tensor) -> None:
        bad = (categories < 0) | (categories >= self._bounds[1]) | (categories != x[:, : len(self.sizes)])
        if bad.any():
            row, column = bad.nonzero()[0].tolist()
            raise ValueError(
                f"column {column} of 'x' must have whole numbers from 0 to {self.sizes[column] - 1} (got {x[row, column].item():g} in row {row})"
            )

    def __repr__(self) -> str:
        numeric = f", num_numeric={self.num_numeric}" if self.num_numeric else ""
        return f"{type(self).__name__}({self.sizes}, {self.channels}{numeric})"
