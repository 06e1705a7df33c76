"""The GCN flavor."""

from collections.abc import Callable

import torch
from torch import Tensor

from gump.nn.arc_linear import ArcFeatures, ArcLinear, input_of
from gump.nn.propagated_linear import propagated_linear
from gump.nn.propagation import Propagation, check_propagation


class ArcGCNConv(torch.nn.Module):
    r"""Graph convolution on arcs, the layer of GCN-GUMP.

    .. math::
        \mathbf{H}' = \mathbf{U} \mathbf{H} \mathbf{W} + \mathbf{b}

    Args:
        in_channels: Width of the arc states.
        out_channels: Width of the result.

    Shapes:
        - **input:** :math:`(A, F_{in})`
        - **output:** :math:`(A, F_{out})`
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = ArcLinear(in_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin.reset_parameters()

    def forward(self, h: Tensor | ArcFeatures, propagate: Propagation, act: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Transforms and propagates; ``act`` is the nonlinearity that follows, if any."""
        check_propagation(propagate, h)
        h = input_of(self.lin, h)
        if isinstance(h, ArcFeatures):  # narrower after the weights, which commute with the operator
            out = propagate(self.lin.product(h)) + self.lin.bias
            return out if act is None else act(out)
        return propagated_linear(self.lin, h, propagate, act=act)
