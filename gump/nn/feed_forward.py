"""What follows message passing in the layers of many networks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_counts, check_name
from gump.nn.linear import linear
from gump.nn.norm import NORMS, make_norm


class FeedForward(torch.nn.Module):
    r"""A feed-forward block: every row by itself through an MLP whose hidden layer is twice as wide, with a residual connection and a norm behind.

    .. math::
        \mathbf{x}' = \mathrm{norm}(\mathbf{x} + \mathrm{dropout}(\mathbf{W}_2\, \mathrm{dropout}(\sigma(\mathbf{W}_1 \mathbf{x}))))

    Args:
        channels: Width of the rows.
        dropout: Probability of dropping an entry behind either linear map.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none.

    Shapes:
        - **input, output:** :math:`(N, F)`
        - **mask:** :math:`(N)`
    """

    def __init__(self, channels: int, dropout: float = 0.0, act: str = "relu", norm: str | None = "batch") -> None:
        super().__init__()
        check_counts(1, channels=channels)
        check_name("norm", norm, NORMS, optional=True)
        self.channels = channels
        self.lin1, self.lin2 = torch.nn.Linear(channels, 2 * channels), torch.nn.Linear(2 * channels, channels)
        self.act, self.dropout, self.norm = activation_resolver(act), torch.nn.Dropout(dropout), make_norm(norm, channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.lin1, self.act, self.lin2, self.norm):
            reset(module)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Computes new rows; those that ``mask`` leaves out are padding."""
        hidden = self.dropout(linear(self.lin1, x, mask, self.act))
        out: Tensor = self.norm(x + self.dropout(linear(self.lin2, hidden, mask)), mask)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"
