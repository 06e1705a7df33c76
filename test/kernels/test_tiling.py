"""Every entry of every block lies in one tile, in its place."""

import pytest
import torch

from gump.kernels.tiling import MAX_DEGREE, SIDES, flatten, tilings, unflatten

SIZES = ((1, 40), (2, 17), (3, 5), (5, 4), (7, 0), (16, 3), (17, 2), (33, 1), (MAX_DEGREE, 2))


def test_tiles_hold_whole_blocks_of_one_degree_and_all_of_them():
    first = {}
    arcs = entries = 0
    for degree, num_blocks in SIZES:
        first[degree] = (arcs, entries, num_blocks)
        arcs, entries = arcs + degree * num_blocks, entries + degree * degree * num_blocks
    seen = {}
    for side, num_tiles, table in tilings(SIZES, torch.device("cpu")):
        columns = table.t().tolist()
        assert side in SIDES
        for k, (start, arc, entry, degree, num_blocks) in enumerate(columns):
            if start >= num_tiles:
                continue
            end = min(columns[k + 1][0] if k + 1 < side else num_tiles, num_tiles)
            assert (arc, entry, num_blocks) == first[degree]
            assert degree <= side
            assert (end - start) * (side // degree) >= num_blocks  # room for all
            assert (end - start - 1) * (side // degree) < max(num_blocks, 1)  # and no tile without any
            seen[degree] = num_blocks
    assert {degree: n for degree, n in seen.items() if n} == {degree: n for degree, n in SIZES if n}


def test_blocks_come_back_from_their_entries():
    blocks = [torch.randn(n, d, d) for d, n in SIZES]
    values, sizes = flatten(blocks)
    assert sizes == SIZES
    assert all(torch.equal(a, b) for a, b in zip(unflatten(values, sizes), blocks, strict=True))


def test_a_degree_beyond_the_largest_tile_is_refused():
    with pytest.raises(ValueError, match=rf"'sizes' must have degrees up to {MAX_DEGREE} \(got {MAX_DEGREE + 1}\)"):
        tilings(((MAX_DEGREE + 1, 1),), torch.device("cpu"))


def test_a_degree_that_is_named_twice_is_refused():
    with pytest.raises(ValueError, match="'sizes' must name every degree once"):
        tilings(((3, 1), (3, 2)), torch.device("cpu"))
