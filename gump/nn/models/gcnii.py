"""GCNII, a GCN that remembers its input."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import GCN2Conv
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_counts, check_name
from gump.nn.norm import NORMS, make_norm
from gump.nn.normalized_adjacency import normalized_adjacency


class GCNII(torch.nn.Module):
    r"""A GCN that can be deep because every layer mixes in the first features (`Chen et al., ICML 2020 <https://arxiv.org/abs/2007.02133>`_).

    .. math::
        \mathbf{X}^{(k)} = \sigma\left(\mathrm{norm}\left(\left((1 - \alpha) \hat{\mathbf{A}} \mathbf{X}^{(k-1)} + \alpha
        \mathbf{X}^{(0)}\right) \left((1 - \beta_k) \mathbf{I} + \beta_k \mathbf{\Theta}_k\right)\right)\right), \quad
        \beta_k = \log(\theta / k + 1)

    with :math:`\mathbf{X}^{(0)} = \sigma(\mathbf{X} \mathbf{W} + \mathbf{b})`. Without weights (:math:`\theta = 0`) it is personalized PageRank:
    what is far away has, at any depth, the influence of a random walk that restarts with probability :math:`\alpha`.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of every layer.
        num_layers: The number of convolutions.
        out_channels: Width of the result after a final linear map; by default there is none.
        alpha: The share of the first features.
        theta: How far the weights of the layers are from the identity; they get nearer as :math:`1 / k`.
        shared_weights: Whether the propagated and the first features share their weights; if not, the model is GCNII*.
        dropout: Probability of dropping an entry of the vertex features and before and after each layer.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, the published choice.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(N, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        alpha: float = 0.1,
        theta: float = 0.5,
        shared_weights: bool = True,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = None,
    ) -> None:
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        if not 0 <= alpha <= 1:
            raise ValueError(f"'alpha' must be a share between 0 and 1 (got {alpha})")
        if theta < 0:
            raise ValueError(f"'theta' must not be negative (got {theta})")
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.alpha, self.theta = alpha, theta
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        self.convs = torch.nn.ModuleList(
            GCN2Conv(hidden_channels, alpha, theta, layer=k, shared_weights=shared_weights, normalize=False)
            for k in range(1, num_layers + 1)
        )
        self.norms = torch.nn.ModuleList(make_norm(norm, hidden_channels) for _ in range(num_layers))
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.convs, self.norms, self.act, self.lin):
            reset(module)

    def base_parameters(self) -> list[torch.nn.Parameter]:
        """The weights of the convolutions, to which the authors give a weight decay of their own (on Cora 0.01, the others 5e-4): a trainer's
        ``base_weight_decay``."""
        return list(self.convs.parameters())

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
            edge_index: The edges, those of an undirected graph in both directions.
            edge_weight: Weights of the edges.
            edge_attr: Not used.
            batch: Not used: a batch of graphs is one disconnected graph.
            mask: Which vertices are there; the others are padding, joined to nothing but each other, that norms leave out.
        """
        index, weight = normalized_adjacency(edge_index, edge_weight, x.size(0), x.dtype)
        x = first = self.act(self.encoder(self.dropout(x)))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = self.act(norm(conv(self.dropout(x), first, index, weight), mask))
        x = self.dropout(x)
        return x if self.lin is None else self.lin(x)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, alpha={self.alpha}, theta={self.theta})"
        )
