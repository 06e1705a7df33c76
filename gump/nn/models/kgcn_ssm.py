"""A linear recurrence that a graph convolution writes into."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_name
from gump.nn.models.drew_gcn import HopConv, Hops, delayed
from gump.nn.norm import NORMS, make_norm


class KGCNSSM(torch.nn.Module):
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
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        for argument, value in (("num_layers", num_layers), ("delay", delay), ("max_distance", max_distance)):
            if value is not None and value < 1:
                raise ValueError(f"'{argument}' must be at least 1 (got {value})")
        smallest, largest = eigenvalues
        if not -1 <= smallest <= largest <= 1:
            raise ValueError(f"'eigenvalues' must be the smallest and the largest, between -1 and 1 (got {tuple(eigenvalues)})")
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.input_scale = 1 / num_layers if input_scale is None else input_scale
        self.delay, self.max_distance, self.exact = delay, min(num_layers, max_distance or num_layers), exact
        self.share_weights, self.self_loops = share_weights, self_loops
        self.register_buffer("eigenvalues", torch.linspace(smallest, largest, hidden_channels))
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        last = [min(k + 1, self.max_distance) for k in range(num_layers)]
        self.convs = torch.nn.ModuleList(HopConv(hidden_channels, j if exact else 1, j, share_weights) for j in last)
        self.norms = torch.nn.ModuleList(make_norm(norm, hidden_channels) for _ in range(num_layers))
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights; the eigenvalues stay."""
        for module in (self.encoder, *self.convs, *self.norms, self.lin):
            if module is not None and not isinstance(module, torch.nn.Identity):
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        hop_index: Tensor | None = None,
        hop_distance: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: Not used; the pairs at distance one say the same.
            edge_weight: Not used.
            edge_attr: Not used.
            batch: Not used; no pair joins two graphs.
            hop_index: All ordered pairs of vertices at distance one to ``max_distance``, see :class:`gump.transforms.AddHops`. Messages
                go from the first row to the second. Pairs that are farther apart are ignored, pairs that are missing are not noticed.
            hop_distance: The distance of every pair.
        """
        hops = Hops.of(x, hop_index, hop_distance, self.max_distance, self.self_loops)
        states = [self.encoder(x)]
        for _ in range(self.num_layers):
            states.append(self.layer(states, hops))
        return states[-1] if self.lin is None else self.lin(states[-1])

    def layer(self, states: list[Tensor], hops: Hops) -> Tensor:
        r"""Computes :math:`\mathbf{H}^{(k+1)}` from :math:`\mathbf{H}^{(0)}, \dots, \mathbf{H}^{(k)}`."""
        k = len(states) - 1
        conv = self.convs[k]
        h = conv(delayed(states, conv.first, conv.last, self.delay), hops)  # type: ignore[arg-type]
        return states[-1] * self.eigenvalues + self.input_scale * self.dropout(self.act(self.norms[k](h)))

    def __repr__(self) -> str:
        smallest, largest = (round(float(value), 6) for value in (self.eigenvalues[0], self.eigenvalues[-1]))
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, eigenvalues=({smallest}, {largest}), input_scale={self.input_scale:g}, "
            f"delay={self.delay}, max_distance={self.max_distance}, exact={self.exact}, share_weights={self.share_weights}, "
            f"self_loops={self.self_loops})"
        )
