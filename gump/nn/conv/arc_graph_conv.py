"""The GraphConv flavor."""

from collections.abc import Callable

import torch
from torch import Tensor

from gump.nn.arc_linear import ArcFeatures, ArcLinear, input_of
from gump.nn.propagation import Propagation, check_propagation


class ArcGraphConv(torch.nn.Module):
    r"""The layer of Morris et al. on arcs: own state and propagated state have weights of their own.

    .. math::
        \mathbf{H}' = \mathbf{H} \mathbf{W}_1 + \mathbf{U} \mathbf{H} \mathbf{W}_2 + \mathbf{b}

    Args:
        in_channels: Width of the arc states.
        out_channels: Width of the result.

    Shapes:
        - **input:** :math:`(A, F_{in})`
        - **output:** :math:`(A, F_{out})`
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_root = ArcLinear(in_channels, out_channels)
        self.lin = ArcLinear(in_channels, out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin_root.reset_parameters()
        self.lin.reset_parameters()

    def forward(self, h: Tensor | ArcFeatures, propagate: Propagation, act: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Transforms and propagates; ``act`` is the nonlinearity that follows, if any."""
        check_propagation(propagate, h)
        out = self.lin_root(input_of(self.lin_root, h)) + propagate(self.lin(input_of(self.lin, h)))
        return out if act is None else act(out)
