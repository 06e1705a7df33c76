"""Norms of the states of vertices or arcs, which can leave padding out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import batch_norm

from gump.kernels import runs_kernels
from gump.nn.arguments import can_look
from gump.nn.linear import is_relu
from gump.nn.unaltered import is_unaltered

NORMS: dict[str, dict[str, Any]] = {
    "batch": {"norm": "batch_norm", "norm_kwargs": {"allow_single_element": True}},
    "layer": {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}},
}
"""The norms by their names here, and what PyG's models call them."""

ROUNDING = 32
"""By how many of the smallest steps next to its mean a channel may vary for that to be the rounding of the layers before."""


class BatchNorm(torch.nn.Module):
    r"""Batch normalization over rows, of which some may be padding.

    .. math::
        \mathbf{x}'_i = \frac{\mathbf{x}_i - \mathbb{E}[\mathbf{x}]}{\sqrt{\mathrm{Var}[\mathbf{x}] + \epsilon}} \odot \boldsymbol{\gamma}
            + \boldsymbol{\beta}

    Without a mask it is torch's, but that on a CPU, in single and double precision, a channel that varies by no more than rounding, in
    single precision 4e-6 of its mean or 2e-6 where another is of order one, comes out as :math:`\boldsymbol{\beta}`: otherwise what
    rounding makes of equal rows, which differs with their order, grows a few hundred times in every layer. With one, rows that it leaves
    out do not count, and come out as anything; so batches of different sizes can be trained side by side in one shape, each as if it were
    alone. A single row, which has no variance, is normalized by the running statistics. It is no :class:`torch.nn.BatchNorm1d`, and what
    looks for one, such as ``torch.optim.swa_utils.update_bn`` or ``torch.nn.SyncBatchNorm.convert_sync_batchnorm``, passes it by. To freeze running
    statistics, call ``.eval()`` on the modules of this class.

    Args:
        channels: Width of the rows.
        eps: Added to the variance.
        momentum: How much of the running statistics every batch replaces.

    Shapes:
        - **input:** :math:`(N, F)`
        - **mask:** :math:`(N)`
        - **output:** :math:`(N, F)`
    """

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.channels, self.eps, self.momentum = channels, eps, momentum
        self.weight, self.bias = torch.nn.Parameter(torch.empty(channels)), torch.nn.Parameter(torch.empty(channels))
        self.register_buffer("running_mean", torch.empty(channels))
        self.register_buffer("running_var", torch.empty(channels))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts anew."""
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor, mask: Tensor | None = None, relu: bool = False, fused: bool | None = None) -> Tensor:
        """Normalizes, and in training mode updates the running statistics.

        Args:
            x: The rows.
            mask: Which rows count; by default all.
            relu: Whether a ReLU follows.
            fused: Whether to train with a kernel; by default on a GPU.
        """
        if self.training and x.size(0) > 1 and (runs_kernels(x, self.weight) if fused is None else fused):
            return self._fused(x, mask, relu)
        out = self._plain(x, mask)
        return out.relu_() if relu else out

    def _fused(self, x: Tensor, mask: Tensor | None, relu: bool) -> Tensor:
        """In two passes over the rows."""
        from gump.kernels.batch_norm import batch_norm as fused_batch_norm

        running = self.running_mean, self.running_var
        out, *moved = fused_batch_norm(x, mask, self.weight, self.bias, *running, self.eps, relu, self.momentum)
        with torch.no_grad():
            for old, new in zip(running, moved, strict=True):
                old.copy_(new)
        return out

    def _plain(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            training = self.training and x.size(0) > 1
            compiled = torch.compiler.is_compiling() and x.device.type == "cpu"
            if training and x.dtype in (torch.float32, torch.float64) and (compiled or can_look(x)):
                return self._without_rounding(x)
            return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training, self.momentum, self.eps)
        if not self.training:
            return self._scaled(x, self.running_mean, self.running_var)
        weight = mask.to(x.dtype).unsqueeze(-1)
        count, x = weight.sum(), torch.where(weight > 0, x, torch.zeros((), dtype=x.dtype, device=x.device))
        mean = x.sum(0) / count.clamp_min(1)
        var = ((x - mean).square() * weight).sum(0) / count.clamp_min(1)
        several = (count > 1).to(x.dtype)
        with torch.no_grad():
            rate = self.momentum * several
            self.running_mean.add_(rate * (mean.to(self.running_mean.dtype) - self.running_mean))
            unbiased = var * (count / (count - 1).clamp_min(1))
            self.running_var.add_(rate * (unbiased.to(self.running_var.dtype) - self.running_var))
        mean, var = (torch.where(several > 0, new, old) for new, old in ((mean, self.running_mean), (var, self.running_var)))
        return self._scaled(x, mean, var)

    def _without_rounding(self, x: Tensor) -> Tensor:
        """Torch's batch norm in training, and the bias where a channel is the same in all rows up to rounding."""
        running = self.running_mean, self.running_var
        out, mean, rate = torch.native_batch_norm(x, self.weight, self.bias, *running, True, self.momentum, self.eps)
        with torch.no_grad():
            smallest = torch.finfo(x.dtype).eps
            error = (
                4 * smallest * self.eps
            )  # of the variance that follows from the rate, and about that of sums to zero in layers before
            largest, var = (ROUNDING * smallest * mean).square(), rate.square().reciprocal() - self.eps
            even = var <= largest + error
            if torch.compiler.is_compiling():
                var = torch.where(even, x.var(0, correction=0), var)
            elif even.any():
                var[even] = x[:, even].var(0, correction=0)
            else:
                return out
            even = var <= largest + error * (mean.square() + var).amax().clamp(max=1)
        return torch.where(even, self.bias, out)

    def _scaled(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return torch.addcmul(self.bias, x - mean, self.weight * (var + self.eps).rsqrt())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"


class LayerNorm(torch.nn.LayerNorm):
    """Layer normalization of every row by itself; a mask makes no difference to it."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalizes."""
        return super().forward(x)


class NoNorm(torch.nn.Module):
    """Leaves rows as they are."""

    def reset_parameters(self) -> None:
        """Has nothing to draw."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns its input."""
        return x


def make_norm(name: str | None, channels: int) -> Any:
    """Makes the norm with this name: ``"batch"``, ``"layer"`` or none."""
    return NoNorm() if name is None else {"batch": BatchNorm, "layer": LayerNorm}[name](channels)


def normalized(norm: torch.nn.Module, act: torch.nn.Module, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Computes ``act(norm(x, mask))``, at once where that is a ReLU of a batch norm, both unaltered."""
    if is_unaltered(norm, BatchNorm) and is_relu(act):
        return norm(x, mask, relu=True)
    return act(norm(x, mask))
