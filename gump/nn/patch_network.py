"""Networks that read a graph by its patches."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from gump.nn.arguments import check_counts
from gump.nn.patch_encoder import PatchEncoder, Patches, mean_over_patches


class PatchNetwork(torch.nn.Module, ABC):
    """Turns the patches of a graph into tokens, mixes the tokens, and averages them into one row for every graph.

    How tokens are mixed is for a subclass to say, with its ``layers``.

    Args:
        in_channels: Width of the vertex features, positional encodings of vertices included.
        hidden_channels: Width of everything inside.
        num_layers: The number of layers that mix tokens.
        out_channels: Width of the result after a final linear map; by default there is none.
        num_patch_layers: The number of GNN layers in the patches.
        patch_pe_dim: Width of the patches' positional encodings.
        edge_dim: How many attributes every edge has.
        exchange: Whether the states of a vertex in different patches are averaged between GNN layers.
        patch_dropout: Probability of dropping an entry of the states of vertices after GNN layers.
        act: The nonlinearity of the GNN, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, in the GNN.
    """

    pools = True
    layers: torch.nn.ModuleList

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None,
        num_patch_layers: int,
        patch_pe_dim: int,
        edge_dim: int,
        exchange: bool,
        patch_dropout: float,
        act: str,
        norm: str | None,
    ) -> None:
        super().__init__()
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        check_counts(1, num_patch_layers=num_patch_layers)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.num_patch_layers, self.edge_dim = num_patch_layers, edge_dim
        self.encoder = PatchEncoder(
            in_channels, hidden_channels, num_patch_layers, patch_pe_dim, edge_dim, exchange, patch_dropout, act, norm
        )
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, *self.layers, self.lin):
            if module is not None:
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        patch_index: Tensor | None = None,
        num_patch_vertices: Tensor | None = None,
        patch_edge: Tensor | None = None,
        patch_edge_column: Tensor | None = None,
        num_patch_edges: Tensor | None = None,
        patch_adjacency: Tensor | None = None,
        patch_pe: Tensor | None = None,
    ) -> Tensor:
        """Computes one row for every graph from what :class:`gump.transforms.AddPatches` put on the graphs, which also tells them apart."""
        patches = Patches(
            patch_index, num_patch_vertices, patch_edge, patch_edge_column, num_patch_edges, patch_adjacency, patch_pe
        )
        tokens, has_vertices = self.encoder(x, edge_index, edge_weight, edge_attr, patches)
        out = mean_over_patches(self.mix(tokens, has_vertices, patches), has_vertices)
        return out if self.lin is None else self.lin(out)

    @abstractmethod
    def mix(self, tokens: Tensor, has_vertices: Tensor, patches: Patches) -> Tensor:
        """Computes new tokens, whose mean over the patches that have vertices is the graph's row."""
