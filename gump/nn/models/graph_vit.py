"""Graph ViT: attention among the patches of a graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_counts, check_name
from gump.nn.patch_encoder import Patches
from gump.nn.patch_network import PatchNetwork

ATTENTIONS = ("hadamard", "standard")


class GraphViT(PatchNetwork):
    r"""Graph ViT: patches of a graph are tokens, and attention mixes them (`A Generalization of ViT/MLP-Mixer to Graphs
    <https://arxiv.org/abs/2212.13350>`_).

    :class:`gump.nn.patch_encoder.PatchEncoder` makes the tokens :math:`\mathbf{Z} \in \mathbb{R}^{P \times d}`. Every layer is

    .. math::
        \mathbf{Z} &\leftarrow \mathbf{Z} + \left( \mathbf{A}^P \odot \mathrm{softmax}(\mathbf{Q} \mathbf{K}^{\top} / \sqrt{d_h}) \right)
        \mathbf{V} \mathbf{W}_O, \\
        \mathbf{Z} &\leftarrow \mathbf{Z} + \sigma(\mathrm{LN}(\mathbf{Z}) \mathbf{W}_1) \mathbf{W}_2

    with queries, keys and values of :math:`\mathrm{LN}(\mathbf{Z})` in several heads, :math:`2d` units inside the MLP and
    :math:`A^P_{pq}` the number of vertices that two patches share. The mean of :math:`\mathbf{Z}` over patches is the graph's row.

    The softmax is over all patches that have vertices; the product with :math:`\mathbf{A}^P` follows it. So the weights of a patch do not
    sum to one, and in one layer it takes values only from patches that overlap with it; the others are felt in the softmax's denominator.
    ``attention="standard"`` leaves :math:`\mathbf{A}^P` away, and values come from all. The result does not depend on the order of the
    patches. It does depend on the partition.

    Args:
        in_channels: Width of the vertex features, positional encodings of vertices included.
        hidden_channels: The width :math:`d` of everything inside, a multiple of ``heads``.
        num_layers: The number of attention layers.
        out_channels: Width of the result after a final linear map; by default there is none and the result is :math:`d` wide.
        heads: The number of heads.
        attention: ``"hadamard"`` or ``"standard"``.
        num_patch_layers: The number of GNN layers in the patches.
        patch_pe_dim: Width of the patches' positional encodings, ``walk_length`` of :class:`gump.transforms.AddPatches`.
        edge_dim: How many attributes every edge has; edge weights count as one where ``edge_attr`` leaves room for it.
        exchange: Whether the states of a vertex in different patches are averaged between GNN layers.
        dropout: Probability of dropping an entry of the attention, inside the MLP and of what layers add.
        patch_dropout: The same for the states of vertices after GNN layers.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, in the GNN.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **output:** :math:`(B, F_{out})`, one row for every graph
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        heads: int = 8,
        attention: str = "hadamard",
        num_patch_layers: int = 4,
        patch_pe_dim: int = 8,
        edge_dim: int = 0,
        exchange: bool = False,
        dropout: float = 0.0,
        patch_dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "batch",
    ) -> None:
        check_name("attention", attention, ATTENTIONS)
        check_counts(1, hidden_channels=hidden_channels, heads=heads)
        if hidden_channels % heads != 0:
            raise ValueError(f"'hidden_channels' must be a multiple of 'heads' = {heads} (got {hidden_channels})")
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            num_patch_layers,
            patch_pe_dim,
            edge_dim,
            exchange,
            patch_dropout,
            act,
            norm,
        )
        self.heads, self.attention = heads, attention
        self.layers = torch.nn.ModuleList(_AttentionLayer(hidden_channels, heads, dropout, act) for _ in range(num_layers))

    def mix(self, tokens: Tensor, has_vertices: Tensor, patches: Patches) -> Tensor:
        """Lets patches attend to each other."""
        weight = None
        if self.attention == "hadamard" and patches.patch_adjacency is not None:
            weight = patches.patch_adjacency.to(tokens.dtype).unsqueeze(1)  # [B, 1, P, P]
        for layer in self.layers:
            tokens = layer(tokens, has_vertices, weight)
        return tokens

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, heads={self.heads}, attention='{self.attention}', "
            f"num_patch_layers={self.num_patch_layers})"
        )


class _AttentionLayer(torch.nn.Module):
    """Attention and an MLP, both with a norm before and a residual around them."""

    def __init__(self, channels: int, heads: int, dropout: float, act: str) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = torch.nn.LayerNorm(channels), torch.nn.LayerNorm(channels)
        self.query_key_value, self.out = torch.nn.Linear(channels, 3 * channels), torch.nn.Linear(channels, channels)
        self.lin1, self.lin2 = torch.nn.Linear(channels, 2 * channels), torch.nn.Linear(2 * channels, channels)
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        for module in (self.attention_norm, self.mlp_norm, self.query_key_value, self.out, self.lin1, self.act, self.lin2):
            reset(module)

    def forward(self, tokens: Tensor, has_vertices: Tensor, weight: Tensor | None) -> Tensor:
        split = self.query_key_value(self.attention_norm(tokens)).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)  # [B, heads, P, d / heads] each
        scores = query @ key.mT / key.size(-1) ** 0.5
        scores = scores.masked_fill(~has_vertices[:, None, None, :], torch.finfo(scores.dtype).min)
        attention = scores.softmax(-1)
        attention = self.dropout(attention if weight is None else weight * attention)
        tokens = tokens + self.dropout(self.out((attention @ value).transpose(1, 2).flatten(2)))
        hidden = self.dropout(self.act(self.lin1(self.mlp_norm(tokens))))
        return tokens + self.dropout(self.lin2(hidden))
