"""An average of weights over the steps of training."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class RunningAverage:
    r"""Averages what steps of training change, and shows the average in its place when a model is judged.

    .. math::
        \bar{\mathbf{w}}_t = \bar{\mathbf{w}}_{t-1} + \max\left(1 - \gamma, \tfrac{1}{t}\right) (\mathbf{w}_t - \bar{\mathbf{w}}_{t-1})

    The first :math:`1 / (1 - \gamma)` steps count equally, so that nothing is left of the weights before training. Running statistics of batch norm
    are averaged likewise, and not computed again for the averaged weights. The average has single precision at least. A step of it does not wait for
    the device, and can be recorded.

    Args:
        tensors: Weights and buffers; those of whole numbers stay as they are, and those that are not finite, such as masks.
        decay: The share :math:`\gamma` that a step keeps; none, and there is no average.

    Example:
        >>> weight = torch.zeros(1)
        >>> average = RunningAverage([weight], decay=0.9)
        >>> for value in (1.0, 2.0, 6.0):
        ...     weight = weight.fill_(value)
        ...     average.update()
        >>> with average.shown():
        ...     print(weight)
        tensor([3.])
        >>> weight
        tensor([6.])
    """

    def __init__(self, tensors: Iterable[Tensor], decay: float | None) -> None:
        given = list(tensors)
        self.decay, self.counted = decay, [decay is not None and _can_be_averaged(tensor) for tensor in given]
        self.live = self._counted_of(given)
        self.values = [torch.zeros_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32)) for tensor in self.live]
        device = self.live[0].device if self.live else None
        self.num_steps = torch.zeros((), dtype=torch.float64, device=device)

    def _counted_of(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.detach() for tensor, counted in zip(tensors, self.counted, strict=True) if counted]

    @torch.no_grad()
    def update(self) -> None:
        """Counts the weights as they are now; to be called after every step."""
        if not self.live:
            return
        self.num_steps += 1
        share = (1 / self.num_steps).clamp(min=1 - (self.decay or 0.0))
        steps = torch._foreach_sub(
            [tensor.to(value.dtype) for tensor, value in zip(self.live, self.values, strict=True)], self.values
        )
        torch._foreach_mul_(steps, share)
        torch._foreach_add_(self.values, steps)

    @contextmanager
    @torch.no_grad()
    def shown(self) -> Iterator[None]:
        """Puts the average in the place of the weights for a while."""
        if not self.live:
            yield
            return
        own = [tensor.clone() for tensor in self.live]
        torch._foreach_copy_(self.live, self.values)
        try:
            yield
        finally:
            torch._foreach_copy_(self.live, own)

    def tensors(self) -> list[Tensor]:
        """What a step changes."""
        return [*self.values, self.num_steps]

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, besides the weights."""
        return {"values": self.values, "num_steps": self.num_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes back, or on, to a state."""
        for own, other in zip(self.values, state["values"], strict=True):
            own.copy_(other)
        self.num_steps.copy_(state["num_steps"])

    def only(self, rows: Tensor, tensors: Sequence[Tensor]) -> RunningAverage:
        """The average of some replicas, where tensors are stacked over replicas; of the same ones, whatever they hold by now.

        Args:
            rows: The numbers of the replicas.
            tensors: Their weights and buffers, in the order in which they were given.
        """
        some = copy.copy(self)
        some.live, some.values = some._counted_of(tensors), [value[rows] for value in self.values]
        return some


def _can_be_averaged(tensor: Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and bool(tensor.isfinite().all())
