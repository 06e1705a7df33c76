"""G-MLPMixer: MLPs over the patches of a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from gump.nn.arguments import check_counts
from gump.nn.patch_encoder import Patches
from gump.nn.patch_network import PatchNetwork


class GraphMLPMixer(PatchNetwork):
    r"""G-MLPMixer: patches of a graph are tokens, and an MLP mixes them (`A Generalization of ViT/MLP-Mixer to Graphs
    <https://arxiv.org/abs/2212.13350>`_).

    :class:`gump.nn.patch_encoder.PatchEncoder` makes the tokens :math:`\mathbf{Z} \in \mathbb{R}^{P \times d}`. Every layer mixes over
    patches, then over channels,

    .. math::
        \mathbf{Z} &\leftarrow \mathbf{Z} + \left( \mathbf{W}_2 \, \mathrm{GELU}(\mathbf{W}_1 \mathrm{LN}(\mathbf{Z})) \right), \\
        \mathbf{Z} &\leftarrow \mathbf{Z} + \mathrm{GELU}(\mathrm{LN}(\mathbf{Z}) \mathbf{W}_3) \mathbf{W}_4,

    with :math:`4d` units inside the first MLP and :math:`d/2` inside the second, and the mean of :math:`\mathrm{LN}(\mathbf{Z})` over
    patches is the graph's row. Two vertices that share no patch meet in the first layer, whatever their distance: but only as parts of
    their patches' means.

    The result depends on the order of the patches, since :math:`\mathbf{W}_1` has a column for each; other partitions, and other numbers
    of the vertices, which decide on ties in partitioning, give other results. Use :class:`gump.nn.models.graph_vit.GraphViT` where that
    matters. Empty patches add nothing to the first MLP nor to the mean (in the authors' code they enter the MLP with what their bias
    makes of them).

    Args:
        in_channels: Width of the vertex features, positional encodings of vertices included.
        hidden_channels: The width :math:`d` of everything inside.
        num_layers: The number of mixer layers.
        out_channels: Width of the result after a final linear map; by default there is none and the result is :math:`d` wide.
        num_patches: The number of patches :math:`P`, that of :class:`gump.transforms.AddPatches`.
        num_patch_layers: The number of GNN layers in the patches.
        patch_pe_dim: Width of the patches' positional encodings, ``walk_length`` of :class:`gump.transforms.AddPatches`.
        edge_dim: How many attributes every edge has; edge weights count as one where ``edge_attr`` leaves room for it.
        exchange: Whether the states of a vertex in different patches are averaged between GNN layers.
        dropout: Probability of dropping an input of any linear map in the mixer layers.
        patch_dropout: The same for the states of vertices after GNN layers.
        act: The nonlinearity of the GNN, by its name in torch.
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
        num_patches: int = 32,
        num_patch_layers: int = 4,
        patch_pe_dim: int = 8,
        edge_dim: int = 0,
        exchange: bool = False,
        dropout: float = 0.0,
        patch_dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "batch",
    ) -> None:
        check_counts(1, num_patches=num_patches)
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
        self.num_patches = num_patches
        self.layers = torch.nn.ModuleList(_MixerLayer(hidden_channels, num_patches, dropout) for _ in range(num_layers))
        self.norm = torch.nn.LayerNorm(hidden_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        super().reset_parameters()
        self.norm.reset_parameters()

    def mix(self, tokens: Tensor, has_vertices: Tensor, patches: Patches) -> Tensor:
        """Applies the MLPs, then the last norm."""
        if tokens.size(1) != self.num_patches:
            raise ValueError(f"'num_patches' must be that of gump.transforms.AddPatches, {tokens.size(1)} (got {self.num_patches})")
        for layer in self.layers:
            tokens = layer(tokens, has_vertices)
        return self.norm(tokens)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_patches={self.num_patches}, num_patch_layers={self.num_patch_layers})"
        )


class _MixerLayer(torch.nn.Module):
    """One MLP over patches and one over channels, both with a norm before and a residual around them."""

    def __init__(self, channels: int, num_patches: int, dropout: float) -> None:
        super().__init__()
        self.patch_norm, self.channel_norm = torch.nn.LayerNorm(channels), torch.nn.LayerNorm(channels)
        self.patch_mlp = _mlp(num_patches, 4 * channels, dropout)
        self.channel_mlp = _mlp(channels, max(channels // 2, 1), dropout)

    def reset_parameters(self) -> None:
        for module in (self.patch_norm, self.channel_norm, *self.patch_mlp, *self.channel_mlp):
            if isinstance(module, torch.nn.Linear | torch.nn.LayerNorm):
                module.reset_parameters()

    def forward(self, tokens: Tensor, has_vertices: Tensor) -> Tensor:
        normed = self.patch_norm(tokens) * has_vertices.unsqueeze(-1)
        tokens = tokens + self.patch_mlp(normed.mT).mT
        return tokens + self.channel_mlp(self.channel_norm(tokens))


def _mlp(channels: int, hidden_channels: int, dropout: float) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Dropout(dropout),
        torch.nn.Linear(channels, hidden_channels),
        torch.nn.GELU(),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(hidden_channels, channels),
    )
