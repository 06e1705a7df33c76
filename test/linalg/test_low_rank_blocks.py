"""Many large square blocks that are a multiple of the identity plus something of low rank."""

import pytest
import torch
from torch.autograd import gradcheck

from gump.linalg import LowRankBlocks, Tiles, even_blocks, grover

SIZES = {2: 2, 5: 1, 70: 2, 150: 1}


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def blocks_of(sizes, rank=3, identity=-1.0):
    tiles = Tiles.of(sizes)
    return LowRankBlocks(
        tiles.cut(normal(tiles.place.numel(), rank)), normal(tiles.num_blocks, rank, rank, seed=1), identity, tiles
    )


@pytest.mark.parametrize("identity", [-1.0, 0.0])
def test_the_product_is_that_with_the_blocks_themselves(identity):
    blocks = blocks_of(SIZES, identity=identity)
    h = normal(blocks.tiles.place.numel(), 4, seed=2)
    whole = torch.block_diag(*[block for group in blocks.dense() for block in group])
    torch.testing.assert_close(blocks(h), whole @ h)


def test_the_blocks_are_what_the_formula_says():
    blocks = blocks_of({3: 1})
    q = blocks.basis[0, :3]
    torch.testing.assert_close(blocks.dense()[0][0], q @ blocks.core[0] @ q.t() - torch.eye(3, dtype=torch.float64))


def test_gradients_are_those_of_finite_differences():
    tiles = Tiles.of({2: 1, 66: 1})

    def product(h, rows, core):
        return LowRankBlocks(tiles.cut(rows), core, -1.0, tiles)(h)

    leaves = [t.requires_grad_() for t in (normal(68, 2), normal(68, 2, seed=1), normal(2, 2, 2, seed=2))]
    assert gradcheck(product, leaves)


def test_side_by_side_under_vmap_is_one_after_the_other():
    tiles = Tiles.of({2: 1, 66: 1})
    h, rows, core = normal(3, 68, 2), normal(3, 68, 2, seed=1), normal(3, 2, 2, 2, seed=2)

    def loss(h, rows, core):
        return (LowRankBlocks(tiles.cut(rows), core, -1.0, tiles)(h) ** 2).sum()

    together = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(h, rows, core)
    for number in range(3):
        alone = torch.func.grad(loss, argnums=(0, 1, 2))(h[number], rows[number], core[number])
        for ours, theirs in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[number], theirs)


def test_even_blocks_are_grover_coins_or_ones():
    tiles = Tiles.of({3: 2, 100: 1})
    small, large = even_blocks(tiles, -1.0, torch.full((3,), 2.0), torch.float64).dense()
    torch.testing.assert_close(small, grover(3, small).expand(2, 3, 3))
    torch.testing.assert_close(large[0], grover(100, large))
    ones = even_blocks(tiles, 0.0, torch.tensor([3, 3, 100]), torch.float64).dense()
    assert all(torch.allclose(block, torch.ones_like(block)) for block in ones)


@pytest.mark.parametrize("identity", [-1.0, 0.0])
@pytest.mark.parametrize("rows", [11, 13])
def test_what_has_not_a_row_for_each_of_the_blocks_is_refused(identity, rows):
    with pytest.raises(ValueError, match=rf"'h' must be a matrix of 12 rows, .* \(got \[{rows}, 4\]\)"):
        blocks_of({2: 1, 5: 2}, identity=identity)(normal(rows, 4))


def test_even_blocks_have_a_number_each():
    with pytest.raises(ValueError, match=r"'total' must have a number for each of the 3 blocks \(got \[2\]\)"):
        even_blocks(Tiles.of({2: 1, 5: 2}), -1.0, torch.ones(2), torch.float64)
