"""A-DGN, the anti-symmetric network."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import AntiSymmetricConv, GCNConv
from torch_geometric.nn.inits import reset

from gump.nn.arguments import check_counts, check_name
from gump.nn.normalized_adjacency import normalized_adjacency, propagate_by_rows

AGGREGATIONS = ("gcn", "sum")


class ADGN(torch.nn.Module):
    r"""A network whose layers neither amplify nor forget a vertex's own state (A-DGN, `Gravina et al., ICLR 2023
    <https://openreview.net/forum?id=J3Y7cgZOOS>`_).

    Vertices follow a differential equation, in steps of length :math:`\epsilon`:

    .. math::
        \mathbf{x}_v \leftarrow \mathbf{x}_v + \epsilon\, \sigma\left((\mathbf{W} - \mathbf{W}^{\top} - \gamma \mathbf{I})\, \mathbf{x}_v +
        \sum_{u} \hat{a}_{uv} \mathbf{V} \mathbf{x}_u + \mathbf{b}\right)

    The Jacobian of the field with respect to :math:`\mathbf{x}_v` is :math:`\mathrm{diag}(\sigma')(\mathbf{W} - \mathbf{W}^{\top} - \gamma
    \mathbf{I})`, whose eigenvalues have real parts between :math:`-\gamma \max \sigma'` and :math:`-\gamma \min \sigma'`: close to the
    imaginary axis. Nothing of the kind holds for what comes from neighbors. Self-loops in the graph, which would give
    :math:`\hat{a}_{vv} \neq 0`, break it; PyG's layer adds them by default, and its eigenvalues may have positive real parts.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of the states.
        num_layers: The number of steps.
        out_channels: Width of the result after a final linear map; by default there is none.
        epsilon: The length of a step.
        gamma: The strength of the damping.
        aggregation: ``"gcn"`` gathers from neighbors with the weights of a GCN, but without self-loops; ``"sum"`` with weight one, as the
            published layer does.
        shared: Whether all steps share their weights, as published.
        dropout: Probability of dropping an entry of the first and of the last state.
        act: The nonlinearity, by its name in torch; the theory wants one that grows.

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
        epsilon: float = 0.1,
        gamma: float = 0.1,
        aggregation: str = "gcn",
        shared: bool = True,
        dropout: float = 0.0,
        act: str = "tanh",
    ) -> None:
        super().__init__()
        check_name("aggregation", aggregation, AGGREGATIONS)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.epsilon, self.gamma, self.aggregation, self.shared = epsilon, gamma, aggregation, shared
        self.dropout = torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        self.convs = torch.nn.ModuleList(
            AntiSymmetricConv(
                hidden_channels,
                phi=_GCNConv(hidden_channels, hidden_channels, bias=False, normalize=False),
                num_iters=num_layers if shared else 1,
                epsilon=epsilon,
                gamma=gamma,
                act=act,
            )
            for _ in range(1 if shared else num_layers)
        )
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.convs, *(conv.act for conv in self.convs), self.lin):
            reset(module)
        for conv in self.convs.children():
            torch.nn.init.eye_(conv.get_buffer("eye"))  # which a model that was made without memory has none of

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
            mask: Which vertices are there. Not used: the others are padding, joined to nothing but each other, and there is no norm.
        """
        if self.aggregation == "gcn":
            edge_index, edge_weight = normalized_adjacency(edge_index, edge_weight, x.size(0), x.dtype, self_loops=False)
        elif edge_weight is not None:
            edge_weight = edge_weight.reshape(-1).to(x.dtype)
        x = self.dropout(self.encoder(x))
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight)
        x = self.dropout(x)
        return x if self.lin is None else self.lin(x)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, epsilon={self.epsilon}, gamma={self.gamma}, aggregation='{self.aggregation}', "
            f"shared={self.shared})"
        )


class _GCNConv(GCNConv):
    propagate = propagate_by_rows
