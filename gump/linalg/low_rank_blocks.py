"""Many large square blocks that are a multiple of the identity plus something of low rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gump.kernels.once_differentiable import once_differentiable
from gump.linalg.tiles import Tiles, below_each_other


class LowRankBlocks(NamedTuple):
    r"""A block-diagonal operator whose blocks :math:`a \mathbf{I} + \mathbf{Q} \mathbf{C} \mathbf{Q}^{\top}` are never built.

    With :math:`m` columns of :math:`\mathbf{Q}`, a block of size :math:`d` is kept in :math:`O(dm)` and applied to :math:`F` columns in
    :math:`O(dmF)`. Blocks of all sizes are multiplied together.

    Args:
        basis: The matrices :math:`\mathbf{Q}`, cut into tiles. The gradient at places without a row means nothing.
        core: The matrices :math:`\mathbf{C}`.
        identity: The number :math:`a`.
        tiles: Which rows belong to which block.

    Shapes:
        - **basis:** :math:`(\mathrm{num\_tiles}, T, m)`
        - **core:** :math:`(\mathrm{num\_blocks}, m, m)`
        - **input:** :math:`(\sum d, F)`, the rows of one block after the other
        - **output:** :math:`(\sum d, F)`
    """

    basis: Tensor
    core: Tensor
    identity: float
    tiles: Tiles

    def __call__(self, h: Tensor) -> Tensor:
        """Multiplies each block with its rows."""
        tiles = self.tiles
        tiles.check_rows("h", h)
        out: Tensor = _Product.apply(h, self.basis, self.core, self.identity, tiles.block, tiles.row, tiles.place)[0]
        return out

    def dense(self) -> list[Tensor]:
        """Builds the blocks, for looking at: one tensor :math:`(n, d, d)` for every size."""
        rows, cores = self.basis.flatten(0, 1).index_select(0, self.tiles.place), self.core
        sizes = self.tiles.sizes
        basis = rows.split([size * count for size, count in sizes.items()])
        blocks = []
        for (size, count), q, c in zip(sizes.items(), basis, cores.split(list(sizes.values())), strict=True):
            q = q.view(count, size, -1)
            with torch.autocast(q.device.type, enabled=False):
                blocks.append(q @ c @ q.mT + self.identity * torch.eye(size, dtype=q.dtype, device=q.device))
        return blocks


def even_blocks(tiles: Tiles, identity: float, total: Tensor, dtype: torch.dtype) -> LowRankBlocks:
    r"""Builds the blocks :math:`a \mathbf{I} + \tfrac{t}{d} \mathbf{1}\mathbf{1}^{\top}`: with :math:`a = -1` and :math:`t = 2` Grover coins.

    Args:
        tiles: Which rows belong to which block.
        identity: The number :math:`a`.
        total: The number :math:`t` of every block.
        dtype: The precision.

    Shapes:
        - **total:** :math:`(\mathrm{num\_blocks})`
    """
    if total.numel() != tiles.num_blocks:
        raise ValueError(f"'total' must have a number for each of the {tiles.num_blocks:,} blocks (got {list(total.shape)})")
    return LowRankBlocks(tiles.unit_column(dtype), total.to(dtype).view(-1, 1, 1), identity, tiles)


class _Product(torch.autograd.Function):
    """Applies the blocks, and keeps two matrices of :math:`m` rows per block besides what it was given."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        h: Tensor, basis: Tensor, core: Tensor, identity: float, block: Tensor, row: Tensor, place: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        inner = _sum(basis.mT @ _cut(h, row), block, core.size(0))
        outer = core @ inner
        out = (basis @ outer.index_select(0, block)).flatten(0, 1).index_select(0, place)
        return out.add_(h, alpha=identity) if identity else out, inner, outer

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        h, basis, core, ctx.identity, block, row, place = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(h, basis, core, block, row, place, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 7
        h, basis, core, block, row, place, inner, outer = ctx.saved_tensors
        grad_h = grad_basis = grad_core = None
        with torch.autocast(grad.device.type, enabled=False):
            tiles = _cut(grad, row)
            grad_outer = _sum(basis.mT @ tiles, block, core.size(0))
            grad_inner = core.mT @ grad_outer
            per_tile = grad_inner.index_select(0, block)
            if ctx.needs_input_grad[0]:
                grad_h = below_each_other(basis @ per_tile).index_select(0, place) + ctx.identity * grad
            if ctx.needs_input_grad[1]:
                grad_basis = tiles @ outer.mT.index_select(0, block) + _cut(h, row) @ per_tile.mT
            if ctx.needs_input_grad[2]:
                grad_core = grad_outer @ inner.mT
        return grad_h, grad_basis, grad_core, None, None, None, None


def _cut(rows: Tensor, row: Tensor) -> Tensor:
    return rows.index_select(0, row.flatten()).view(*row.shape, -1)


def _sum(x: Tensor, block: Tensor, num_blocks: int) -> Tensor:
    """Adds up what tiles of the same block have."""
    return x.new_zeros(num_blocks, *x.shape[1:]).index_add(0, block, x)
