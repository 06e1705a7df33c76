"""Derivatives that have no derivative of their own, and say so."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks the ``backward`` of a function whose second derivative is not known, so that asking for it is an error.

    Torch's decorator of this name looks at the incoming gradient alone. Where that is a constant, as for a sum, it hands out the gradient as
    if it were constant too, and second derivatives come out as zero without a word. Here gradients that are computed with
    ``create_graph=True`` stay connected to what they depend on, the incoming gradient and the saved tensors, through a step that refuses to
    be differentiated. Under ``torch.func`` as well.

    So whatever floating-point input the gradients depend on must be among the saved tensors.

    Args:
        backward: The static method; it may read ``ctx.saved_tensors``.
    """

    @functools.wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if not torch.is_grad_enabled():
            return backward(ctx, *grads)
        read_once = _Context(ctx)
        with torch.no_grad():
            results = backward(read_once, *grads)
        results = results if isinstance(results, tuple) else (results,)
        given = [x for x in results if x is not None]
        causes = [x for x in (*grads, *read_once.saved_tensors) if isinstance(x, Tensor) and x.is_floating_point()]
        refusing = iter(_Refusal.apply(len(given), *given, *causes))
        return tuple(None if x is None else next(refusing) for x in results)

    return checked


class _Context:
    """What a backward is told, with the saved tensors fetched once: under ``torch.utils.checkpoint`` they can be had a single time."""

    def __init__(self, ctx: Any) -> None:
        self._ctx, self.saved_tensors = ctx, ctx.saved_tensors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


class _Refusal(torch.autograd.Function):
    """Hands out its first arguments, as many as it is told."""

    generate_vmap_rule = True

    @staticmethod
    def forward(number: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.view_as(x) for x in tensors[:number])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        raise RuntimeError(
            "this function can be differentiated once (got a second derivative); take finite differences of its gradients"
        )
