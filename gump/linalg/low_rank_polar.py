"""The orthogonal factor of large matrices that differ from the Grover coin by low rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gump.kernels.once_differentiable import once_differentiable
from gump.linalg.low_rank_blocks import LowRankBlocks
from gump.linalg.perturbed_polar import perturbed_bounds
from gump.linalg.polar import quintics_within
from gump.linalg.tiles import Tiles

RIDGE = 1e-7
"""What is added to Gram matrices before they are factored, so that dependent columns can stay. It cancels and changes no result."""

CHUNK = 2**22
"""How many numbers in double precision are held at a time while there are more to do."""


def low_rank_polar(left: Tensor, right: Tensor, tiles: Tiles, beta: float) -> LowRankBlocks:
    r"""Computes the polar factor of bounded perturbations of the Grover coin by matrices of low rank, in closed form.

    .. math::
        \mathsf{U}\Big[\mathbf{G} + \frac{\beta \mathbf{X}\mathbf{Y}^{\top}}{\sqrt{1 + \lVert \mathbf{X}\mathbf{Y}^{\top} \rVert_F^2}}\Big],
        \quad \mathbf{G} = \tfrac{2}{d} \mathbf{1}\mathbf{1}^{\top} - \mathbf{I}

    Nothing of size :math:`d \times d` is built: for rank :math:`k` the cost is :math:`O(dk^2)` and the memory :math:`O(dk)`. *How.* The
    matrix is :math:`-\mathbf{I} + \mathbf{Z}\mathbf{C}_0\mathbf{Z}^{\top}` with the :math:`2k + 1` columns
    :math:`\mathbf{Z} = [\mathbf{1} / \sqrt{d}, \mathbf{X}, \mathbf{Y}]`, and matrices :math:`a\mathbf{I} + \mathbf{Z}\mathbf{C}\mathbf{Z}^{\top}`
    are closed under products,

    .. math::
        (a, \mathbf{C})(b, \mathbf{D}) = (ab,\; a\mathbf{D} + b\mathbf{C} + \mathbf{C}(\mathbf{Z}^{\top}\mathbf{Z})\mathbf{D}),

    so the quintics that :func:`gump.linalg.polar_factor` applies to a block act on the small :math:`\mathbf{C}` alone. All that is needed of
    :math:`\mathbf{Z}` is its Gram matrix, taken in double precision. Before that, :math:`\mathbf{Z} = \mathbf{Q}\mathbf{R}` with
    :math:`\mathbf{R}^{\top}\mathbf{R} = \mathbf{Z}^{\top}\mathbf{Z} + \epsilon\mathbf{D}`, :math:`\mathbf{D}` diagonal: an identity for every
    :math:`\epsilon > 0`, so equal rows and columns without rank do no harm, that makes :math:`\mathbf{Q}` nearly orthonormal and keeps
    large terms from canceling.

    The result is permutation-equivariant, ties included: a permutation of the rows of :math:`\mathbf{X}` and :math:`\mathbf{Y}` permutes
    those of :math:`\mathbf{Q}`. It is differentiable once.

    Args:
        left: The rows of the matrices :math:`\mathbf{X}`, one block after the other.
        right: The rows of the matrices :math:`\mathbf{Y}`.
        tiles: Which rows belong to which block.
        beta: How far the matrices may be from the Grover coin, at least 0 and below 1.

    Shapes:
        - **left, right:** :math:`(\sum d, k)`

    Example:
        >>> from gump.linalg import Tiles, low_rank_polar
        >>> x = torch.tensor([[1.0], [0.0], [0.0]])
        >>> low_rank_polar(x, 0 * x, Tiles.of({3: 1}), beta=0.9).dense()[0][0]
        tensor([[-0.3333,  0.6667,  0.6667],
                [ 0.6667, -0.3333,  0.6667],
                [ 0.6667,  0.6667, -0.3333]])
    """
    tiles.check_rows("left", left)
    if right.shape != left.shape:
        raise ValueError(f"'right' must have the shape of 'left', {list(left.shape)} (got {list(right.shape)})")
    columns = torch.cat([tiles.unit_column(left.dtype), tiles.cut(left), tiles.cut(right)], dim=-1)
    gram = _Gram.apply(columns, tiles.block, tiles.num_blocks)
    transform, core = _SmallPolar.apply(gram, beta, left.dtype)
    basis = _Basis.apply(columns, transform, tiles.block)
    return LowRankBlocks(basis, core.to(left.dtype), -1.0, tiles)


class _Gram(torch.autograd.Function):
    """Adds up the Gram matrices of tiles in double precision, without a copy of all tiles in it."""

    @staticmethod
    def forward(columns: Tensor, block: Tensor, num_blocks: int) -> Tensor:
        width = columns.size(-1)
        gram = columns.new_zeros(num_blocks, width, width, dtype=torch.float64)
        step = _step(columns)
        for tiles, numbers in zip(columns.split(step), block.split(step), strict=True):
            tiles = tiles.double()
            gram.index_add_(0, numbers, tiles.mT @ tiles)
        return gram

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        columns, block = ctx.saved_tensors
        with torch.autocast(grad.device.type, enabled=False):
            return columns @ (grad + grad.mT).to(columns.dtype).index_select(0, block), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None, None], columns: Tensor, block: Tensor, num_blocks: int) -> tuple[Tensor, int]:
        columns = columns.movedim(in_dims[0], 0)
        numbers = _numbers(block, info.batch_size, num_blocks)
        gram = _Gram.apply(columns.flatten(0, 1), numbers, info.batch_size * num_blocks)
        return gram.unflatten(0, (info.batch_size, num_blocks)), 0


class _Basis(torch.autograd.Function):
    """Multiplies tiles with the matrix of their block in double precision, since the columns of a tied block all but cancel."""

    @staticmethod
    def forward(columns: Tensor, transform: Tensor, block: Tensor) -> Tensor:
        step = _step(columns)
        parts = zip(columns.split(step), block.split(step), strict=True)
        return torch.cat([(tiles.double() @ transform.index_select(0, numbers)).to(columns.dtype) for tiles, numbers in parts])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        columns, transform, block = ctx.saved_tensors
        with torch.autocast(grad.device.type, enabled=False):
            grad_columns = grad @ transform.mT.to(grad.dtype).index_select(0, block)
            grad_transform = torch.zeros_like(transform).index_add(0, block, (columns.mT @ grad).to(transform.dtype))
        return grad_columns, grad_transform, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, int, None], columns: Tensor, transform: Tensor, block: Tensor) -> tuple[Tensor, int]:
        columns, transform = columns.movedim(in_dims[0], 0), transform.movedim(in_dims[1], 0)
        basis = _Basis.apply(columns.flatten(0, 1), transform.flatten(0, 1), _numbers(block, *transform.shape[:2]))
        return basis.view(columns.shape), 0


class _SmallPolar(torch.autograd.Function):
    """From Gram matrices to the factor's basis and core. The steps are computed again in the backward, some blocks at a time."""

    @staticmethod
    def forward(gram: Tensor, beta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        parts = [_small_polar(part, beta, dtype) for part in gram.split(_step(gram))]
        transform, core = (torch.cat(results) for results in zip(*parts, strict=True))
        return transform, core

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, torch.dtype], output: tuple[Tensor, Tensor]) -> None:
        gram, ctx.beta, ctx.dtype = inputs
        ctx.save_for_backward(gram)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (gram,) = ctx.saved_tensors
        pulled = []
        for part, *grad in zip(*(x.split(_step(gram)) for x in (gram, *grads)), strict=True):
            pull_back = torch.func.vjp(lambda part: _small_polar(part, ctx.beta, ctx.dtype), part)[1]
            pulled += pull_back(tuple(grad))
        return torch.cat(pulled), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None, None], gram: Tensor, beta: float, dtype: torch.dtype
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        gram = gram.movedim(in_dims[0], 0)
        transform, core = _SmallPolar.apply(gram.flatten(0, 1), beta, dtype)
        return (transform.view(gram.shape), core.view(gram.shape)), (0, 0)


def _numbers(block: Tensor, num_replicas: int, num_blocks: int) -> Tensor:
    """The numbers of blocks among those of all replicas."""
    return (block + num_blocks * torch.arange(num_replicas, device=block.device).unsqueeze(-1)).flatten()


def _step(matrices: Tensor) -> int:
    """How many matrices to hold at a time: all of them while a model is compiled or exported, whose steps must not depend on how many there are."""
    return matrices.size(0) if torch.compiler.is_compiling() else max(CHUNK // matrices[0].numel(), 1)


def _small_polar(gram: Tensor, beta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    r"""The matrices :math:`\mathbf{R}^{-1}` and :math:`\mathbf{C}` with which the factor is
    :math:`-\mathbf{I} + \mathbf{Z}\mathbf{R}^{-1}\mathbf{C}\mathbf{R}^{-\top}\mathbf{Z}^{\top}`."""
    rank = gram.size(-1) // 2
    ridge = torch.diag_embed(RIDGE * (1 + gram.diagonal(dim1=-2, dim2=-1)))
    lower = torch.linalg.cholesky_ex(gram + ridge).L
    identity = torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)
    transform = torch.linalg.solve_triangular(lower.mT, identity.expand_as(gram), upper=True)
    x, y = lower[..., 1 : rank + 1, :], lower[..., rank + 1 :, :]
    square = (gram[..., 1 : rank + 1, 1 : rank + 1] * gram[..., rank + 1 :, rank + 1 :]).sum((-2, -1), keepdim=True)
    first = lower[..., :1, :]
    core = 2 * first.mT @ first + beta * (1 + square).rsqrt() * (x.mT @ y)
    gram = identity - transform.mT @ ridge @ transform  # of the columns times the transform
    scale = -1.0
    for a, b, c in quintics_within(perturbed_bounds(beta), dtype):
        inner = scale * (core + core.mT) + core.mT @ gram @ core  # X^T X = scale^2 + inner
        inner = (b + 2 * c * scale**2) * inner + c * (inner @ gram @ inner)
        factor = a + b * scale**2 + c * scale**4
        core = scale * inner + factor * core + core @ gram @ inner
        scale *= factor
    return transform, core
