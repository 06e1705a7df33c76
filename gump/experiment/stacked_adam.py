"""Adam for stacked models, each with a learning rate of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


class StackedAdam:
    r"""Adam, or AdamW, on parameters that are stacked over replicas, with the arithmetic of ``torch.optim``.

    All parameters of a group lie in one buffer :math:`(R, P)`, so that a step is a handful of operations however many there are, and none of
    them waits for the device.

    Args:
        groups: For each group its ``params`` (leaves of shape :math:`(R, ...)`, which become views of the buffer), ``lr`` and ``weight_decay``.
        decoupled: Whether the weight decay is AdamW's.
        clip: The largest norm of the gradient of a replica.
    """

    def __init__(self, groups: Sequence[Mapping[str, Any]], decoupled: bool = False, clip: float | None = None) -> None:
        self.decoupled, self.clip = decoupled, clip
        self.params = [list(group["params"]) for group in groups]
        first = self.params[0][0]
        num_replicas, device = first.size(0), first.device
        self.flat = [torch.cat([p.detach().reshape(num_replicas, -1) for p in params], dim=1) for params in self.params]
        for flat, params in zip(self.flat, self.params, strict=True):
            for p, part in zip(params, flat.split([p[0].numel() for p in params], dim=1), strict=True):
                p.data = part.view(p.shape)
        self.lr = [first.new_full((num_replicas, 1), group["lr"]) for group in groups]
        self.base_lr = [float(group["lr"]) for group in groups]
        self.weight_decay = [float(group["weight_decay"]) for group in groups]
        self.mean = [torch.zeros_like(flat) for flat in self.flat]
        self.square = [torch.zeros_like(flat) for flat in self.flat]
        self.num_steps = torch.zeros((), dtype=torch.float64, device=device)

    def set_scale(self, scale: Tensor) -> None:
        """Multiplies the learning rates that were given; one factor for every replica, zero to leave one as it is."""
        for lr, base in zip(self.lr, self.base_lr, strict=True):
            lr.copy_(base * scale.to(lr.device, lr.dtype).unsqueeze(1))

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        for params in self.params:
            for p in params:
                p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Takes a step with the gradients of the parameters."""
        grads = [
            torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(p.size(0), -1) for p in params], dim=1)
            for params in self.params
        ]
        if self.clip is not None:
            norm = torch.stack([grad.square().sum(1) for grad in grads]).sum(0).sqrt()
            factor = (self.clip / (norm + 1e-6)).clamp(max=1.0).unsqueeze(1)
            grads = [grad * factor for grad in grads]
        self.num_steps += 1
        correction1, correction2 = 1 - BETA1**self.num_steps, (1 - BETA2**self.num_steps).sqrt()
        for flat, grad, mean, square, lr, decay in zip(
            self.flat, grads, self.mean, self.square, self.lr, self.weight_decay, strict=True
        ):
            if decay and self.decoupled:
                flat.mul_(1 - lr * decay)
            elif decay:
                grad = grad.add(flat, alpha=decay)
            mean.lerp_(grad, 1 - BETA1)
            square.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
            denominator = (square.sqrt() / correction2.to(square.dtype)).add_(EPS)
            flat.sub_(mean / denominator * (lr / correction1.to(lr.dtype)))

    def tensors(self) -> list[Tensor]:
        """What a step changes."""
        return [*self.flat, *self.mean, *self.square, self.num_steps]

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, the parameters included."""
        return {key: [x.cpu() for x in getattr(self, key)] for key in ("flat", "mean", "square", "lr")} | {
            "num_steps": self.num_steps.cpu()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes back, or on, to a state."""
        for key in ("flat", "mean", "square", "lr"):
            for own, other in zip(getattr(self, key), state[key], strict=True):
                own.copy_(other)
        self.num_steps.copy_(state["num_steps"])
