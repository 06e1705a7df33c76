"""Adam for stacked models, each with a learning rate and a weight decay of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8

SAVED = ("flat", "mean", "square")
"""What a step depends on besides its number and the rates, which are set anew in every epoch."""

ALIGNED = 16
"""Entries that a GPU would rather read together."""


class StackedAdam:
    r"""Adam, or AdamW, on parameters that are stacked over replicas, with the arithmetic of ``torch.optim``.

    All parameters of a group lie in one buffer, so that a step is a handful of operations however many there are, and none of them waits for
    the device. In the buffer the replicas of one parameter follow each other, so that kernels read them as they are.

    Args:
        groups: For each group its ``params`` (leaves of shape :math:`(R, ...)`, which become views of the buffer), ``lr`` and ``weight_decay``,
            each one number or one for every replica.
        decoupled: Whether the weight decay is AdamW's.
        clip: The largest norm of the gradient of a replica.
    """

    def __init__(self, groups: Sequence[Mapping[str, Any]], decoupled: bool = False, clip: float | None = None) -> None:
        self.decoupled, self.clip = decoupled, clip
        self.params = [list(group["params"]) for group in groups]
        first = self.params[0][0]
        num_replicas, device = first.size(0), first.device
        for params in self.params:
            params.sort(key=lambda p: p[0].numel() % ALIGNED > 0)  # those of odd sizes last: whatever follows one is not aligned
        self.flat = [torch.cat([p.detach().flatten() for p in params]) for params in self.params]
        for flat, params in zip(self.flat, self.params, strict=True):
            for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
                p.data = part.view(p.shape)
        replica = torch.arange(num_replicas, dtype=torch.int32, device=device)
        self.replica = [torch.cat([replica.repeat_interleave(p[0].numel()) for p in params]) for params in self.params]
        self.base_lr = [_per_replica(group, "lr", num_replicas) for group in groups]  # on the host, with all digits
        self.lr = [self._spread(base.to(first), replica) for base, replica in zip(self.base_lr, self.replica, strict=True)]
        decays = [_per_replica(group, "weight_decay", num_replicas) for group in groups]
        self.weight_decay = [
            self._spread(decay.to(first), replica) if bool(decay.any()) else None
            for decay, replica in zip(decays, self.replica, strict=True)
        ]
        self.mean = [torch.zeros_like(flat) for flat in self.flat]
        self.square = [torch.zeros_like(flat) for flat in self.flat]
        self.num_steps = torch.zeros((), dtype=torch.float64, device=device)

    @staticmethod
    def _spread(of_replica: Tensor, replica: Tensor) -> Tensor:
        """For every entry of the buffer what its replica has."""
        return of_replica.index_select(0, replica)

    def set_scale(self, scale: Tensor) -> None:
        """Multiplies the learning rates that were given; one factor for every replica, zero to leave one as it is."""
        for lr, base, replica in zip(self.lr, self.base_lr, self.replica, strict=True):
            lr.copy_(self._spread((base * scale.to(base)).to(lr), replica))

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        for params in self.params:
            for p in params:
                p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Takes a step with the gradients of the parameters."""
        given = [[torch.zeros_like(p) if p.grad is None else p.grad for p in params] for params in self.params]
        grads = [torch.cat([grad.reshape(-1) for grad in group]) for group in given]
        if self.clip is not None:
            norm = torch.stack([grad.reshape(grad.size(0), -1).square().sum(1) for group in given for grad in group]).sum(0).sqrt()
            factor = (self.clip / (norm + 1e-6)).clamp(max=1.0)
            grads = [grad * self._spread(factor, replica) for grad, replica in zip(grads, self.replica, strict=True)]
        self.num_steps += 1
        correction1, correction2 = 1 - BETA1**self.num_steps, (1 - BETA2**self.num_steps).sqrt()
        for flat, grad, mean, square, lr, decay in zip(
            self.flat, grads, self.mean, self.square, self.lr, self.weight_decay, strict=True
        ):
            if decay is not None and self.decoupled:
                flat.mul_(1 - lr * decay)
            elif decay is not None:
                grad = grad.addcmul(flat, decay)
            mean.lerp_(grad, 1 - BETA1)
            square.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
            denominator = (square.sqrt() / correction2.to(square.dtype)).add_(EPS)
            flat.sub_(mean / denominator * (lr / correction1.to(lr.dtype)))

    def tensors(self) -> list[Tensor]:
        """What a step changes."""
        return [*self.flat, *self.mean, *self.square, self.num_steps]

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, the parameters included."""
        return {key: [x.cpu() for x in getattr(self, key)] for key in SAVED} | {"num_steps": self.num_steps.cpu()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes back, or on, to a state."""
        for key in SAVED:
            for own, other in zip(getattr(self, key), state[key], strict=True):
                own.copy_(other)
        self.num_steps.copy_(state["num_steps"])

    def take_over(self, other: StackedAdam, rows: Tensor) -> None:
        """Goes on with the state of some replicas of another, whose groups of parameters are alike.

        Args:
            other: Where they were.
            rows: Their numbers there, in ascending order, on the device.
        """
        for key in SAVED:
            for own, whole, replica in zip(getattr(self, key), getattr(other, key), other.replica, strict=True):
                own.copy_(whole[torch.isin(replica, rows)])
        self.num_steps.copy_(other.num_steps)


def _per_replica(group: Mapping[str, Any], key: str, num_replicas: int) -> Tensor:
    """A number for every replica, :math:`(R)`, from one for all or one for each."""
    given = torch.as_tensor(group[key], dtype=torch.float64).flatten()
    if given.numel() not in (1, num_replicas):
        raise ValueError(f"'{key}' must be one number or one for each of {num_replicas} replicas (got {given.numel()})")
    return given.repeat(num_replicas // given.numel())
