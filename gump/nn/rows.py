"""Gathering, adding and replacing rows by number, also for many models side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def select_rows(x: Tensor, index: Tensor) -> Tensor:
    """Gathers rows: ``x.index_select(0, index)``.

    Under ``torch.func.vmap`` the rows of all replicas are gathered at once as rows, where ``index_select`` itself would turn into a gather of
    single entries with an index for each.

    Shapes:
        - **x:** :math:`(N, F)`
        - **index:** :math:`(M)`
        - **output:** :math:`(M, F)`
    """
    if not _side_by_side(x, index):
        return x.index_select(0, index)
    rows: Tensor = _SelectRows.apply(x, index)
    return rows


def add_rows(x: Tensor, index: Tensor, num_rows: int) -> Tensor:
    """Adds rows up where their numbers agree: ``x.new_zeros(num_rows, ...).index_add(0, index, x)``.

    Shapes:
        - **x:** :math:`(M, F)`
        - **index:** :math:`(M)`
        - **output:** :math:`(N, F)`
    """
    if not _side_by_side(x, index):
        return x.new_zeros(num_rows, *x.shape[1:]).index_add(0, index, x)
    rows: Tensor = _AddRows.apply(x, index, num_rows)
    return rows


def put_rows(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """Puts rows into the place of others, whose numbers are all different: ``x.index_copy(0, index, rows)``.

    Shapes:
        - **x:** :math:`(N, F)`
        - **index:** :math:`(M)`
        - **rows:** :math:`(M, F)`
        - **output:** :math:`(N, F)`
    """
    if not _side_by_side(x, index, rows):
        return x.index_copy(0, index, rows)
    out: Tensor = _PutRows.apply(x, index, rows)
    return out


def _side_by_side(*tensors: Tensor) -> bool:
    """Whether there is something to be gained: alone, torch's own functions cost less."""
    return any(torch._C._functorch.is_batchedtensor(tensor) for tensor in tensors)


class _SelectRows(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, index: Tensor) -> Tensor:
        return x.index_select(0, index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        x, index = inputs
        ctx.num_rows = x.size(0)
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return add_rows(grad, ctx.saved_tensors[0], ctx.num_rows), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, index: Tensor) -> tuple[Tensor, int]:
        x, index = replicas_first(info, in_dims[0], x), replicas_first(info, in_dims[1], index)
        flat = select_rows(x.flatten(0, 1), flat_index(index, x.size(1)))
        return flat.unflatten(0, index.shape), 0


class _AddRows(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, index: Tensor, num_rows: int) -> Tensor:
        return x.new_zeros(num_rows, *x.shape[1:]).index_add_(0, index, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return select_rows(grad, ctx.saved_tensors[0]), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, index: Tensor, num_rows: int) -> tuple[Tensor, int]:
        x, index = replicas_first(info, in_dims[0], x), replicas_first(info, in_dims[1], index)
        flat = add_rows(x.flatten(0, 1), flat_index(index, num_rows), info.batch_size * num_rows)
        return flat.unflatten(0, (info.batch_size, num_rows)), 0


class _PutRows(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
        return x.index_copy(0, index, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        (index,) = ctx.saved_tensors
        rows = select_rows(grad, index)
        return put_rows(grad, index, torch.zeros_like(rows)), None, rows

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, index: Tensor, rows: Tensor) -> tuple[Tensor, int]:
        x, index, rows = (replicas_first(info, dim, tensor) for dim, tensor in zip(in_dims, (x, index, rows), strict=True))
        flat = put_rows(x.flatten(0, 1), flat_index(index, x.size(1)), rows.flatten(0, 1))
        return flat.view(x.shape), 0


def replicas_first(info: Any, dim: int | None, x: Tensor) -> Tensor:
    """A tensor as ``vmap`` hands it to a rule, with a first dimension for the replicas, also where all share it."""
    return x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)


def flat_index(index: Tensor, num_rows: int) -> Tensor:
    """Numbers of rows within each replica as numbers among all."""
    first = torch.arange(index.size(0), device=index.device, dtype=index.dtype) * num_rows
    return (index + first.unsqueeze(-1)).flatten()
