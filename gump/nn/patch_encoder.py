"""From patches of vertices to tokens: what Graph ViT and G-MLPMixer have in common."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import MLP, GINConv, GINEConv
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import scatter

from gump.nn.arguments import check_counts, check_name
from gump.nn.norm import NORMS, make_norm


class Patches(NamedTuple):
    """What :class:`gump.transforms.AddPatches` puts on a graph, under the same names, batched or not."""

    patch_index: Tensor | None
    num_patch_vertices: Tensor | None
    patch_edge: Tensor | None
    patch_edge_column: Tensor | None
    num_patch_edges: Tensor | None
    patch_adjacency: Tensor | None
    patch_pe: Tensor | None = None


class PatchEncoder(torch.nn.Module):
    r"""Turns every patch of a graph into one token: a GNN inside the patch, then the mean over its vertices (`A Generalization of
    ViT/MLP-Mixer to Graphs <https://arxiv.org/abs/2212.13350>`_).

    A vertex has a state :math:`\mathbf{h}_{i,p}` in each patch :math:`p` that it belongs to, at first a linear map of its features. Every
    layer is GINE, or GIN where edges have no attributes, over the edges within the patch, followed by

    .. math::
        \mathbf{h}_{i,p} \leftarrow \mathbf{W} \left( \mathbf{h}_{i,p} + \sigma(\mathrm{norm}(\mathrm{GINE}(\mathbf{h}_{\cdot,p})_i))
        \right) + \mathbf{b},

    and the token is :math:`\mathbf{z}_p = |\mathcal{V}_p|^{-1} \sum_{i \in \mathcal{V}_p} \mathbf{h}_{i,p} + \mathbf{T} \mathbf{p}_p`
    with the patch's positional encoding :math:`\mathbf{p}_p`. So a token knows its own patch and nothing else.

    With ``exchange`` it does not stop there: before every layer but the first, :math:`\sigma(\mathrm{norm}(\mathbf{U} \cdot))` of the
    patch's mean is added to its vertices, and then the states of a vertex in all its patches are replaced by their average. The authors'
    code does so, and their numbers come from it; tokens then know what their patch's neighbors knew a layer before.

    The token of an empty patch is zero.

    Args:
        in_channels: Width of the vertex features; positional encodings of vertices are among them, as from
            ``AddRandomWalkPE(16, attr_name=None)`` of PyG.
        hidden_channels: Width of states and tokens.
        num_layers: The number of GNN layers in the patches.
        patch_pe_dim: Width of the patches' positional encodings.
        edge_dim: How many attributes every edge has; edge weights count as one where ``edge_attr`` leaves room for it.
        exchange: Whether the states of a vertex in different patches are averaged between layers.
        dropout: Probability of dropping an entry of a state after each layer.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **output:** tokens :math:`(B, P, d)` and whether each patch has vertices :math:`(B, P)`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        patch_pe_dim: int = 8,
        edge_dim: int = 0,
        exchange: bool = False,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "batch",
    ) -> None:
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers)
        check_counts(0, patch_pe_dim=patch_pe_dim, edge_dim=edge_dim)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.patch_pe_dim, self.edge_dim, self.exchange = patch_pe_dim, edge_dim, exchange
        width = hidden_channels
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        self.vertex_lin = torch.nn.Linear(in_channels, width)
        self.edge_lin = torch.nn.Linear(edge_dim, width) if edge_dim > 0 else None
        self.patch_lin = torch.nn.Linear(patch_pe_dim, width) if patch_pe_dim > 0 else None
        inner = {"act": act, "norm": None, **NORMS.get(norm or "", {})}
        conv = GINConv if self.edge_lin is None else GINEConv
        self.convs = torch.nn.ModuleList(conv(MLP([width] * 3, **inner), train_eps=True) for _ in range(num_layers))
        self.norms = torch.nn.ModuleList(make_norm(norm, width) for _ in range(num_layers))
        self.lins = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(num_layers))
        between = num_layers - 1 if exchange else 0
        self.exchange_lins = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(between))
        self.exchange_norms = torch.nn.ModuleList(make_norm(norm, width) for _ in range(between))

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            reset(module)
        for conv in self.convs:
            reset(conv.nn.act)  # type: ignore[union-attr]  # which PyG's MLP leaves as it is

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        edge_attr: Tensor | None,
        patches: Patches,
    ) -> tuple[Tensor, Tensor]:
        """Computes the tokens and tells which patches have vertices."""
        index, sizes, ends, column, num_edges, adjacency, _ = patches
        if index is None or sizes is None or ends is None or column is None or num_edges is None or adjacency is None:
            missing = next(name for name, value in zip(Patches._fields, patches, strict=True) if value is None)
            raise ValueError(f"'{missing}' must be given (got None); apply gump.transforms.AddPatches to the graphs")
        num_graphs, num_patches = sizes.shape
        number = torch.arange(sizes.numel(), device=sizes.device)
        patch = number.repeat_interleave(sizes.flatten(), output_size=index.size(0))  # [S]
        edge_patch = number.repeat_interleave(num_edges.flatten(), output_size=column.size(0))  # [T]
        first = sizes.flatten().cumsum(0) - sizes.flatten()
        patch_edge_index = ends.t() + first[edge_patch]
        edges: tuple[Tensor, ...] = (patch_edge_index,)
        if self.edge_lin is not None:
            graph = index.new_zeros(x.size(0)).scatter(0, index, patch // num_patches)  # of every vertex
            num_columns = scatter(torch.ones_like(edge_index[0]), graph[edge_index[0]], dim_size=num_graphs)
            column = column + (num_columns.cumsum(0) - num_columns)[edge_patch // num_patches]
            edges = (patch_edge_index, self.edge_lin(self._edge_attr(x, edge_weight, edge_attr))[column])
        h = self.vertex_lin(x)[index]  # [S, d]
        for k, (conv, norm, lin) in enumerate(zip(self.convs, self.norms, self.lins, strict=True)):
            if self.exchange and k > 0:
                mean = scatter(h, patch, dim_size=sizes.numel(), reduce="mean")
                h = h + self.act(self.exchange_norms[k - 1](self.exchange_lins[k - 1](mean)[patch]))
                h = scatter(h, index, dim_size=x.size(0), reduce="mean")[index]
            h = lin(h + self.dropout(self.act(norm(conv(h, *edges)))))
        tokens = scatter(h, patch, dim_size=sizes.numel(), reduce="mean").view(num_graphs, num_patches, -1)
        has_vertices = sizes > 0
        if self.patch_lin is not None:
            tokens = tokens + self.patch_lin(self._patch_pe(x, patches.patch_pe))
        return tokens * has_vertices.unsqueeze(-1), has_vertices

    def _edge_attr(self, x: Tensor, edge_weight: Tensor | None, edge_attr: Tensor | None) -> Tensor:
        """Gathers the attributes of edges: the columns of ``edge_attr`` and, if it leaves room, the weights."""
        columns = [] if edge_attr is None else [edge_attr.flatten(1) if edge_attr.dim() > 1 else edge_attr.unsqueeze(1)]
        if edge_weight is not None and sum(c.size(1) for c in columns) < self.edge_dim:
            columns.append(edge_weight.reshape(-1, 1))
        width = sum(c.size(1) for c in columns)
        if width != self.edge_dim:
            raise ValueError(f"'edge_dim' must be the number of edge attributes (got {self.edge_dim}); the edges came with {width}")
        return torch.cat([c.to(x.dtype) for c in columns], dim=-1)

    def _patch_pe(self, x: Tensor, patch_pe: Tensor | None) -> Tensor:
        """Judges the positional encodings of patches."""
        width = None if patch_pe is None else patch_pe.size(-1)
        if patch_pe is None or width != self.patch_pe_dim:
            raise ValueError(
                f"'patch_pe' must have 'patch_pe_dim' = {self.patch_pe_dim} columns (got {width}); "
                f"apply gump.transforms.AddPatches with walk_length={self.patch_pe_dim}"
            )
        return patch_pe.to(x.dtype)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"patch_pe_dim={self.patch_pe_dim}, edge_dim={self.edge_dim}, exchange={self.exchange})"
        )


def mean_over_patches(tokens: Tensor, has_vertices: Tensor) -> Tensor:
    """Averages the tokens of a graph's patches, leaving out empty ones; a graph without vertices gets zeros.

    Shapes:
        - **input:** :math:`(B, P, d)` and :math:`(B, P)`
        - **output:** :math:`(B, d)`

    Example:
        >>> mean_over_patches(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[True, True, False]]))
        tensor([[1.5000]])
    """
    weight = has_vertices.to(tokens.dtype).unsqueeze(-1)
    return (tokens * weight).sum(1) / weight.sum(1).clamp(min=1)
