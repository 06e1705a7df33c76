"""The GIN flavor."""

from collections.abc import Callable

import torch
from torch import Tensor

from gump.nn.arc_linear import ArcFeatures, ArcLinear, input_of
from gump.nn.linear import linear
from gump.nn.propagated_linear import propagated_linear
from gump.nn.propagation import Propagation, check_propagation


class ArcGINConv(torch.nn.Module):
    r"""Graph isomorphism layer on arcs, the layer of GIN-GUMP.

    .. math::
        \mathbf{H}' = \mathrm{MLP}((1 + \epsilon) \mathbf{H} + \mathbf{U} \mathbf{H})

    Args:
        in_channels: Width of the arc states.
        out_channels: Width of the result and of the MLP's one hidden layer.
        act: The nonlinearity inside the MLP.

    Shapes:
        - **input:** :math:`(A, F_{in})`
        - **output:** :math:`(A, F_{out})`
    """

    def __init__(self, in_channels: int, out_channels: int, act: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        self.act = act
        self.eps = torch.nn.Parameter(torch.zeros(()))
        self.lin = ArcLinear(in_channels, out_channels)
        self.lin_out = torch.nn.Linear(out_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin.reset_parameters()
        self.lin_out.reset_parameters()
        torch.nn.init.zeros_(self.eps)

    def forward(self, h: Tensor | ArcFeatures, propagate: Propagation, act: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Transforms and propagates; ``act`` is the nonlinearity that follows, if any."""
        check_propagation(propagate, h)
        h, scale = input_of(self.lin, h), 1 + self.eps
        if isinstance(h, ArcFeatures):  # narrower after the weights, which commute with the operator
            first = self.act(propagate(self.lin.product(h), scale) + self.lin.bias)
        else:
            first = propagated_linear(self.lin, h, propagate, scale, self.act)
        return linear(self.lin_out, first, propagate.mask, act)
