"""A linear recurrence that a graph convolution writes into."""

from __future__ import annotations

import torch
from torch import Tensor

from gump.nn.hop_network import HopNetwork, Hops


class KGCNSSM(HopNetwork):
    r"""A graph network as a state-space model: a fixed linear map keeps the state, convolutions only write into it (`Arroyo et al., 2025
    <https://arxiv.org/abs/2502.10818>`_).

    .. math::
        \mathbf{H}^{(k+1)} = \mathbf{H}^{(k)} \boldsymbol{\Lambda} + \beta F_k(\mathbf{H}^{(k)}), \quad
        F_k(\mathbf{H}) = \sigma\Big(\sum_{j=1}^{k+1} \hat{\mathbf{A}}_j \mathbf{H} \mathbf{W}_{j,k} + \mathbf{b}_k\Big)

    :math:`\boldsymbol{\Lambda}` is diagonal, has its eigenvalues near one (the edge of stability) and is not trained, nor is
    :math:`\mathbf{B} = \beta \mathbf{I}`. So the Jacobian of a layer is :math:`\boldsymbol{\Lambda}` plus something small, and gradients
    neither vanish nor explode with depth, whatever the graph. :math:`\hat{\mathbf{A}}_j` joins vertices at distance exactly :math:`j`, as in
    :class:`~gump.nn.models.drew_gcn.DRewGCN`.

    This is our reading, there is no public code. From what is publicly said about the paper we take: the recurrence
    :math:`\boldsymbol{\Lambda}\mathbf{H} + \mathbf{B}F(\mathbf{H})`, the names "GCN-SSM", "eig(Λ) ≈ 1" and "k-hop" of its variants, and that it
    has no more trainable parameters than the network inside. Ours are: equally spaced eigenvalues, :math:`\beta = 1/L`, the normalization of
    :math:`\hat{\mathbf{A}}_j`, the nonlinearity inside :math:`F`, and that layer :math:`k` sees all distances up to :math:`k + 1`. In `gLSTM
    <https://openreview.net/forum?id=c4mXEOXlAL>`_, which builds on it, a layer sees distance :math:`k + 1` alone: that is ``exact=True``.
    GCN-SSM is ``max_distance=1``.

    Edge weights and attributes are not used. With eigenvalues near one nothing is forgotten: a signal that should leave a state has to be
    written over it.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of the state.
        num_layers: The number of layers :math:`L`.
        out_channels: Width of the result after a final linear map; by default there is none.
        eigenvalues: The smallest and the largest entry of :math:`\boldsymbol{\Lambda}`; the others are equally spaced.
        input_scale: The factor :math:`\beta`; by default :math:`1/L`.
        delay: :math:`\nu` of :class:`~gump.nn.models.drew_gcn.DRewGCN`: distance :math:`j` reads the state of :math:`\max(j - \nu, 0)` layers
            ago. None is no delay.
        max_distance: A bound on the distances that are used, by default ``num_layers``.
        exact: Whether layer :math:`k` sees distance :math:`k + 1` alone, or ``max_distance`` if that is less.
        share_weights: Whether the distances of one layer share one weight matrix.
        self_loops: Whether every :math:`\hat{\mathbf{A}}_j` is that of the graph with self-loops.
        dropout: Probability of dropping an entry of what a layer writes.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, applied before the nonlinearity.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **hop_index:** :math:`(2, P)`
        - **hop_distance:** :math:`(P)`
        - **output:** :math:`(N, F_{out})` or :math:`(N, F_{hidden})`
    """

    eigenvalues: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        eigenvalues: tuple[float, float] = (0.99, 1.0),
        input_scale: float | None = None,
        delay: int | None = None,
        max_distance: int | None = None,
        exact: bool = False,
        share_weights: bool = False,
        self_loops: bool = False,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = None,
    ) -> None:
        smallest, largest = eigenvalues
        if not -1 <= smallest <= largest <= 1:
            raise ValueError(f"'eigenvalues' must be the smallest and the largest, between -1 and 1 (got {tuple(eigenvalues)})")
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            delay,
            max_distance,
            exact=exact,
            share_weights=share_weights,
            self_loops=self_loops,
            dropout=dropout,
            act=act,
            norm=norm,
        )
        self.input_scale = 1 / num_layers if input_scale is None else input_scale
        self.register_buffer("eigenvalues", torch.empty(hidden_channels))
        self._ends = smallest, largest
        self._spread_eigenvalues()

    def reset_parameters(self) -> None:
        """Draws new weights, and spreads the eigenvalues anew, which a model that was made without memory has none of."""
        super().reset_parameters()
        if hasattr(self, "eigenvalues"):  # it is called while there are none, too
            self._spread_eigenvalues()

    def _spread_eigenvalues(self) -> None:
        self.eigenvalues.copy_(torch.linspace(*self._ends, self.hidden_channels))

    def layer(self, states: list[Tensor], hops: Hops) -> Tensor:
        r"""Computes :math:`\mathbf{H}^{(k+1)}` from :math:`\mathbf{H}^{(0)}, \dots, \mathbf{H}^{(k)}`."""
        return states[-1] * self.eigenvalues + self.input_scale * self.message(states, hops)

    def __repr__(self) -> str:
        smallest, largest = (round(float(value), 6) for value in (self.eigenvalues[0], self.eigenvalues[-1]))
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, eigenvalues=({smallest}, {largest}), input_scale={self.input_scale:g}, "
            f"delay={self.delay}, max_distance={self.max_distance}, exact={self.exact}, share_weights={self.share_weights}, "
            f"self_loops={self.self_loops})"
        )
