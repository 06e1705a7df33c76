"""The unitary convolution that is not separable."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.nn import SimpleConv

from gump.nn.normalized_adjacency import normalized_adjacency

TOLERANCE = 1e-7
"""What the Taylor sum of one part of a turn may be off."""


class LieUnitaryConv(torch.nn.Module):
    r"""A convolution that keeps the norm of features with its weights inside the exponential (Lie UniConv, `Kiani et al., NeurIPS 2024
    <https://arxiv.org/abs/2410.05499>`_).

    .. math::
        \mathbf{X}' = \exp(\mathcal{L})(\mathbf{X}) + \mathbf{b}, \quad \mathcal{L}(\mathbf{X}) = i \hat{\mathbf{A}} \mathbf{X} (\mathbf{W} +
        \mathbf{W}^{\dagger}), \quad \hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}

    for complex features; with ``real``, :math:`\mathcal{L}(\mathbf{X}) = \hat{\mathbf{A}} \mathbf{X} (\mathbf{W} - \mathbf{W}^{\top})`. Either way
    :math:`\mathcal{L}` is skew, so that its exponential is unitary (orthogonal): features are turned by an angle that depends on
    the graph, and vertices without edges keep theirs. Edges must come in both directions.

    The exponential is a Taylor sum with one propagation for each term. Its error is about :math:`r^{T+1} / (T+1)!` for :math:`T` terms and
    :math:`r = \lVert \hat{\mathbf{A}} \rVert \lVert \mathbf{W} + \mathbf{W}^{\dagger} \rVert`, which at :math:`r = 10` and 10 terms is a factor of a
    thousand. So the turn is made in as many equal parts as its length asks for, and stays a turn however the weights grow; the public code
    makes one, whatever the length. To know the length waits for the device.

    Args:
        channels: Width of input and result.
        num_terms: How many terms the Taylor sum of each part has beyond the identity.
        real: Whether features are real.
        bias: Whether to learn a bias.
        normalize: Whether to compute :math:`\hat{\mathbf{A}}`; if not, ``edge_weight`` holds its entries.

    Shapes:
        - **x:** :math:`(N, F)`, real or complex
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(N, F)`, complex unless ``real``
    """

    def __init__(self, channels: int, num_terms: int = 16, real: bool = False, bias: bool = True, normalize: bool = True) -> None:
        super().__init__()
        if num_terms < 1:
            raise ValueError(f"'num_terms' must be at least 1 (got {num_terms})")
        self.channels, self.num_terms, self.real, self.normalize = channels, num_terms, real, normalize
        parts = () if real else (2,)  # complex numbers as pairs, which optimizers and changes of precision know
        self.weight = torch.nn.Parameter(torch.empty(channels, channels, *parts))
        self.bias = torch.nn.Parameter(torch.empty(channels, *parts)) if bias else None
        self.propagate = SimpleConv(aggr="sum")
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
            dtype = x.real.dtype if x.is_complex() else x.dtype
            edge_index, edge_weight = normalized_adjacency(edge_index, edge_weight, x.size(0), dtype, self_loops=False)
        matrix = self.matrix()
        num_parts = self._num_parts(matrix)
        out = x.to(matrix.dtype)
        for _ in range(num_parts):
            term = out
            for k in range(1, self.num_terms + 1):
                term = self._propagate(term @ matrix, edge_index, edge_weight) / (k * num_parts)
                out = out + term
        if self.bias is None:
            return out
        return out + (self.bias if self.real else torch.view_as_complex(self.bias))

    @torch.no_grad()
    def _num_parts(self, matrix: Tensor) -> int:
        """How many turns of equal length to make of one, so that the Taylor sum of each is exact to single precision however large the
        weights have become: the largest column sum bounds the length, since the normalized adjacency has norm one. Waits for the device."""
        length = float(matrix.abs().sum(0).max())
        reach = (TOLERANCE * math.factorial(self.num_terms + 1)) ** (1 / (self.num_terms + 1))
        return max(math.ceil(length / reach), 1) if math.isfinite(length) else 1

    def _propagate(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Real weights multiply real and imaginary parts alike."""
        if self.real:
            return self.propagate(x, edge_index, edge_weight)
        parts = self.propagate(torch.view_as_real(x).flatten(1), edge_index, edge_weight)
        return torch.view_as_complex(parts.unflatten(1, (-1, 2)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, num_terms={self.num_terms}, real={self.real})"
