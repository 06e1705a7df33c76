"""The network of unitary convolutions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_counts, check_name
from gump.nn.conv.lie_unitary_conv import LieUnitaryConv
from gump.nn.conv.unitary_conv import UnitaryConv
from gump.nn.norm import NORMS, make_norm, normalized
from gump.nn.normalized_adjacency import symmetric_adjacency


class UnitaryGCN(torch.nn.Module):
    r"""A GCN whose propagation keeps the norm of features (`Kiani et al., NeurIPS 2024 <https://arxiv.org/abs/2410.05499>`_).

    .. math::
        \mathbf{X}^{(k)} = \mathrm{dropout}(\sigma(\mathrm{norm}(\mathrm{conv}_k(\mathbf{X}^{(k-1)}))))

    with :class:`~gump.nn.conv.unitary_conv.UnitaryConv` or :class:`~gump.nn.conv.lie_unitary_conv.LieUnitaryConv`. Features are complex unless
    ``real``: they start as a (real) linear map of the vertex features, nonlinearity, norm and dropout act on real and imaginary parts
    separately, and the result is the real part of the last layer. Norms are kept by the convolutions, not by what lies between them
    (nonlinearity, norm, dropout, residual) nor, unless ``unitary``, by the weights of separable ones.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of every layer, even if ``real`` and not ``lie``. A complex weight counts as two parameters.
        num_layers: The number of convolutions.
        out_channels: Width of the result after a final linear map; by default there is none.
        lie: Whether the weights are inside the exponential.
        real: Whether features are real, with orthogonal convolutions.
        num_terms: How many terms the Taylor sum of separable convolutions has; the others have as many as their weights ask for.
        unitary: Whether the weights of separable convolutions are unitary.
        residual: Whether layers add to their input, the published choice for Peptides.
        dropout: Probability of dropping an entry after each layer.
        act: The nonlinearity, by its name in torch, or none.
        norm: ``"batch"``, ``"layer"`` or none.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(N, F_{out})`, real
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        lie: bool = False,
        real: bool = False,
        num_terms: int = 16,
        unitary: bool = False,
        residual: bool = False,
        dropout: float = 0.0,
        act: str | None = "relu",
        norm: str | None = None,
    ) -> None:
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        if lie and unitary:
            raise ValueError("'unitary' must be False for lie=True (got True); those weights are inside the exponential already")
        if real and not lie and hidden_channels % 2 != 0:
            raise ValueError(f"'hidden_channels' must be even for real features, which are paired (got {hidden_channels})")
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.lie, self.real, self.unitary, self.residual = lie, real, unitary, residual
        self.act = torch.nn.Identity() if act is None else activation_resolver(act)
        self.dropout = torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        self.convs = torch.nn.ModuleList(
            LieUnitaryConv(hidden_channels, real, normalize=False)
            if lie
            else UnitaryConv(hidden_channels, hidden_channels, num_terms, unitary, real, normalize=False)
            for _ in range(num_layers)
        )
        width = hidden_channels if real else 2 * hidden_channels
        self.norms = torch.nn.ModuleList(make_norm(norm, width) for _ in range(num_layers))
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.convs, self.norms, self.act, self.lin):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, each in both directions.
            edge_weight: Nonnegative weights of the edges, the same in both directions.
            edge_attr: Not used.
            batch: Not used: a batch of graphs is one disconnected graph.
            mask: Which vertices are there; the others are padding, joined to nothing but each other, that norms leave out.
        """
        x = self.propagate(self.encoder(x), edge_index, edge_weight, mask)
        x = x.real if x.is_complex() else x
        return x if self.lin is None else self.lin(x)

    def propagate(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Runs the layers on states of width ``hidden_channels``; the result is complex unless ``real``."""
        index, weight = symmetric_adjacency(x, edge_index, edge_weight)
        for conv, norm in zip(self.convs, self.norms, strict=True):

            def between(h: Tensor, norm: torch.nn.Module = norm) -> Tensor:
                return self.dropout(normalized(norm, self.act, h, mask))

            new = _on_parts(between, conv(x, index, weight))
            x = x + new if self.residual else new
        return x

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, lie={self.lie}, real={self.real}, unitary={self.unitary})"
        )


def _on_parts(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Applies a function of real tensors to a complex one, its real and imaginary parts being channels."""
    if not x.is_complex():
        return function(x)
    return torch.view_as_complex(function(torch.view_as_real(x).flatten(1)).unflatten(1, (-1, 2)).contiguous())
