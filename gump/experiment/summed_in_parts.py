"""Products of many rows with a small matrix, for a few models side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

ROWS = 1024
"""How many rows are summed at a time; other numbers were not measured."""

FEW = 16
"""Up to how many models side by side parts are made: with many, a GPU is busy in any case. Four were measured, and a hundred without."""

MATMUL = (torch.matmul, Tensor.matmul, Tensor.__matmul__)


class SummedInParts(TorchFunctionMode):
    """Has the gradients of weights that many rows share summed in parts, side by side, instead of one row after the other.

    The gradient of a weight is one product with as many terms as there are rows. A few such products of small matrices keep a few
    multiprocessors of a GPU busy for long; the parts, all of them. Not for autocast, sparse rows or forward-mode derivatives.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Takes the products of many rows with a matrix; everything else is as it was."""
        if not kwargs and func in MATMUL and _are_many(*args):
            return _Product.apply(*args)
        if not kwargs and func is torch.nn.functional.linear and _are_many(*args[:2]):
            out = _Product.apply(args[0], args[1].t())
            return out if len(args) < 3 or args[2] is None else out + args[2]
        return func(*args, **(kwargs or {}))


def _are_many(x: Tensor, weight: Tensor) -> bool:
    return x.dim() == weight.dim() == 2 and x.size(0) >= 2 * ROWS


class _Product(torch.autograd.Function):
    """A product of matrices, or of stacked ones."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x, to_weight = ctx.needs_input_grad
        return grad @ weight.mH if to_x else None, _sum_of_products(x, grad) if to_weight else None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
        stacked = (
            matrix.expand(info.batch_size, *matrix.shape) if dim is None else matrix.movedim(dim, 0)
            for dim, matrix in zip(in_dims, (x, weight), strict=True)
        )
        return _Product.apply(*stacked), 0


def _sum_of_products(x: Tensor, grad: Tensor) -> Tensor:
    """Computes ``x.mH @ grad`` of matrices, or of each of stacked ones, a part of the rows at a time and all parts at once."""
    if x.dim() > 2:
        return torch.stack([_sum_of_products(*each) for each in zip(x, grad, strict=True)])
    num_parts = x.size(0) // ROWS
    first = num_parts * ROWS
    parts = [matrix[:first].reshape(num_parts, ROWS, matrix.size(1)) for matrix in (x, grad)]
    return torch.addmm((parts[0].mH @ parts[1]).sum(0), x[first:].mH, grad[first:])


def parts_for(num_models: int, device: torch.device) -> AbstractContextManager[Any]:
    """Has gradients summed in parts where that is faster: for a few models on a GPU."""
    return SummedInParts() if device.type == "cuda" and num_models <= FEW else nullcontext()
