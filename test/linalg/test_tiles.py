"""Rows of many blocks of different sizes, cut into pieces of one size."""

import pytest
import torch
from torch.autograd import gradcheck

import gump.linalg.tiles
from gump.linalg import Tiles


@pytest.fixture
def tiles_of_two(monkeypatch):
    monkeypatch.setattr(gump.linalg.tiles, "TILE", 2)
    return Tiles.of({1: 1, 3: 2})


def test_by_hand(tiles_of_two):
    rows = 1.0 + torch.arange(7).unsqueeze(-1)
    assert tiles_of_two.cut(rows).squeeze(-1).tolist() == [[1, 0], [2, 3], [4, 0], [5, 6], [7, 0]]
    assert tiles_of_two.block.tolist() == [0, 1, 1, 2, 2]
    assert tiles_of_two.degree.tolist() == [1, 3, 3, 3, 3]
    assert tiles_of_two.place.tolist() == [0, 2, 3, 4, 6, 7, 8]
    assert tiles_of_two.row.tolist() == [[0, 0], [1, 2], [3, 3], [4, 5], [6, 6]]
    assert tiles_of_two.num_blocks == 3


@pytest.mark.parametrize("sizes", [{1: 2}, {64: 1}, {65: 2, 130: 1}, {3: 2, 63: 1, 128: 2, 200: 1}])
def test_cutting_keeps_every_row_at_its_place_and_pads_with_zeros(sizes):
    tiles = Tiles.of(sizes)
    num_rows = sum(size * count for size, count in sizes.items())
    rows = torch.randn(num_rows, 3, generator=torch.Generator().manual_seed(0))
    cut = tiles.cut(rows)
    assert torch.equal(cut.flatten(0, 1)[tiles.place], rows)
    assert cut.count_nonzero() == rows.numel()
    torch.testing.assert_close(
        tiles.unit_column(torch.float64).squeeze(-1).square().sum(1)[tiles.block == 0].sum(), torch.tensor(1.0).double()
    )


def test_gradients_are_those_of_finite_differences(tiles_of_two):
    assert gradcheck(tiles_of_two.cut, torch.randn(7, 2, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("shape", [(6, 2), (8, 2), (0, 2), (7,), (1, 7, 2)])
def test_rows_that_are_not_those_of_the_blocks_are_refused(tiles_of_two, shape):
    with pytest.raises(ValueError, match=r"'rows' must be a matrix of 7 rows, the sizes of all blocks together \(got \["):
        tiles_of_two.cut(torch.ones(shape))
