"""Local messages and global attention, side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GINConv, GINEConv, GPSConv, ResGatedGraphConv
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.nn.attention.performer import generalized_kernel, linear_attention
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_counts, check_name
from gump.nn.norm import NORMS
from gump.nn.normalized_adjacency import normalized_adjacency

LOCAL = {"gcn": GCNConv, "gin": GINConv, "gine": GINEConv, "gated": ResGatedGraphConv}
"""The layers that pass messages along edges, by name."""
READ_EDGE_ATTR = ("gine", "gated")
"""Those of them that can use edge attributes."""
ATTENTIONS = ("multihead", "performer")


class GPS(torch.nn.Module):
    r"""A graph transformer in which vertices hear their neighbors and, through attention, all vertices of their graph (`Rampášek et al.,
    NeurIPS 2022 <https://arxiv.org/abs/2205.12454>`_).

    .. math::
        \mathbf{X}' = \mathrm{norm}(\mathbf{X} + \mathrm{conv}(\mathbf{X}, \mathbf{A}))
        + \mathrm{norm}(\mathbf{X} + \mathrm{attention}(\mathbf{X})), \quad
        \mathbf{X}^{(k+1)} = \mathrm{norm}(\mathbf{X}' + \mathrm{MLP}(\mathbf{X}'))

    The layer is PyG's :class:`torch_geometric.nn.GPSConv`. Attention does not see the graph: what tells vertices apart must be in ``x``,
    to which PyG's ``AddRandomWalkPE`` and ``AddLaplacianEigenvectorPE`` append encodings. Edge attributes are read and not updated, other
    than in the published model on Peptides. Attention is computed in one dense batch, padded to the largest graph, whose size has to be
    asked from the device; ``"multihead"`` needs memory quadratic in it.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of everything inside; a multiple of ``heads``.
        num_layers: The number of layers.
        out_channels: Width of the result after a final linear map; by default there is none and the result is ``hidden_channels`` wide.
        conv: The local layer: ``"gcn"`` (which multiplies with edge weights), ``"gin"``, ``"gine"``, ``"gated"`` or none.
        heads: The number of attention heads.
        attention: ``"multihead"`` or, linear in the number of vertices, ``"performer"``, which with two channels for each head has a single random
            feature and says the same to all vertices of a graph.
        edge_dim: How many attributes every edge has; ``"gine"`` needs them, ``"gated"`` can use them, the others must have zero.
        dropout: Probability of dropping an entry of what a layer adds.
        attention_dropout: The same inside the attention.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **edge_attr:** :math:`(E, F_e)`
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
        attention: str = "multihead",
        edge_dim: int = 0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "batch",
    ) -> None:
        super().__init__()
        check_name("conv", conv, LOCAL, optional=True)
        check_name("attention", attention, ATTENTIONS)
        check_name("norm", norm, NORMS, optional=True)
        check_sizes(in_channels, hidden_channels, num_layers, out_channels, heads)
        if edge_dim > 0 and conv not in READ_EDGE_ATTR:
            raise ValueError(
                f"'edge_dim' must be 0 for conv={conv!r}, which does not read edge attributes (got {edge_dim}); take conv='gine' or conv='gated'"
            )
        if attention == "performer" and hidden_channels < 2 * heads:
            raise ValueError(
                f"'hidden_channels' must be at least twice 'heads' for a performer (got {hidden_channels} for {heads} heads)"
            )
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.conv, self.heads, self.attention, self.edge_dim = conv, heads, attention, edge_dim
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        settings: dict[str, Any] = {"heads": heads, "dropout": dropout, "act": act, "attn_type": attention}
        settings |= {"norm": None} if norm is None else NORMS[norm]
        settings["attn_kwargs"] = {"dropout": attention_dropout}
        self.layers = torch.nn.ModuleList()
        for _ in range(num_layers):
            layer = GPSConv(hidden_channels, local_conv(conv, hidden_channels, edge_dim, act), **settings)
            if attention == "performer":
                layer.attn = _Performer(hidden_channels, heads, hidden_channels // heads, dropout=attention_dropout)
            if conv is None:
                layer.norm1 = None  # that of the local layer
            self.layers.append(layer)
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.encoder.reset_parameters()
        for layer in self.layers:
            reset(getattr(layer.attn, "out_proj", None))  # which the layer leaves as it is
            reset(layer)
        if self.lin is not None:
            self.lin.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, in both directions where the graph is undirected.
            edge_weight: Weights that ``conv="gcn"`` multiplies with; the others do not read them.
            edge_attr: Attributes of the edges.
            batch: The graph of every vertex, in ascending order.
        """
        given = local_arguments(self.conv, self.edge_dim, x, edge_index, edge_weight, edge_attr)
        x = self.encoder(x)
        for layer in self.layers if x.size(0) else ():  # which cannot lay no vertices out for attention
            x = layer(x, batch=batch, **given)
        return x if self.lin is None else self.lin(x)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, conv={self.conv!r}, heads={self.heads}, attention='{self.attention}')"
        )


class _Performer(PerformerAttention):
    """PyG's, which in a batch also divides by the keys of the padding; here a graph's result does not depend on its company."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attends within every graph of a dense batch."""
        q, k, v = (lin(x).unflatten(-1, (self.heads, self.head_channels)).transpose(1, 2) for lin in (self.q, self.k, self.v))
        q, k = (generalized_kernel(t, self.fast_attn.projection_matrix, self.kernel) for t in (q, k))
        if mask is not None:
            counted = mask | ~mask.any(1, keepdim=True)  # all of a graph without vertices, to divide by something
            k = k * counted[:, None, :, None].to(k.dtype)
        return self.dropout(self.attn_out(linear_attention(q, k, v).transpose(1, 2).flatten(2)))


def local_conv(name: str | None, channels: int, edge_dim: int, act: str) -> MessagePassing | None:
    """Builds the layer that passes messages along edges; none if there is no name."""
    check_name("conv", name, LOCAL, optional=True)
    check_counts(0, edge_dim=edge_dim)
    if name == "gine" and edge_dim == 0:
        raise ValueError("'edge_dim' must be at least 1 for conv='gine' (got 0); without edge attributes take conv='gin'")
    if name is None:
        return None
    if name == "gcn":
        return GCNConv(channels, channels, normalize=False)  # which is done once for all layers
    if name == "gated":
        return ResGatedGraphConv(channels, channels, edge_dim=edge_dim or None)
    mlp = torch.nn.Sequential(torch.nn.Linear(channels, channels), activation_resolver(act), torch.nn.Linear(channels, channels))
    return GINConv(mlp) if name == "gin" else GINEConv(mlp, edge_dim=edge_dim)


def local_arguments(
    name: str | None, edge_dim: int, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, edge_attr: Tensor | None
) -> dict[str, Tensor]:
    """Returns what the layer of that name takes besides features: edges, and weights or attributes if it reads them."""
    if name == "gcn":
        edge_index, edge_weight = normalized_adjacency(edge_index, edge_weight, x.size(0), x.dtype)
        return {"edge_index": edge_index, "edge_weight": edge_weight}
    if name in READ_EDGE_ATTR and edge_dim > 0:
        return {"edge_index": edge_index, "edge_attr": edge_features(edge_attr, edge_dim, x)}
    return {"edge_index": edge_index}


def edge_features(edge_attr: Tensor | None, edge_dim: int, x: Tensor) -> Tensor:
    """Returns edge attributes as a matrix in the precision of ``x``; refuses other than ``edge_dim`` columns."""
    if edge_attr is None:
        raise ValueError(
            f"'edge_attr' must be given to a model with edge_dim={edge_dim} (got None); set edge_dim=0 if there is none"
        )
    edge_attr = edge_attr.unsqueeze(-1) if edge_attr.dim() == 1 else edge_attr
    if edge_attr.size(-1) != edge_dim:
        raise ValueError(f"'edge_attr' must have 'edge_dim' columns, {edge_dim} (got {edge_attr.size(-1)})")
    return edge_attr.to(x.dtype)


def check_sizes(in_channels: int, hidden_channels: int, num_layers: int, out_channels: int | None, heads: int) -> None:
    """Refuses sizes of which no transformer can be made."""
    check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
    check_counts(1, heads=heads)
    if hidden_channels % heads != 0:
        raise ValueError(f"'hidden_channels' must be a multiple of 'heads', {heads} (got {hidden_channels})")
