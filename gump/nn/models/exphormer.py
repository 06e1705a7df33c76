"""A graph transformer whose attention is sparse: along edges, an expander and virtual nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset

from gump.nn.arguments import check_counts, check_name
from gump.nn.conv.exphormer_conv import ExphormerConv
from gump.nn.feed_forward import FeedForward
from gump.nn.models.gps import check_sizes, edge_features, local_arguments, local_conv
from gump.nn.norm import NORMS, make_norm


class Interaction(NamedTuple):
    """Who attends to whom: edges over the vertices and, numbered after them, the virtual nodes."""

    edge_index: Tensor
    edge_attr: Tensor
    edge_mask: Tensor | None


class Exphormer(torch.nn.Module):
    r"""A graph transformer whose attention costs as much as there are edges (`Shirzad et al., ICML 2023
    <https://arxiv.org/abs/2303.06147>`_).

    A vertex attends to its neighbors in the graph, to its neighbors in an expander (a sparse random graph of small diameter) and to
    virtual nodes, which are joined with all vertices of their graph. The layer is that of :class:`gump.nn.models.gps.GPS`,

    .. math::
        \mathbf{X}' = \mathrm{norm}(\mathbf{X} + \mathrm{conv}(\mathbf{X}, \mathbf{A}))
        + \mathrm{norm}(\mathbf{X} + \mathrm{attention}(\mathbf{X}, \mathbf{E})), \quad
        \mathbf{X}^{(k+1)} = \mathrm{norm}(\mathbf{X}' + \mathrm{MLP}(\mathbf{X}'))

    with the attention of :class:`gump.nn.conv.exphormer_conv.ExphormerConv`. The state of an edge, :math:`\mathbf{E}`, is a linear map of
    its attributes or, without such, learned; edges of the expander, edges to a virtual node and edges from it have learned states. A
    virtual node starts from a learned state and then is what it attended to.

    Attention is over a set of neighbors: an edge of the expander that is also in the graph counts once, as an edge of the graph (the
    public code counts both). Without expander and virtual nodes a signal moves one hop in a layer. The published results on Peptides are
    with virtual nodes and ``expander=False``.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of everything inside; a multiple of ``heads``.
        num_layers: The number of layers.
        out_channels: Width of the result after a final linear map; by default there is none and the result is ``hidden_channels`` wide.
        conv: The local layer: ``"gcn"`` (which multiplies with edge weights), ``"gin"``, ``"gine"``, ``"gated"`` or none.
        heads: The number of attention heads.
        expander: Whether to attend along ``expander_index``, which :class:`gump.transforms.AddExpander` puts on the data.
        num_virtual_nodes: How many virtual nodes every graph has.
        edge_dim: How many attributes every edge has. With zero they are not read.
        dropout: Probability of dropping an entry of what a layer adds.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **edge_attr:** :math:`(E, F_e)`
        - **expander_index:** :math:`(2, E')`
        - **output:** :math:`(N, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        conv: str | None = "gin",
        heads: int = 4,
        expander: bool = True,
        num_virtual_nodes: int = 1,
        edge_dim: int = 0,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "batch",
    ) -> None:
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        check_sizes(in_channels, hidden_channels, num_layers, out_channels, heads)
        check_counts(0, num_virtual_nodes=num_virtual_nodes)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.conv, self.heads, self.edge_dim = conv, heads, edge_dim
        self.expander, self.num_virtual_nodes = expander, num_virtual_nodes
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        settings: dict[str, Any] = {"edge_dim": edge_dim, "dropout": dropout, "act": act, "norm": norm}
        self.layers = torch.nn.ModuleList(_Layer(hidden_channels, conv, heads, **settings) for _ in range(num_layers))
        self.edge_encoder = torch.nn.Linear(edge_dim, hidden_channels) if edge_dim > 0 else torch.nn.Embedding(1, hidden_channels)
        self.expander_edge = torch.nn.Embedding(1, hidden_channels) if expander else None
        virtual = [torch.nn.Embedding(num_virtual_nodes, hidden_channels) if num_virtual_nodes > 0 else None for _ in range(3)]
        self.virtual_node, self.edge_to_virtual, self.edge_from_virtual = virtual
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        expander_index: Tensor | None = None,
        ptr: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, in both directions where the graph is undirected.
            edge_weight: Weights that ``conv="gcn"`` multiplies with; nothing else reads them.
            edge_attr: Attributes of the edges.
            batch: The graph of every vertex.
            expander_index: The edges of the expander.
            ptr: Where the graphs of the batch begin and the last one ends, which tells their number without asking the device.
        """
        interaction = self._interaction(x, edge_index, edge_attr, batch, expander_index)
        given = local_arguments(self.conv, self.edge_dim, x, edge_index, edge_weight, edge_attr)
        h = self.encoder(x)
        if self.virtual_node is not None:
            num_graphs = 1 if batch is None or batch.numel() == 0 else int(batch.max()) + 1 if ptr is None else ptr.numel() - 1
            virtual = self.virtual_node.weight.repeat(num_graphs, 1)
        else:
            virtual = h.new_empty(0, self.hidden_channels)
        for layer in self.layers:
            h, virtual = layer(h, virtual, interaction, given)
        return h if self.lin is None else self.lin(h)

    def _interaction(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor | None, expander_index: Tensor | None
    ) -> Interaction:
        """Joins the edges of the graph, of the expander and of the virtual nodes."""
        if self.edge_dim > 0:
            attr = self.edge_encoder(edge_features(edge_attr, self.edge_dim, x))
        else:
            attr = self.edge_encoder.weight.expand(edge_index.size(1), -1)
        indices, attrs, mask = [edge_index], [attr], None
        if self.expander_edge is not None:
            if expander_index is None:
                raise ValueError(
                    "'expander_index' must be given (got None); apply gump.transforms.AddExpander to the data or set expander=False"
                )
            indices.append(expander_index)
            attrs.append(self.expander_edge.weight.expand(expander_index.size(1), -1))
            mask = ~_listed(expander_index, edge_index, x.size(0))
        for index, attr in self._virtual_edges(x, batch):
            indices.append(index)
            attrs.append(attr)
        index = torch.cat(indices, dim=1)
        if mask is not None:
            ones = mask.new_ones(index.size(1))
            mask = torch.cat([ones[: edge_index.size(1)], mask, ones[edge_index.size(1) + mask.numel() :]])
        return Interaction(index, torch.cat(attrs), mask)

    def _virtual_edges(self, x: Tensor, batch: Tensor | None) -> list[tuple[Tensor, Tensor]]:
        """Joins every vertex with the virtual nodes of its graph, in both directions."""
        if self.edge_to_virtual is None or self.edge_from_virtual is None:
            return []
        num_nodes, num_virtual = x.size(0), self.num_virtual_nodes
        vertex = torch.arange(num_nodes, device=x.device)
        graph = torch.zeros_like(vertex) if batch is None else batch
        virtual = num_nodes + graph.unsqueeze(1) * num_virtual + torch.arange(num_virtual, device=x.device)
        vertex, virtual = vertex.repeat_interleave(num_virtual), virtual.flatten()
        to_virtual, from_virtual = (e.weight.repeat(num_nodes, 1) for e in (self.edge_to_virtual, self.edge_from_virtual))
        return [(torch.stack([vertex, virtual]), to_virtual), (torch.stack([virtual, vertex]), from_virtual)]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, conv={self.conv!r}, heads={self.heads}, expander={self.expander}, "
            f"num_virtual_nodes={self.num_virtual_nodes})"
        )


class _Layer(torch.nn.Module):
    """Local messages and sparse attention side by side, then an MLP; virtual nodes take part in the attention only."""

    def __init__(
        self, channels: int, conv: str | None, heads: int, edge_dim: int, dropout: float, act: str, norm: str | None
    ) -> None:
        super().__init__()
        self.conv = local_conv(conv, channels, edge_dim, act)
        self.attention = ExphormerConv(channels, heads)
        self.conv_norm = None if self.conv is None else make_norm(norm, channels)
        self.attention_norm, self.dropout = make_norm(norm, channels), torch.nn.Dropout(dropout)
        self.block = FeedForward(channels, dropout, act, norm)

    def forward(self, x: Tensor, virtual: Tensor, interaction: Interaction, given: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Computes new states of vertices and of virtual nodes."""
        attended, virtual = self.attention(torch.cat([x, virtual]), *interaction).split([x.size(0), virtual.size(0)])
        out = self.attention_norm(x + self.dropout(attended))
        if self.conv is not None and self.conv_norm is not None:
            out = out + self.conv_norm(x + self.dropout(self.conv(x, **given)))
        return self.block(out), virtual


def _listed(edges: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Tells which edges are in the graph, without asking the device how many."""
    if edge_index.size(1) == 0:
        return torch.zeros(edges.size(1), dtype=torch.bool, device=edges.device)
    known = (edge_index[0] * num_nodes + edge_index[1]).sort().values
    wanted = edges[0] * num_nodes + edges[1]
    return known[torch.searchsorted(known, wanted).clamp_max(known.numel() - 1)] == wanted
