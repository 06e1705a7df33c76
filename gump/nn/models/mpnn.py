"""The plain message-passing networks."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GINConv, GraphConv
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.line_graph import EulerianLineGraph, check_edge_index
from gump.nn.arguments import can_look, check_counts, check_features, check_mask, check_name
from gump.nn.feed_forward import FeedForward
from gump.nn.linear import linear
from gump.nn.neighbors import Neighbors
from gump.nn.norm import NORMS, make_norm, normalized
from gump.nn.normalized_adjacency import normalized_adjacency, propagate_by_rows
from gump.nn.unaltered import is_hooked

CONVS = ("gcn", "gin", "graph")
Operator = tuple[Tensor | Neighbors, Tensor | None]


class MPNN(torch.nn.Module):
    r"""A stack of graph convolutions: GCN (`Kipf & Welling, ICLR 2017 <https://openreview.net/forum?id=SJU4ayYgl>`_), GIN (`Xu et al., ICLR
    2019 <https://openreview.net/forum?id=ryGs6iA5Km>`_) or GraphConv (`Morris et al., AAAI 2019 <https://arxiv.org/abs/1810.02244>`_).

    .. math::
        \mathbf{X}^{(k)} = \mathrm{dropout}(\sigma(\mathrm{norm}(\mathrm{conv}_k(\mathbf{X}^{(k-1)}, \hat{\mathbf{A}}))))

    With ``out_channels`` the last convolution maps to it, and nothing follows. So the network of the TU protocol, which averages the logits
    of the vertices (`Karhadkar et al., ICLR 2023 <https://openreview.net/forum?id=3YjQfCLdrzz>`_), is ``MPNN(in_channels, 64, 5,
    out_channels=num_classes, dropout=0.5)``: four hidden layers and one that classifies. The "+layer" rows of the paper's tables are the
    same with eight hidden layers in place of four (a comment in the paper's source says so).

    With several relations a layer sums one convolution for each and a linear map of the vertex itself (R-GCN, R-GIN), so that edges that a
    rewiring has added have weights of their own:

    .. math::
        \mathbf{X}' = \mathbf{X} \mathbf{W}_0 + \mathbf{b}_0 + \sum_{r} \mathrm{conv}_r(\mathbf{X}, \mathbf{A}_r)

    GIN does not use edge weights, and none of the three uses edge attributes. A type that is not below ``num_relations`` is an error on the CPU; on a
    GPU, and for replicas side by side, to look would be to wait, and there such edges are not seen.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of every layer.
        num_layers: The number of convolutions.
        out_channels: Width of the last convolution, which then is linear; by default it is like the others.
        conv: ``"gcn"``, ``"gin"`` or ``"graph"``.
        num_relations: How many types of edges there are.
        residual: Whether layers add to their input, where the widths agree.
        feed_forward: Whether a :class:`gump.nn.FeedForward` block follows every layer but one that is linear, of which there must be one. With
            ``residual=True`` and ``norm="batch"`` this is close to the layer of GCN+ and GIN+ (`Luo et al., ICML 2025
            <https://arxiv.org/abs/2502.09263>`_), which read edge attributes, too.
        dropout: Probability of dropping an entry after each layer.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, after every convolution.
        mlp_norm: The same for the inside of GIN's MLP, which is linear, norm, nonlinearity, linear.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **edge_type:** :math:`(E)`
        - **output:** :math:`(N, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        conv: str = "gcn",
        num_relations: int = 1,
        residual: bool = False,
        feed_forward: bool = False,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = None,
        mlp_norm: str | None = "batch",
    ) -> None:
        super().__init__()
        check_name("conv", conv, CONVS)
        check_name("norm", norm, NORMS, optional=True)
        check_name("mlp_norm", mlp_norm, NORMS, optional=True)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        check_counts(1, num_relations=num_relations)
        if feed_forward and num_layers == 1 and out_channels is not None:
            raise ValueError(
                "'feed_forward' must be False for a network whose one layer is linear (got True); leave out_channels out"
            )
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.conv, self.num_relations, self.residual, self.linear_last = conv, num_relations, residual, out_channels is not None
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        widths = [in_channels] + [hidden_channels] * (num_layers - 1) + [self.out_channels]
        self.convs = torch.nn.ModuleList()
        for pair in itertools.pairwise(widths):
            relations = [_conv(conv, *pair, act, mlp_norm) for _ in range(num_relations)]
            self.convs.append(relations[0] if num_relations == 1 else _SumOfRelations(relations, *pair))
        self.norms = torch.nn.ModuleList(make_norm(norm, hidden_channels) for _ in range(num_layers - self.linear_last))
        self.blocks = torch.nn.ModuleList(FeedForward(hidden_channels, dropout, act, norm) for _ in self.norms if feed_forward)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.convs, self.norms, self.blocks, self.act):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        edge_type: Tensor | None = None,
        mask: Tensor | None = None,
        sorted_edges: EulerianLineGraph | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, those of an undirected graph in both directions.
            edge_weight: Weights that GCN and GraphConv multiply with.
            edge_attr: Not used.
            batch: Not used: a batch of graphs is one disconnected graph.
            edge_type: The relation of every edge, required if there are several.
            mask: Which vertices are there; the others are padding, joined to nothing but each other, that norms leave out.
            sorted_edges: The line graph of which ``edge_index`` are the ``arcs``, the very tensor. It says nothing that ``edge_index`` does not, but
                how its columns are sorted: on a GPU a kernel then sums over neighbors, where edges have neither weights nor relations. With other
                edges it is not used.
        """
        check_features(x, self.in_channels, next(self.parameters(), None))  # none in replicas of DataParallel
        check_edge_index(edge_index)
        if mask is not None:
            check_mask(mask, edge_index, x.size(0))
        operators = self._operators(x, edge_index, edge_weight, edge_type, sorted_edges)
        for k, conv in enumerate(self.convs):
            new = conv(x, operators, mask) if isinstance(conv, _SumOfRelations) else _apply(conv, x, operators[0], mask)
            if k < len(self.norms):
                new = self.dropout(normalized(self.norms[k], self.act, new, mask))
                new = x + new if self.residual and new.size(-1) == x.size(-1) else new
                new = self.blocks[k](new, mask) if self.blocks else new
            x = new
        return x

    def _operators(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        edge_type: Tensor | None,
        sorted_edges: EulerianLineGraph | None,
    ) -> list[Operator]:
        """What each relation multiplies with. Computed once for all layers, in shapes that do not depend on the types of the edges."""
        if self.num_relations > 1 and edge_type is None:
            raise ValueError(
                f"'edge_type' must tell the relation of every edge for num_relations={self.num_relations} (got None); apply "
                f"gump.transforms.AddEdgeType or a rewiring with relation=True, or pass num_relations=1"
            )
        if self.num_relations > 1 and edge_type is not None and edge_type.numel() != edge_index.size(1):
            raise ValueError(f"'edge_type' must have a number for each of the {edge_index.size(1)} edges (got {edge_type.numel()})")
        if self.num_relations > 1 and edge_type is not None and edge_type.numel() and can_look(edge_type):
            least, most = int(edge_type.min()), int(edge_type.max())
            if least < 0 or most >= self.num_relations:
                raise ValueError(
                    f"'edge_type' must be from 0 to {self.num_relations - 1} for num_relations={self.num_relations} (got {least} to {most}); "
                    + ("number relations from zero" if least < 0 else f"pass num_relations={most + 1}")
                )
        alike = self.num_relations == 1 and (edge_weight is None or self.conv == "gin")
        if alike and sorted_edges is not None and Neighbors.are_summed(x, edge_index, sorted_edges) and not self._is_watched():
            neighbors = Neighbors(sorted_edges)
            return [(neighbors.normalized(x.dtype) if self.conv == "gcn" else neighbors, None)]
        operators: list[Operator] = []
        for relation in range(self.num_relations):
            member = None if self.num_relations == 1 or edge_type is None else edge_type.reshape(-1) == relation
            index, weight = edge_index, None if edge_weight is None else edge_weight.reshape(-1).to(x.dtype)
            if self.conv == "gin":
                weight = None
                if member is not None:  # an edge of another relation brings a row of zeros, see _apply
                    index = torch.stack([edge_index[0] + x.size(0) * ~member, edge_index[1]])
            elif self.conv == "gcn":
                index, weight = normalized_adjacency(index, weight, x.size(0), x.dtype, member=member)
            elif member is not None:
                weight = member.to(x.dtype) if weight is None else weight * member
            operators.append((index, weight))
        return operators

    def _is_watched(self) -> bool:
        """Whether someone looks into convolutions, who must see edges and have every layer called."""
        return any(is_hooked(module) or getattr(module, "explain", False) for module in self.convs.modules())

    def __repr__(self) -> str:
        relations = f", num_relations={self.num_relations}" if self.num_relations > 1 else ""
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, conv='{self.conv}'{relations})"
        )


class _SumOfRelations(torch.nn.Module):
    """One convolution for each relation, and a linear map of the vertex itself."""

    def __init__(self, convs: list[torch.nn.Module], in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convs, self.lin = torch.nn.ModuleList(convs), torch.nn.Linear(in_channels, out_channels)

    def reset_parameters(self) -> None:
        reset(self.convs)
        self.lin.reset_parameters()

    def forward(self, x: Tensor, operators: list[Operator], mask: Tensor | None) -> Tensor:
        out = self.lin(x)
        sources = torch.cat([x, torch.zeros_like(x)])  # [2 * num_nodes, channels]
        for conv, operator in zip(self.convs, operators, strict=True):
            out = out + _apply(conv, (sources, x) if isinstance(conv, _GIN) else x, operator, mask)
        return out


class _GCNConv(GCNConv):
    propagate = propagate_by_rows


class _GINConv(GINConv):
    propagate = propagate_by_rows


class _GraphConv(GraphConv):
    propagate = propagate_by_rows


class _GIN(torch.nn.Module):
    """GIN's sum, then its MLP, whose norm can leave padding out."""

    def __init__(self, in_channels: int, out_channels: int, act: str, norm: str | None) -> None:
        super().__init__()
        self.sum, self.act = _GINConv(torch.nn.Identity()), activation_resolver(act)
        self.lin1, self.lin2 = torch.nn.Linear(in_channels, out_channels), torch.nn.Linear(out_channels, out_channels)
        self.norm = make_norm(norm, out_channels)

    def reset_parameters(self) -> None:
        for module in (self.sum, self.lin1, self.norm, self.act, self.lin2):
            reset(module)

    def forward(self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor | Neighbors, mask: Tensor | None = None) -> Tensor:
        if isinstance(edge_index, Neighbors) and isinstance(x, Tensor):
            first = linear(self.lin1, edge_index.with_own(1 + self.sum.eps)(x), mask)
            return linear(self.lin2, normalized(self.norm, self.act, first, mask), mask)
        return self.lin2(normalized(self.norm, self.act, self.lin1(self.sum(x, edge_index)), mask))


def _conv(name: str, in_channels: int, out_channels: int, act: str, mlp_norm: str | None) -> torch.nn.Module:
    if name == "gcn":
        return _GCNConv(in_channels, out_channels, normalize=False)
    if name == "graph":
        return _GraphConv(in_channels, out_channels)
    return _GIN(in_channels, out_channels, act, mlp_norm)


def _apply(conv: torch.nn.Module, x: Tensor | tuple[Tensor, Tensor], operator: Operator, mask: Tensor | None) -> Tensor:
    index, weight = operator
    return conv(x, index, mask) if isinstance(conv, _GIN) else conv(x, index, weight)
