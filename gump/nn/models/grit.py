"""A graph transformer that knows the graph from random walks between pairs of vertices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gump.nn.arguments import check_counts, check_name
from gump.nn.conv.grit_conv import GRITConv
from gump.nn.models.gps import check_sizes, edge_features
from gump.nn.norm import NORMS


class GRIT(torch.nn.Module):
    r"""Graph Inductive bias Transformer, which attends to all pairs of vertices and passes no messages along edges (`Ma et al., ICML 2023
    <https://arxiv.org/abs/2305.17589>`_).

    Every pair of vertices has a state, which starts from its relative random walk probabilities and, if there is an edge from the source
    to the target, from its attributes:

    .. math::
        \mathbf{x}_i = \mathbf{W}_X \mathbf{x}^{in}_i + \mathbf{W}_P \mathbf{P}_{ii} + \mathbf{b}, \quad
        \mathbf{e}_{ij} = \mathbf{W}_R \mathbf{P}_{ij} + \sum_{k : j \to i} (\mathbf{W}_E \mathbf{a}_k + \mathbf{b}_E)

    and layers update both, see :class:`gump.nn.conv.grit_conv.GRITConv`. Needs :class:`gump.transforms.AddRRWP` on the data. Memory
    and time grow with the square of the number of vertices; a graph of thousands of vertices is out of reach.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of everything inside; a multiple of ``heads``.
        num_layers: The number of layers.
        out_channels: Width of the result after a final linear map; by default there is none and the result is ``hidden_channels`` wide.
        num_steps: The number of powers that :class:`gump.transforms.AddRRWP` computed.
        heads: The number of attention heads.
        edge_dim: How many attributes every edge has. With zero they are not read.
        dropout: Probability of dropping an entry of what is added to a state.
        attention_dropout: Probability of dropping an attention weight.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_attr:** :math:`(E, F_e)`
        - **pair_index:** :math:`(2, P)`
        - **pair_attr:** :math:`(P, K)`
        - **output:** :math:`(N, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        num_steps: int = 17,
        heads: int = 4,
        edge_dim: int = 0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "batch",
    ) -> None:
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        check_sizes(in_channels, hidden_channels, num_layers, out_channels, heads)
        check_counts(1, num_steps=num_steps)
        check_counts(0, edge_dim=edge_dim)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.num_steps, self.heads, self.edge_dim = num_steps, heads, edge_dim
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        self.lin_self = torch.nn.Linear(num_steps, hidden_channels, bias=False)
        self.lin_pair = torch.nn.Linear(num_steps, hidden_channels, bias=False)
        self.lin_edge = torch.nn.Linear(edge_dim, hidden_channels) if edge_dim > 0 else None
        settings: dict[str, Any] = {"dropout": dropout, "attention_dropout": attention_dropout, "act": act}
        settings |= {"norm": None} if norm is None else NORMS[norm]
        self.convs = torch.nn.ModuleList(
            GRITConv(hidden_channels, heads, **settings, update_pairs=k < num_layers - 1) for k in range(num_layers)
        )
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.lin_self, self.lin_pair, self.lin_edge, *self.convs, self.lin):
            if module is not None:
                module.reset_parameters()
        for lin in (self.lin_self, self.lin_pair):
            torch.nn.init.xavier_uniform_(lin.weight)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        pair_index: Tensor | None = None,
        pair_attr: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, in both directions where the graph is undirected. Of them come degrees and places of attributes.
            edge_weight: Not read here; :class:`gump.transforms.AddRRWP` walks by them.
            edge_attr: Attributes of the edges.
            batch: Not needed, since pairs lie within graphs.
            pair_index: All pairs of vertices of a graph, in the order of :class:`gump.transforms.AddRRWP`.
            pair_attr: Their random walk probabilities.
        """
        pair_index, pair_attr = self._pairs(x, batch, pair_index, pair_attr)
        num_nodes, degree = x.size(0), _degree(edge_index, x.size(0))
        vertex = torch.arange(num_nodes, device=x.device).expand(2, -1)
        walks = pair_attr.index_select(0, _position(pair_index, vertex, num_nodes))
        h = self.encoder(x) + self.lin_self(walks)
        e = self.lin_pair(pair_attr)
        if self.lin_edge is not None:
            attr = self.lin_edge(edge_features(edge_attr, self.edge_dim, x))
            e = e.index_add(0, _position(pair_index, edge_index, num_nodes), attr)
        for conv in self.convs:
            h, e = conv(h, pair_index, e, degree)
        return h if self.lin is None else self.lin(h)

    def _pairs(self, x: Tensor, batch: Tensor | None, pair_index: Tensor | None, pair_attr: Tensor | None) -> tuple[Tensor, Tensor]:
        """Refuses pairs that are missing or of another graph."""
        if pair_index is None or pair_attr is None:
            raise ValueError(
                f"'pair_index' and 'pair_attr' must be given (got None); apply gump.transforms.AddRRWP({self.num_steps}) to the data"
            )
        if pair_attr.dim() != 2 or pair_attr.size(1) != self.num_steps:
            raise ValueError(
                f"'pair_attr' must have 'num_steps' columns, {self.num_steps} (got shape {list(pair_attr.shape)}); "
                f"apply gump.transforms.AddRRWP({self.num_steps}) or set num_steps"
            )
        if pair_attr.size(0) != pair_index.size(1) or (batch is None and pair_index.size(1) != x.size(0) ** 2):
            raise ValueError(
                f"'pair_index' and 'pair_attr' must list all pairs of the {x.size(0)} vertices (got {pair_index.size(1)} columns and "
                f"{pair_attr.size(0)} rows); apply gump.transforms.AddRRWP last and, for several graphs, pass 'batch'"
            )
        return pair_index, pair_attr.to(x.dtype)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_steps={self.num_steps}, heads={self.heads})"
        )


def _position(pair_index: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Finds pairs among all pairs, which are sorted by target and then by source, within graphs and so within a batch."""
    (source, target), (j, i) = pair_index, pairs
    return torch.searchsorted(target * num_nodes + source, i * num_nodes + j)


def _degree(edge_index: Tensor, num_nodes: int) -> Tensor:
    return edge_index.new_zeros(num_nodes).index_add(0, edge_index[1], torch.ones_like(edge_index[1]))
