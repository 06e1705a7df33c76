"""The separable unitary convolution."""

from __future__ import annotations

import torch
from torch import Tensor

from gump.nn.arguments import check_counts
from gump.nn.normalized_adjacency import propagate, symmetric_adjacency


class UnitaryConv(torch.nn.Module):
    r"""A convolution that moves features over a graph without changing their norm (UniConv, `Kiani et al., NeurIPS 2024
    <https://arxiv.org/abs/2410.05499>`_).

    .. math::
        \mathbf{X}' = \exp(i \hat{\mathbf{A}})\, \mathbf{X} \mathbf{W} + \mathbf{b}, \quad
        \hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}

    for complex features. The exponential is a Taylor sum, one propagation for each term; it is unitary because the adjacency matrix of an
    undirected graph is symmetric, so edges (and their weights, not negative) must come in both directions. Of the whole map this is the part that
    always keeps the norm: the weights do so if ``unitary``, a bias does not.

    With ``real`` the channels after the weights are paired, :math:`2c` and :math:`2c + 1` being the real and the imaginary part, and
    :math:`\exp(i \hat{\mathbf{A}})` turns each pair by cosine and sine of :math:`\hat{\mathbf{A}}`: an orthogonal map of real features.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the result, even if ``real``.
        num_terms: How many terms the Taylor sum has beyond the identity. The norm of :math:`\hat{\mathbf{A}}` is at most one, so that
            10 terms are exact to 3e-8 and 16 to 3e-15.
        unitary: Whether the weights are unitary (orthogonal, if ``real``); they are then square, the exponential of a skew matrix. On a GPU it waits
            for the device, and is refused for models side by side under ``torch.func.vmap``.
        real: Whether features are real.
        bias: Whether to learn a bias.
        normalize: Whether to compute :math:`\hat{\mathbf{A}}`; if not, ``edge_weight`` holds its entries.

    Shapes:
        - **x:** :math:`(N, F_{in})`, real or complex
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(N, F_{out})`, complex unless ``real``

    Example:
        Two vertices exchange their features: :math:`\cos(1)` of a signal stays, :math:`i \sin(1)` arrives next door.

        >>> conv = UnitaryConv(1, 1, unitary=True, bias=False)
        >>> torch.nn.init.zeros_(conv.weight).numel()
        2
        >>> conv(torch.tensor([[1.0], [0.0]]), torch.tensor([[0, 1], [1, 0]])).detach()
        tensor([[0.5403+0.0000j],
                [0.0000+0.8415j]])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_terms: int = 16,
        unitary: bool = False,
        real: bool = False,
        bias: bool = True,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        if unitary and in_channels != out_channels:
            raise ValueError(f"'out_channels' must be 'in_channels' for unitary weights (got {out_channels} and {in_channels})")
        if real and out_channels % 2 != 0:
            raise ValueError(f"'out_channels' must be even for real features, which are paired (got {out_channels})")
        check_counts(1, num_terms=num_terms)
        self.in_channels, self.out_channels, self.num_terms = in_channels, out_channels, num_terms
        self.unitary, self.real, self.normalize = unitary, real, normalize
        parts = () if real else (2,)  # complex numbers as pairs, which optimizers and changes of precision know
        self.weight = torch.nn.Parameter(torch.empty(in_channels, out_channels, *parts))
        self.bias = torch.nn.Parameter(torch.empty(out_channels, *parts)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights: those that are not unitary keep the norm of a signal on average."""
        parts = 1 if self.real else 2
        torch.nn.init.normal_(self.weight, std=(1 / (parts * self.out_channels)) ** 0.5)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    @property
    def waits_for_device(self) -> bool:
        """Whether the weights are a matrix exponential, which takes as many terms as its norm needs."""
        return self.unitary

    def matrix(self) -> Tensor:
        r"""Computes the weights :math:`\mathbf{W}`, complex unless ``real``."""
        weight = self.weight if self.real else torch.view_as_complex(self.weight)
        if not self.unitary:
            return weight
        return torch.linalg.matrix_exp(weight - weight.mH)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Transforms and propagates."""
        if self.normalize:
            edge_index, edge_weight = symmetric_adjacency(x, edge_index, edge_weight)
        matrix = self.matrix()
        x = x.to(matrix.dtype) @ matrix
        x = x if self.real else torch.view_as_real(x).flatten(1)  # [num_nodes, 2 * channels], pairs side by side
        out = term = x
        for k in range(1, self.num_terms + 1):
            term = _times_i(propagate(term, edge_index, edge_weight)) / k
            out = out + term
        out = out if self.real else torch.view_as_complex(out.unflatten(1, (-1, 2)))
        if self.bias is None:
            return out
        return out + (self.bias if self.real else torch.view_as_complex(self.bias))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, num_terms={self.num_terms}, unitary={self.unitary}, "
            f"real={self.real})"
        )


def _times_i(pairs: Tensor) -> Tensor:
    """Multiplies by the imaginary unit, for numbers as pairs side by side."""
    re, im = pairs.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([-im, re], -1).flatten(-2)
