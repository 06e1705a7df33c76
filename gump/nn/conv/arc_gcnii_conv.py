"""The GCNII flavor."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gump.nn.arc_linear import ArcFeatures, ArcLinear, input_of
from gump.nn.arguments import check_counts
from gump.nn.propagation import Propagation, check_propagation


class ArcGCNIIConv(torch.nn.Module):
    r"""A convolution on arcs that mixes in the first states and stays near the identity, the layer of GCNII-GUMP (after `Chen et al., ICML 2020
    <https://arxiv.org/abs/2007.02133>`_).

    .. math::
        \mathbf{H}' = \left((1 - \alpha) \mathbf{U} \mathbf{H} + \alpha \mathbf{H}^{(1)}\right) \left((1 - \beta) \mathbf{I} + \beta
        \mathbf{W}\right), \quad \beta = \log(\theta / k + 1)

    Without weights (:math:`\theta = 0`) and nonlinearities, several times :math:`1 / \alpha` layers are the resolvent :math:`\alpha (\mathbf{I} -
    (1 - \alpha) \mathbf{U})^{-1} \mathbf{H}^{(1)}`. A unitary operator only turns what it is given; this sum over its powers keeps what they hardly
    turn and cancels the rest. Of states that are made of vertex features, that is under the Grover coin the slow variation which neighbors have in
    common: what smoothing is to a GCN, but by an amount that at such depths only :math:`\alpha` sets. It keeps circulations around cycles, too.

    What vertices read of a walk with the Grover coin are Chebyshev polynomials of the random walk :math:`\mathbf{P} = \mathbf{D}^{-1} \mathbf{A}`:
    the mean of :math:`\mathbf{U}^l \mathbf{H}` over the arcs that arrive is :math:`T_l(\mathbf{P}) \mathbf{X}` for :math:`\mathbf{h}_{(i, j)} =
    \mathbf{x}_j`, and :math:`T_{l - 1}(\mathbf{P}) \mathbf{X}` for :math:`\mathbf{h}_{(i, j)} = \mathbf{x}_i`. So the sum above is a filter that
    takes :math:`\cos \omega`, an eigenvalue of :math:`\mathbf{P}`, to :math:`\sum_l \alpha (1 - \alpha)^l \cos l \omega`, which is a half near
    :math:`\omega = \alpha`: :math:`s` steps keep what is slower than :math:`1 / s`, where :math:`s` averages keep what is slower than :math:`1 /
    \sqrt{s}`. ``GUMP(linear=True)`` computes it.

    Where the widths differ there is no identity to stay near, and the layer is :math:`\mathbf{U} \mathbf{H} \mathbf{W}`.

    Args:
        in_channels: Width of the arc states.
        out_channels: Width of the result.
        alpha: The share of the first states.
        theta: How far the weights of the layers are from the identity; they get nearer as :math:`1 / k`. With zero there are none where the widths
            are equal.
        layer: The number :math:`k`, which is 1 for the first layer that mixes in :math:`\mathbf{H}^{(1)}`.

    Shapes:
        - **input:** :math:`(A, F_{in})`
        - **first:** :math:`(A, F_{in})`
        - **output:** :math:`(A, F_{out})`
    """

    def __init__(self, in_channels: int, out_channels: int, alpha: float = 0.1, theta: float = 0.5, layer: int = 1) -> None:
        super().__init__()
        if not 0 <= alpha <= 1:
            raise ValueError(f"'alpha' must be a share between 0 and 1 (got {alpha})")
        if not (theta >= 0 and math.isfinite(theta)):
            raise ValueError(f"'theta' must be finite and not negative (got {theta})")
        check_counts(1, layer=layer)
        self.alpha, self.beta, self.has_identity = alpha, math.log(theta / layer + 1), in_channels == out_channels
        self.lin = ArcLinear(in_channels, out_channels, bias=False) if self.beta > 0 or not self.has_identity else None

    def reset_parameters(self) -> None:
        """Draws new weights, if there are any."""
        if self.lin is not None:
            self.lin.reset_parameters()

    def forward(
        self,
        h: Tensor | ArcFeatures,
        propagate: Propagation,
        act: Callable[[Tensor], Tensor] | None = None,
        first: Tensor | None = None,
    ) -> Tensor:
        """Propagates, mixes in ``first``, if there is such a thing yet, and transforms; ``act`` is the nonlinearity that follows, if any."""
        check_propagation(propagate, h)
        if self.lin is not None and not self.has_identity:
            out = propagate(self.lin(input_of(self.lin, h)))  # with which the weights commute
        else:
            mixed = propagate(h.dense() if isinstance(h, ArcFeatures) else h)
            out = mixed if first is None else torch.lerp(mixed, first.to(mixed.dtype), self.alpha)
            if self.lin is not None:
                out = torch.lerp(out, self.lin(out).to(out.dtype), self.beta)
        return out if act is None else act(out)
