"""How kernels walk over the blocks of all degrees in one launch: tiles of a few consecutive arcs, as block-diagonal matrices."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

SIDES = (16, 32, 64)
"""How many arcs a tile holds. A block is in a tile of the first side that it fits into; the least is what matrix units take."""

MAX_DEGREE = SIDES[-1]
"""The largest block that fits into a tile."""

Sizes = tuple[tuple[int, int], ...]
"""Degrees and how many vertices have each, in the order of the arcs."""


class Tiling(NamedTuple):
    """The tiles of one side.

    Args:
        side: How many arcs a tile has room for.
        num_tiles: How many tiles there are.
        table: What :func:`find_tile` reads: for every degree its first tile, arc and entry, the degree, and its number of blocks.
    """

    side: int
    num_tiles: int
    table: Tensor


@lru_cache(maxsize=4096)  # more than a program has recordings, which read the tables without asking
def tilings(sizes: Sizes, device: torch.device) -> tuple[Tiling, ...]:
    """Divides the blocks of all degrees into tiles, each of whole blocks of one degree.

    Args:
        sizes: Degrees and how many blocks have each, in the order of the arcs.
        device: Where the tables are wanted.
    """
    if len({degree for degree, _ in sizes}) < len(sizes):
        raise ValueError(f"'sizes' must name every degree once (got {sizes})")
    columns: dict[int, list[list[int]]] = {}
    num_tiles = dict.fromkeys(SIDES, 0)
    first_arc = first_entry = 0
    for degree, num_blocks in sizes:
        if degree > MAX_DEGREE:
            raise ValueError(f"'sizes' must have degrees up to {MAX_DEGREE} (got {degree})")
        side = next(side for side in SIDES if degree <= side)
        columns.setdefault(side, []).append([num_tiles[side], first_arc, first_entry, degree, num_blocks])
        num_tiles[side] += triton.cdiv(num_blocks, side // degree)
        first_arc += num_blocks * degree
        first_entry += num_blocks * degree * degree
    found = []
    for side, listed in columns.items():
        unused = [[2**62, 0, 0, 1, 0]] * (side - len(listed))
        table = torch.tensor(listed + unused, dtype=torch.int64).t().contiguous()
        found.append(Tiling(side, num_tiles[side], table.to(device)))
    return tuple(tiling for tiling in found if tiling.num_tiles)


@triton.jit
def find_tile(table, tile, SIDE: tl.constexpr):
    """The first arc and the first entry of a tile, the degree of its blocks, and how many arcs it has."""
    start = tl.load(table + tl.arange(0, SIDE))
    group = tl.sum((start <= tile).to(tl.int32)) - 1
    degree = tl.load(table + 3 * SIDE + group).to(tl.int32)
    per_tile = SIDE // degree
    block = (tile - tl.load(table + group)) * per_tile
    count = tl.minimum(per_tile, tl.load(table + 4 * SIDE + group) - block).to(tl.int32)
    arc = tl.load(table + SIDE + group) + block * degree
    entry = tl.load(table + 2 * SIDE + group) + block * degree * degree
    return arc, entry, degree, count * degree


@triton.jit
def find_entries(degree, num_rows, SIDE: tl.constexpr):
    """Where the entries of a tile's blocks lie, counted from its first, and which pairs of its rows and columns have one."""
    i = tl.arange(0, SIDE)[:, None]
    j = tl.arange(0, SIDE)[None, :]
    place = i * degree + j % degree
    return place, (i // degree == j // degree) & (i < num_rows) & (j < num_rows)


def chunk_of(width: int) -> int:
    """How many features of its arcs a program holds at a time: what matrix units take at least, and at most 64."""
    return min(max(triton.next_power_of_2(width), 16), 64)


def flatten(blocks: Sequence[Tensor]) -> tuple[Tensor, Sizes]:
    """Puts the entries of blocks of several degrees one after the other.

    Shapes:
        - **blocks:** :math:`(n, d, d)` each
        - **output:** :math:`(T)`, and the sizes
    """
    return torch.cat([block.reshape(-1) for block in blocks]), tuple((block.size(-1), block.size(0)) for block in blocks)


def unflatten(values: Tensor, sizes: Sizes) -> list[Tensor]:
    """The blocks of every degree of which these are the entries."""
    parts = values.split([degree * degree * num_blocks for degree, num_blocks in sizes])
    return [part.view(num_blocks, degree, degree) for part, (degree, num_blocks) in zip(parts, sizes, strict=True)]
