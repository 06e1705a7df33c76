"""Walks that do not turn back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import MLP
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.line_graph import EulerianLineGraph
from gump.nn.arc_linear import ArcFeatures, ArcLinear, input_of
from gump.nn.arguments import check_counts, check_name
from gump.nn.norm import NORMS, make_norm, normalized
from gump.nn.rows import add_rows, select_rows

CONVS = ("gcn", "gin")


def non_backtracking_sum(message: Tensor, line_graph: EulerianLineGraph) -> Tensor:
    r"""Sums, for every arc, over the arcs that lead to it without turning back.

    .. math::
        \mathbf{h}'_{(v,w)} = \sum_{(u,v) : u \neq w} \mathbf{h}_{(u,v)}

    Where :math:`v` has no other neighbor than :math:`w`, the sum is :math:`\mathbf{h}_{(w,v)}`: there one begrudgingly turns back. Taken as
    the sum over all arcs that end at :math:`v`, less the one that would turn back, its cost is linear in the number of arcs. What is left
    out cancels up to rounding.

    Shapes:
        - **input:** :math:`(A, F)`
        - **output:** :math:`(A, F)`

    Example:
        On a path of three vertices, :math:`(0, 1)` leads to :math:`(1, 2)` and there back to :math:`(2, 1)`:

        >>> line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 1], [1, 2]]))
        >>> line_graph.arcs.t().tolist()
        [[0, 1], [2, 1], [1, 0], [1, 2]]
        >>> signal = non_backtracking_sum(torch.tensor([[1.0], [0.0], [0.0], [0.0]]), line_graph)
        >>> signal.flatten().tolist()
        [0.0, 0.0, 0.0, 1.0]
        >>> non_backtracking_sum(signal, line_graph).flatten().tolist()
        [0.0, 1.0, 0.0, 0.0]
    """
    source, target = line_graph.arcs
    arriving = add_rows(message, target, line_graph.num_nodes)
    turns = (line_graph.arc_degree > 1).to(message.dtype).unsqueeze(-1)
    return select_rows(arriving, source) - turns * select_rows(message, line_graph.reverse)


class NBAGNN(torch.nn.Module):
    r"""Message passing in which no message returns over the edge on which it came (`Park et al., TMLR 2024
    <https://openreview.net/forum?id=64HdQKnyTc>`_).

    States live on arcs and start as :math:`\mathbf{h}_{(v,w)} = \sigma(\mathbf{W}[\mathbf{x}_v ; \mathbf{x}_w ; \mathbf{e}_{vw}])`. In every layer,
    an arc :math:`(v, w)` hears from the arcs :math:`\mathcal{B}(v, w) = \{(u, v) : u \neq w\}`, or from :math:`(w, v)` where :math:`w` is the
    only neighbor of :math:`v` ("begrudgingly backtracking"). With :math:`d_a = |\mathcal{B}(a)|`,

    .. math::
        \text{GCN:} \quad \mathbf{h}'_a &= \sum_{b \in \mathcal{B}(a) \cup \{a\}} \frac{\mathbf{W} \mathbf{h}_b}{\sqrt{(d_a + 1)(d_b + 1)}}
        + \mathbf{b} \\
        \text{GIN:} \quad \mathbf{h}'_a &= \mathrm{MLP}\Big(\mathbf{h}_a + \sum_{b \in \mathcal{B}(a)} \mathrm{ReLU}(\mathbf{h}_b +
        \mathbf{W}_e \mathbf{e}_b)\Big)

    and vertices read :math:`\mathbf{W}[\mathrm{mean}\,\mathbf{h}_{(u,v)} ; \mathrm{mean}\,\mathbf{h}_{(v,w)}]`, the arcs that arrive and those
    that leave. A layer costs as much as one of GCN on the arcs: sums are taken at vertices (:func:`non_backtracking_sum`), so that neither
    the transitions nor a mask over pairs of arcs are ever built.

    Choices of this version: GIN without edge attributes sums :math:`\mathbf{h}_b` itself; with them, a message carries those of the arc it
    comes from (the authors have encoders for the shared vertex and for both arcs); a vertex without edges has no arcs and reads its own
    :math:`\mathbf{x}_v` instead of the means. Edges are taken as undirected, and edge weights are not used.

    Args:
        in_channels: Width of the vertex features, which are mapped to ``hidden_channels`` first.
        hidden_channels: Width of everything inside.
        num_layers: The number of layers.
        out_channels: Width of the result after a final linear map; by default there is none.
        conv: The flavor of the layers: ``"gcn"`` or ``"gin"``.
        edge_dim: How many attributes every edge has: the columns of ``edge_attr``.
        self_loops: Whether an arc of the GCN flavor hears itself; if not, :math:`d_a + 1` is :math:`d_a` above.
        residual: Whether layers add to their input.
        dropout: Probability of dropping an entry of an arc state after each layer.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, applied to arc states before the nonlinearity.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_attr:** :math:`(E, F_e)`
        - **output:** :math:`(N, F_{out})` or :math:`(N, F_{hidden})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        conv: str = "gcn",
        edge_dim: int = 0,
        self_loops: bool = True,
        residual: bool = True,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = None,
    ) -> None:
        super().__init__()
        check_name("conv", conv, CONVS)
        check_name("norm", norm, NORMS, optional=True)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        check_counts(0, edge_dim=edge_dim)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.conv, self.edge_dim, self.self_loops, self.residual = conv, edge_dim, self_loops, residual
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        self.start = ArcLinear(2 * hidden_channels + edge_dim, hidden_channels)
        width, layers = hidden_channels, range(num_layers)
        self.lins = torch.nn.ModuleList(
            torch.nn.Linear(width, width) if conv == "gcn" else MLP([width, width, width], act=act, norm=None) for _ in layers
        )
        with_attributes = layers if conv == "gin" and edge_dim > 0 else range(0)
        self.edge_lins = torch.nn.ModuleList(torch.nn.Linear(edge_dim, width) for _ in with_attributes)
        self.norms = torch.nn.ModuleList(make_norm(norm, width) for _ in layers)
        self.readout = torch.nn.Linear(2 * width, width)
        self.lin = None if out_channels is None else torch.nn.Linear(width, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.start, *self.lins, *self.edge_lins, *self.norms, self.act, self.readout, self.lin):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        line_graph: EulerianLineGraph | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, see :meth:`gump.EulerianLineGraph.from_edge_index`.
            edge_weight: Not used.
            edge_attr: Attributes of the edges.
            batch: Not used; no arc joins two graphs.
            line_graph: The line graph of ``edge_index``, if it was built before.
            mask: Which vertices are there; the others are padding, joined to nothing but each other, that norms leave out.
        """
        if line_graph is None:
            line_graph = EulerianLineGraph.from_edge_index(edge_index, x.size(0))
        arc_attr = self._arc_attr(x, edge_index, edge_attr, line_graph)
        arc_mask = None if mask is None else select_rows(mask, line_graph.arcs[0])
        x = self.encoder(x)
        first = input_of(self.start, ArcFeatures(x, line_graph, arc_attr, arc_mask))
        h = self.act(self.start(first))  # [num_arcs, hidden_channels]
        for k in range(self.num_layers):
            h = self.layer(k, h, line_graph, arc_attr, arc_mask)
        x = self.readout(self._means(h, x, line_graph))
        return x if self.lin is None else self.lin(x)

    def layer(
        self, k: int, h: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Runs one layer on arc states in the order of ``line_graph.arcs``; norms leave out what ``mask`` does."""
        if self.conv == "gcn":
            heard = (line_graph.arc_degree - 1).clamp_min(1) + int(self.self_loops)
            scale = heard.to(h.dtype).rsqrt().unsqueeze(-1)
            gathered = scale * non_backtracking_sum(scale * h, line_graph)
            gathered = gathered + scale.square() * h if self.self_loops else gathered
        else:
            message = (h + self.edge_lins[k](arc_attr)).relu() if self.edge_dim > 0 else h
            gathered = h + non_backtracking_sum(message, line_graph)
        new = self.dropout(normalized(self.norms[k], self.act, self.lins[k](gathered), mask))
        return h + new if self.residual else new

    def _arc_attr(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, line_graph: EulerianLineGraph) -> Tensor | None:
        """Judges the line graph and the attributes, and hands the latter to the arcs."""
        if line_graph.num_nodes != x.size(0) or line_graph.edge_arc.numel() != edge_index.size(1) or line_graph.directed:
            raise ValueError(
                f"'line_graph' must be the undirected one of {x.size(0)} vertices and {edge_index.size(1)} columns of 'edge_index' (got "
                f"{line_graph.num_nodes}, {line_graph.edge_arc.numel()}, directed={line_graph.directed})"
            )
        columns = edge_attr
        if columns is not None:
            columns = columns.flatten(1) if columns.dim() > 1 else columns.unsqueeze(1)
        width = 0 if columns is None else columns.size(1)
        if width != self.edge_dim:
            raise ValueError(f"'edge_dim' must be the number of edge attributes, {width} (got {self.edge_dim})")
        return None if columns is None else line_graph.arc_attr(columns.to(x.dtype))

    @staticmethod
    def _means(h: Tensor, x: Tensor, line_graph: EulerianLineGraph) -> Tensor:
        """Averages the arcs that arrive at every vertex and those that leave; a vertex without arcs keeps what it had."""
        source, target = line_graph.arcs
        degree = add_rows(torch.ones_like(h[:, :1]), source, x.size(0))
        means = [torch.where(degree > 0, add_rows(h, end, x.size(0)) / degree.clamp_min(1), x) for end in (target, source)]
        return torch.cat(means, dim=-1)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, conv='{self.conv}', edge_dim={self.edge_dim}, self_loops={self.self_loops}, "
            f"residual={self.residual})"
        )
