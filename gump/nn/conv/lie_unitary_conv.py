"""The unitary convolution that is not separable."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import jv
from torch import Tensor

from gump.nn.normalized_adjacency import propagate, symmetric_adjacency

LONGEST = 32.0
"""The longest turn of models side by side, for which the number of terms is fixed."""


class LieUnitaryConv(torch.nn.Module):
    r"""A convolution that keeps the norm of features with its weights inside the exponential (Lie UniConv, `Kiani et al., NeurIPS 2024
    <https://arxiv.org/abs/2410.05499>`_).

    .. math::
        \mathbf{X}' = \exp(\mathcal{L})(\mathbf{X}) + \mathbf{b}, \quad \mathcal{L}(\mathbf{X}) = i \hat{\mathbf{A}} \mathbf{X} (\mathbf{W} +
        \mathbf{W}^{\dagger}), \quad \hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}

    for complex features; with ``real``, :math:`\mathcal{L}(\mathbf{X}) = \hat{\mathbf{A}} \mathbf{X} (\mathbf{W} - \mathbf{W}^{\top})`. Either way
    :math:`\mathcal{L}` is skew, so that its exponential is unitary (orthogonal): features are turned by an angle that depends on
    the graph, and vertices without edges keep theirs. Edges must come in both directions, and weights must not be negative.

    The exponential is a Chebyshev series with one propagation for each term,

    .. math::
        \exp(\mathcal{L}) = J_0(r) \mathbf{Q}_0 + 2 \sum_{k \ge 1} J_k(r) \mathbf{Q}_k, \quad \mathbf{Q}_{k+1} = \tfrac{2}{r} \mathcal{L}
        \mathbf{Q}_k + \mathbf{Q}_{k-1}, \quad \mathbf{Q}_0 = \mathbf{I}, \quad \mathbf{Q}_1 = \tfrac{1}{r} \mathcal{L},

    with Bessel functions :math:`J_k` and a bound :math:`r` on the length :math:`\lVert \mathbf{W} + \mathbf{W}^{\dagger} \rVert` of the turn. It has
    as many terms as rounding can tell apart, :math:`r` and some multiples of :math:`r^{1/3}`, and so stays a turn however the weights grow. A
    Taylor sum of ten terms, which the public code takes whatever the length, is off by a factor of a thousand at :math:`r = 10`. To know the
    length waits for the device.

    Models side by side under ``torch.func.vmap`` cannot wait, and all take the series of :math:`r = 32`, some three times the terms that weights
    need as they are drawn (:math:`r = 4`), and of the memory, since every term is kept for the gradient. Where their own :math:`r` is larger the
    result is not a number.

    Args:
        channels: Width of input and result.
        real: Whether features are real.
        bias: Whether to learn a bias.
        normalize: Whether to compute :math:`\hat{\mathbf{A}}`; if not, ``edge_weight`` holds its entries, and its norm must be one at most.

    Shapes:
        - **x:** :math:`(N, F)`, real or complex
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(N, F)`, complex unless ``real``
    """

    SIDE_BY_SIDE = f"side by side, turns longer than {LONGEST:.0f} are no numbers"

    def __init__(self, channels: int, real: bool = False, bias: bool = True, normalize: bool = True) -> None:
        super().__init__()
        self.channels, self.real, self.normalize = channels, real, normalize
        parts = () if real else (2,)  # complex numbers as pairs, which optimizers and changes of precision know
        self.weight = torch.nn.Parameter(torch.empty(channels, channels, *parts))
        self.bias = torch.nn.Parameter(torch.empty(channels, *parts)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights: blocks of two channels on the diagonal, with deviation one half, as published."""
        pair = torch.arange(self.channels, device=self.weight.device) // 2
        same = pair.unsqueeze(0) == pair.unsqueeze(1)
        with torch.no_grad():
            self.weight.normal_(std=0.5).mul_(same if self.real else same.unsqueeze(-1))
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def matrix(self) -> Tensor:
        r"""Computes what :math:`\mathcal{L}` multiplies features with: :math:`i(\mathbf{W} + \mathbf{W}^{\dagger})`, or :math:`\mathbf{W} -
        \mathbf{W}^{\top}` if ``real``."""
        if self.real:
            return self.weight - self.weight.mT
        weight = torch.view_as_complex(self.weight)
        return 1j * (weight + weight.mH)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Turns features."""
        if self.normalize:
            edge_index, edge_weight = symmetric_adjacency(x, edge_index, edge_weight)
        matrix = self.matrix()
        bound = _bound(matrix)
        x = x.to(matrix.dtype)
        if not self.real:  # the same with real numbers: real parts, then imaginary parts
            x = torch.cat([x.real, x.imag], dim=1)
            matrix = torch.cat([torch.cat([matrix.real, matrix.imag], 1), torch.cat([-matrix.imag, matrix.real], 1)])
        if torch._C._functorch.is_batchedtensor(matrix):
            x, length = torch.where(bound > LONGEST, torch.nan, x), LONGEST
        else:
            length = _length(float(bound))
        first, second, *others = _coefficients(length, x.dtype)
        matrix = (2 / length) * matrix
        before, term = x, propagate(0.5 * (x @ matrix), edge_index, edge_weight)
        out = torch.add(first * before, term, alpha=second)
        for coefficient in others:
            before, term = term, before + propagate(term @ matrix, edge_index, edge_weight)
            out = torch.add(out, term, alpha=coefficient)
        out = out if self.real else torch.complex(*out.chunk(2, dim=1))
        if self.bias is None:
            return out
        return out + (self.bias if self.real else torch.view_as_complex(self.bias))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, real={self.real})"


@torch.no_grad()
def _bound(matrix: Tensor) -> Tensor:
    """A bound on the largest singular value of a normal matrix: the eighth root of the largest column sum of its eighth power, which for a width
    of 64 is too large by 1.3 at most. Where weights are zero or not numbers it is not a number."""
    scale = matrix.abs().sum(0).max()
    power = matrix / scale
    for _ in range(3):
        power = power @ power
    return scale * power.abs().sum(0).max() ** (1 / 8)


def _length(bound: float) -> float:
    """The length that the series is made for: a little more than the bound, and one where that is no number."""
    return max(1.001 * bound, 0.1) if math.isfinite(bound) else 1.0


def _coefficients(length: float, dtype: torch.dtype) -> list[float]:
    """The coefficients of the series, at least two, up to the last that is not lost in rounding."""
    values = 2 * jv(np.arange(math.ceil(length + 16 * length ** (1 / 3)) + 30), length)  # the tail falls over a width of that order
    values[0] /= 2
    last = int(np.flatnonzero(np.abs(values) > 0.1 * torch.finfo(dtype).eps)[-1])
    return [float(value) for value in values[: max(last + 1, 2)]]
