"""What the kernels do alike under ``torch.func.vmap``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def stack_replicas(info: Any, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...]) -> list[Any]:
    """The inputs of a rule of ``vmap``, what it runs over stacked on top of the replicas that are there."""
    return [
        (x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1).contiguous()
        if isinstance(x, Tensor)
        else x
        for x, dim in zip(inputs, in_dims, strict=True)
    ]


def one_replica(*tensors: Tensor | None) -> list[Tensor | None]:
    """Tensors with a first dimension for a single replica."""
    return [None if x is None else x.unsqueeze(0).contiguous() for x in tensors]


def pointer_to(mask: Tensor | None, otherwise: Tensor) -> Tensor:
    """A mask as bytes, without a copy; where there is none, a tensor that a kernel may be told of and does not read."""
    return otherwise if mask is None else mask.view(torch.uint8) if mask.dtype == torch.bool else mask
