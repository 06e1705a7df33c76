"""Rows of many blocks of different sizes, cut into pieces of one size."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

TILE = 64
"""How many rows are multiplied at a time."""


class Tiles(NamedTuple):
    """Consecutive rows, a run of them for each block, cut into tiles of equally many rows, so that blocks of all sizes are one batch.

    Only the last tile of a block has places to spare. They read the last row of their block, and whoever multiplies puts zeros against it: so
    what is no number stays in its block.

    Args:
        sizes: For every size of a block, ascending, how many blocks have it.
        block: The block of every tile.
        row: The row in every place of every tile.
        taken: Which places hold a row.
        place: The place of every row.
        degree: The size of every tile's block.
    """

    sizes: dict[int, int]
    block: Tensor
    row: Tensor
    taken: Tensor
    place: Tensor
    degree: Tensor

    @classmethod
    def of(cls, sizes: dict[int, int], device: torch.device | str = "cpu") -> Tiles:
        """Cuts rows into tiles.

        Args:
            sizes: For every size of a block, ascending, how many blocks have it.
            device: Where the tensors lie.
        """
        if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():  # what is made there cannot be used elsewhere
            return cls._of(sizes, torch.device(device))
        return _made(tuple(sizes.items()), torch.device(device))

    @classmethod
    def _of(cls, sizes: dict[int, int], device: torch.device) -> Tiles:
        num_blocks, num_rows = sum(sizes.values()), sum(size * count for size, count in sizes.items())
        num_tiles = sum(math.ceil(size / TILE) * count for size, count in sizes.items())
        count = torch.tensor(list(sizes.values()), dtype=torch.long, device=device)
        size = torch.tensor(list(sizes), dtype=torch.long, device=device).repeat_interleave(count, output_size=num_blocks)
        tiles = (size + TILE - 1) // TILE
        first_row, first_tile = size.cumsum(0) - size, tiles.cumsum(0) - tiles
        block = torch.arange(num_blocks, device=device).repeat_interleave(tiles, output_size=num_tiles)
        start = first_row[block] + TILE * (torch.arange(num_tiles, device=device) - first_tile[block])
        row = start.unsqueeze(-1) + torch.arange(TILE, device=device)
        last = (first_row + size - 1)[block].unsqueeze(-1)
        owner = torch.arange(num_blocks, device=device).repeat_interleave(size, output_size=num_rows)
        place = torch.arange(num_rows, device=device) + (TILE * first_tile - first_row)[owner]
        return cls(sizes, block, row.minimum(last), row <= last, place, size[block])

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return sum(self.sizes.values())

    def cut(self, rows: Tensor) -> Tensor:
        r"""Puts rows into tiles, with zeros where there is none.

        Shapes:
            - **input:** :math:`(A, F)`
            - **output:** :math:`(\mathrm{num\_tiles}, T, F)`
        """
        self.check_rows("rows", rows)
        tiles: Tensor = _Cut.apply(rows, self.row, self.taken, self.place)
        return tiles

    def check_rows(self, name: str, rows: Tensor) -> None:
        """Refuses a matrix that has not one row for each that is cut; ``name`` is what the caller calls it."""
        if rows.dim() != 2 or rows.size(0) != self.place.numel():
            raise ValueError(
                f"'{name}' must be a matrix of {self.place.numel():,} rows, the sizes of all blocks together (got {list(rows.shape)})"
            )

    def unit_column(self, dtype: torch.dtype) -> Tensor:
        r"""The vector :math:`\mathbf{1} / \sqrt{d}` of every block, cut into tiles.

        Shapes:
            - **output:** :math:`(\mathrm{num\_tiles}, T, 1)`
        """
        return (self.taken * self.degree.to(dtype).rsqrt().unsqueeze(-1)).unsqueeze(-1)


@functools.lru_cache(maxsize=16)
def _made(sizes: tuple[tuple[int, int], ...], device: torch.device) -> Tiles:
    """Kept, since to make them waits for the device, and what is recorded there must not."""
    return Tiles._of(dict(sizes), device)


class _Cut(torch.autograd.Function):
    """Gathers rows into places; its backward is the gather the other way."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, row: Tensor, taken: Tensor, place: Tensor) -> Tensor:
        return rows.index_select(0, row.flatten()).view(*row.shape, -1) * taken.unsqueeze(-1).to(rows.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[3])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return below_each_other(grad).index_select(0, ctx.saved_tensors[0]), None, None, None


def below_each_other(blocks: Tensor) -> Tensor:
    """The rows of all blocks; ``vectorize=True`` of torch's Jacobian knows no ``flatten``.

    Shapes:
        - **input:** :math:`(*, n, d, F)`
        - **output:** :math:`(*, n d, F)`
    """
    return blocks.reshape(*blocks.shape[:-3], blocks.size(-3) * blocks.size(-2), blocks.size(-1))
