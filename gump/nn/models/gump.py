"""The model (Algorithm 3)."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.parametrizations import orthogonal
from torch.nn.utils.parametrize import is_parametrized
from torch.utils.checkpoint import checkpoint
from torch_geometric.explain.algorithm.utils import clear_masks
from torch_geometric.nn.resolver import activation_resolver

from gump.line_graph import EulerianLineGraph, check_edge_index
from gump.nn.arc_linear import ArcFeatures, check_vertices
from gump.nn.arguments import can_look, check_counts, check_features, check_mask, check_name
from gump.nn.coin import MAX_BLOCK, SCORE_RANK, Coin
from gump.nn.conv import ArcGCNConv, ArcGCNIIConv, ArcGINConv, ArcGraphConv
from gump.nn.feed_forward import FeedForward
from gump.nn.models.mpnn import CONVS as BASES
from gump.nn.models.mpnn import MPNN
from gump.nn.norm import NORMS, NoNorm, make_norm, normalized
from gump.nn.propagation import Propagation
from gump.nn.readout import mean_of_incoming
from gump.nn.rows import select_rows

CONVS = {"gcn": ArcGCNConv, "gin": ArcGINConv, "graph": ArcGraphConv, "gcnii": ArcGCNIIConv}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"coin": "newton_schulz", "num_steps": 10, "norm": None, "base_norm": "batch", "residual": False},
}
"""Named settings: ``GUMP(..., **PRESETS["paper"])`` reads the paper to the letter. Where it is silent, no norm is put on arc states and
the base GNN is that of the code whose protocol the paper follows, with batch norm."""


TOO_LARGE = 1e3
"""By what factor states may grow by dropout, or shrink by nonlinearities, before there is a warning."""


class Start(NamedTuple):
    """What coins and layers start from: vertex features, the line graph, and what its arcs carry."""

    x: Tensor
    line_graph: EulerianLineGraph
    arc_attr: Tensor | None


class GUMP(torch.nn.Module):
    r"""Graph Unitary Message Passing (`Qiu & Yao, TMLR 2026 <https://openreview.net/forum?id=dvNMDkSBIA>`_).

    A base GNN computes vertex features :math:`\mathbf{X}^{(0)}`. Arc states start as :math:`\mathbf{h}_{(i,j)} = [\mathbf{x}^{(0)}_i ;
    \mathbf{x}^{(0)}_j ; \mathbf{e}_{ij}]`, from which the coins are computed once. Then, for every layer,

    .. math::
        \mathbf{H}^{(k)} = \sigma(\mathrm{norm}(\mathrm{conv}_k(\mathbf{H}^{(k-1)}, \mathbf{U}))), \quad
        \mathbf{U} = \mathrm{shift} \cdot \mathrm{coin},

    and the result is :math:`[\mathbf{X}^{(0)} ; \mathbf{H}_s]`, where :math:`\mathbf{H}_s` averages the arcs that end at a vertex.
    A batch of graphs is one disconnected graph.

    What unitarity does not give: it keeps the energy of a signal, not its place. How far a signal gets depends on the coins; and a wave
    passes, so ``num_layers`` should be near the distance to bridge, or ``jk="weighted"`` keep what passed. Nor does it tame what lies between
    the moves: batch norm without residual, the default because it learned best at 10 to 20 layers, lets gradients grow with depth, to where a
    hundred layers are finite but hard to train. At such depths take ``conv="gcn", norm=None``, where the first and the last layer get
    gradients within two orders of each other, or ``residual=True``, which in turn learns slowly what is
    exactly ``num_layers`` away. The GIN flavor needs a norm, since :math:`(1 + \epsilon)\mathbf{I} + \mathbf{U}` doubles a signal. The model
    can be differentiated once.

    Permutation equivariance holds to rounding, with one exception: batch norm in training mode makes what rounding does to a channel that
    hardly varies, as on symmetric graphs with equal features, up to 300 times as large in every layer. On a CPU channels that do not vary at
    all are left out of it, which keeps five layers in double precision below 1e-7 there; evaluation mode, ``norm="layer"`` and ``norm=None``,
    each with the same ``base_norm``, are free of it.

    The result has the type of ``x``, also under autocast. Columns of ``x`` that are far from zero for how much they vary, such as years, are to be
    standardized first: batch norm takes what varies by less than 4e-6 of its mean in single precision for rounding.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: The width :math:`d` of everything inside.
        num_layers: The number of propagation steps :math:`L`.
        out_channels: Width of the result after a final linear map; by default there is none and the result is :math:`2d` wide.
        conv: The flavor of the layers: ``"gcn"``, ``"gin"``, ``"graph"`` or ``"gcnii"``, which mixes the first layer's states into every other, see
            :class:`gump.nn.ArcGCNIIConv`.
        base: The flavor of the base GNN: ``"gcn"``, ``"gin"``, ``"graph"`` or none.
        num_base_layers: Depth of the base GNN. With zero, or without a base, vertex features are mapped to :math:`d` linearly.
        edge_dim: How many attributes every edge has: the columns of ``edge_attr``, and one more if edge weights count as such.
        directed: Whether ``edge_index`` is directed. Arcs then carry a flag that tells whether they were in it, and those that were not
            are left out of the result and of what the base GNN sees.
        coin: The name of the coin, see :class:`gump.nn.Coin`.
        attention_channels: The paper's :math:`d'`.
        beta: How far the bounded coin may leave the Grover coin.
        num_steps: The paper's :math:`K`, for ``coin="newton_schulz"``.
        scores: The form of the attention scores, ``"additive"`` as in the paper or ``"bilinear"``, see :class:`gump.nn.Coin`.
        score_rank: The rank of bilinear scores.
        max_block: The degree above which a vertex is a hub, whose coin is kept in a form of linear size. With bilinear scores it is a
            matter of speed alone; with additive ones hubs use bilinear ones all the same.
        act: The nonlinearity, by its name in torch.
        linear: Whether the layers on arcs have no nonlinearity. A ReLU drops what arrives with the other sign, by which waves cancel each other;
            without it, and with ``conv="gcnii", theta=0, norm=None``, the layers are a filter of vertex features whose width ``alpha`` sets, see
            :class:`gump.nn.ArcGCNIIConv`.
        norm: ``"layer"``, ``"batch"`` or none, applied before the nonlinearity to arc states and to the base GNN's result. Coins answer to
            features of order one; without a norm they stay close to the Grover coin at first. The batch norm is :class:`gump.nn.BatchNorm`, which
            what looks for torch's, to freeze or to synchronize it, does not find.
        base_norm: The same for the inside of the base GNN.
        residual: Whether layers add to their input, from the second on.
        feed_forward: Whether a :class:`gump.nn.FeedForward` block follows every layer, which then has three (GIN) to five times as many
            multiplications. It has a nonlinearity and free weights, whatever ``linear`` and ``orthogonal_weights`` say about the layers.
        base_feed_forward: The same inside the base GNN, behind every layer but its last, which is linear. Its rows, one for a vertex, are fewer.
        alpha: The share of the first states, for ``conv="gcnii"``.
        theta: How far its weights are from the identity.
        dropout: Probability :math:`p` of dropping an entry of an arc state after each layer, and inside the base GNN. Without a norm states grow
            with it by :math:`(1 - p)^{-L/2}` over :math:`L` layers, in training alone; where that is beyond all measure there is a warning. Take
            ``base_dropout`` then, a norm, or less than about :math:`1 / L`.
        base_dropout: Probability of dropping an entry of the vertex features and of the base GNN's result, before coins and states are made of
            it; meant for few labels and many features, as in citation graphs.
        jk: ``"last"`` reads the last layer, ``"weighted"`` a learned average of all layers.
        orthogonal_weights: Whether to keep the layers' weight matrices orthogonal, the theory's assumption on weights; with ``conv="gcnii"`` what
            is mixed with the identity is, and not the mixture. A ReLU behind them halves the energy in every layer, which a norm or residual
            connections make up for. Such a model cannot be pickled, as torch pickles no parametrized module; save its
            ``state_dict()``. Nor can it be turned to half precision, where autocast can take its place.
        checkpoint: Whether to recompute layers in the backward pass instead of keeping their inner states. Batch norm then sees every
            batch twice, which its running averages feel.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **edge_attr:** :math:`(E, F_e)`
        - **output:** :math:`(N, F_{out})` or :math:`(N, 2d)`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        conv: str = "gcn",
        base: str | None = "gcn",
        num_base_layers: int = 1,
        edge_dim: int = 0,
        directed: bool = False,
        coin: str = "bounded",
        attention_channels: int = 32,
        beta: float = 0.9,
        num_steps: int = 10,
        scores: str = "additive",
        score_rank: int = SCORE_RANK,
        max_block: int = MAX_BLOCK,
        act: str = "relu",
        linear: bool = False,
        norm: str | None = "batch",
        base_norm: str | None = "batch",
        residual: bool = False,
        feed_forward: bool = False,
        base_feed_forward: bool = False,
        alpha: float = 0.1,
        theta: float = 0.5,
        dropout: float = 0.0,
        base_dropout: float = 0.0,
        jk: str = "last",
        orthogonal_weights: bool = False,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        check_name("conv", conv, CONVS)
        check_name("base", base, BASES, optional=True)
        check_name("norm", norm, NORMS, optional=True)
        check_name("base_norm", base_norm, NORMS, optional=True)
        check_name("jk", jk, ("last", "weighted"))
        if residual and conv == "gcnii":
            raise ValueError("'residual' must be False with conv='gcnii' (got True), whose layers mix in the first states")
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        check_counts(0, num_base_layers=num_base_layers, edge_dim=edge_dim)
        if base_feed_forward and (base is None or num_base_layers < 2):
            raise ValueError(
                f"'base_feed_forward' must be False without a base GNN of two layers, the last of which has no block (got True with "
                f"base={base!r} and num_base_layers={num_base_layers})"
            )
        if norm is None:
            _warn_of_growth(dropout, num_layers, alpha if conv == "gcnii" else 0.0)
            if orthogonal_weights and act == "relu" and not linear and conv in ("gcn", "graph") and not residual:
                _warn_of_decay(num_layers)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = 2 * hidden_channels if out_channels is None else out_channels
        self.conv, self.base, self.num_base_layers = conv, base if num_base_layers > 0 else None, num_base_layers
        self.edge_dim, self.directed = edge_dim, directed
        self.residual, self.linear, self.checkpoint = residual, linear, checkpoint
        if act is None:
            raise ValueError("'act' must be the name of a nonlinearity (got None)")
        self.act = activation_resolver(act)
        self.arc_act = torch.nn.Identity() if linear else self.act
        self.dropout, self.base_dropout = torch.nn.Dropout(dropout), torch.nn.Dropout(base_dropout)
        if self.base is None:
            self.encoder: torch.nn.Module = torch.nn.Linear(in_channels, hidden_channels)
        else:
            self.encoder = MPNN(
                in_channels,
                hidden_channels,
                num_base_layers,
                out_channels=hidden_channels,
                conv=self.base,
                norm=base_norm,
                mlp_norm=base_norm,
                feed_forward=base_feed_forward,
                act=act,
                dropout=dropout,
            )
        arc_channels = 2 * hidden_channels + edge_dim + directed
        self.coin = Coin(
            arc_channels,
            attention_channels,
            coin,
            beta,
            num_steps,
            scores=scores,
            score_rank=score_rank,
            max_block=max_block,
        )
        widths = [arc_channels] + [hidden_channels] * num_layers
        settings: dict[str, dict[str, Any]] = {"gin": {"act": self.arc_act}, "gcnii": {"alpha": alpha, "theta": theta}}
        inner = settings.get(conv, {})
        self.convs = torch.nn.ModuleList()
        for k, pair in enumerate(itertools.pairwise(widths)):
            self.convs.append(CONVS[conv](*pair, **inner, **({"layer": k} if conv == "gcnii" and k else {})))
        norms = [make_norm(norm, hidden_channels) for _ in range(num_layers + 1)]
        self.base_norm, self.norms = norms[0], torch.nn.ModuleList(norms[1:])
        self.blocks = torch.nn.ModuleList(
            FeedForward(hidden_channels, dropout, act, norm) for _ in range(num_layers if feed_forward else 0)
        )
        self.layer_weight = torch.nn.Parameter(torch.zeros(num_layers)) if jk == "weighted" else None
        self.lin = None if out_channels is None else torch.nn.Linear(2 * hidden_channels, out_channels)
        self.reset_parameters()
        if orthogonal_weights:
            for layer in self._linear_layers():
                orthogonal(layer)

    def _linear_layers(self) -> list[torch.nn.Linear]:
        return [module for module in self.convs.modules() if isinstance(module, torch.nn.Linear)]

    def base_parameters(self) -> list[torch.nn.Parameter]:
        """The parameters of the base GNN, for a learning rate of their own."""
        return [*self.encoder.parameters(), *self.base_norm.parameters()]

    def coin_parameters(self) -> list[torch.nn.Parameter]:
        """The parameters of the attention scores, likewise."""
        return list(self.coin.parameters())

    def reset_parameters(self) -> None:
        """Draws new weights. Those of the layers keep the energy of a signal that passes through them and a ReLU (He et al.), if there is a
        nonlinearity, but for the GCNII flavor, which mixes them with the identity, and orthogonal ones, which keep it without the ReLU."""
        for module in (self.encoder, self.base_norm, self.coin, *self.convs, *self.norms, *self.blocks, self.lin):
            if module is not None:
                module.reset_parameters()
        for layer in self._linear_layers():
            weight = torch.nn.init.kaiming_normal_(torch.empty_like(layer.weight), nonlinearity="linear" if self.linear else "relu")
            with torch.no_grad():
                if is_parametrized(layer):
                    layer.weight = torch.linalg.qr(weight.t())[0].t()
                else:
                    layer.weight.copy_(weight)
            if layer.bias is not None:
                torch.nn.init.zeros_(layer.bias)
        if self.layer_weight is not None:
            torch.nn.init.zeros_(self.layer_weight)
        if hasattr(self.act, "reset_parameters"):  # those with a weight have it
            self.act.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        line_graph: EulerianLineGraph | None = None,
        mask: Tensor | None = None,
        return_arcs: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, see :meth:`gump.EulerianLineGraph.from_edge_index`. The base GNN sees each once in either direction.
            edge_weight: Weights that the base GNN multiplies with, unless it is a GIN, and, if ``edge_dim`` counts them, that arcs carry. In the
                GCN flavor those of a vertex may not sum to less than nothing: the result is then no number, as PyG's is.
            edge_attr: Attributes that arcs carry.
            batch: Not used: a batch of graphs is one disconnected graph.
            line_graph: The line graph of ``edge_index``, if it was built before, as it must be for a model that is exported. In what is compiled or
                exported nobody looks whether it is the right one.
            mask: Which vertices are there; the others are padding, joined to nothing but each other, that norms leave out.
            return_arcs: Whether to return the last arc states as well, in the order of ``line_graph.arcs``.
        """
        start = self.start(x, edge_index, edge_weight, edge_attr, batch, line_graph, mask)
        arc_mask = None if mask is None else select_rows(mask, start.line_graph.arcs[0])
        sparse = None if mask is None else False
        propagate = Propagation(self.coin(*start), start.line_graph, sparse, self.coin.hubs(*start), arc_mask)
        h = self._propagate(start, propagate, arc_mask)
        if not start.line_graph.block_sizes:
            # without arcs there are no scores; their gradients are zero then, and not none, for those who wait for all
            h = h + sum(p.sum() for p in self.coin.parameters())
        out = torch.cat([start.x, mean_of_incoming(h, start.line_graph, arc_mask)], dim=-1)
        out = (out if self.lin is None else self.lin(out)).to(x.dtype)
        return (out, h.to(x.dtype)) if return_arcs else out

    def start(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        line_graph: EulerianLineGraph | None = None,
        mask: Tensor | None = None,
    ) -> Start:
        """Computes what the coins and the layers start from; ``model.coin(*model.start(x, edge_index))`` are the coins."""
        check_features(x, self.in_channels, next(self.parameters(), None))  # none in replicas of DataParallel
        check_edge_index(edge_index)
        if (
            x.dtype.itemsize < 4
            and not torch.is_autocast_enabled(x.device.type)
            and any(map(is_parametrized, self._linear_layers()))
        ):
            raise ValueError(
                f"'orthogonal_weights' must be False for a model of type {x.dtype} (got True), in which torch makes no matrix orthogonal; "
                "call .float() and use autocast"
            )
        if line_graph is None:
            line_graph = EulerianLineGraph.from_edge_index(edge_index, x.size(0), self.directed)
        check_vertices(x, line_graph)
        if line_graph.edge_arc.numel() != edge_index.size(1):
            columns = line_graph.edge_arc.numel()
            raise ValueError(
                f"'line_graph' must be that of 'edge_index' with its {edge_index.size(1)} columns (got one of {columns})"
            )
        if mask is not None:
            check_mask(mask, edge_index, x.size(0))
        if (
            can_look(line_graph.arcs)
            and can_look(edge_index)
            and not torch.equal(line_graph.arcs[:, line_graph.edge_arc], edge_index)
        ):
            raise ValueError("'line_graph' must be that of 'edge_index' (got that of other edges); build it from the same edges")
        if line_graph.directed != self.directed:
            raise ValueError(
                f"'line_graph' must be built with directed={self.directed}, as the model is (got {line_graph.directed})"
            )
        if any(getattr(module, "explain", False) for module in self.encoder.modules()):
            clear_masks(self.encoder)  # or the model would refuse for good
            raise ValueError(
                "'edge_mask_type' of an explainer must be None for GUMP (got a mask of edges), whose arcs are not edges in the order of "
                "'edge_index'; explain vertex features"
            )
        arc_attr, x = self._arc_attr(x, edge_weight, edge_attr, line_graph), self.base_dropout(x)
        if self.base is None:
            return Start(self.base_dropout(self.base_norm(self.encoder(x), mask)), line_graph, arc_attr)
        weight = None if edge_weight is None or self.base == "gin" else line_graph.arc_attr(edge_weight.to(x.dtype))
        arcs = line_graph.arcs
        if line_graph.directed:
            arcs, weight = arcs[:, line_graph.listed], None if weight is None else weight[line_graph.listed]
        x = self.act(self.base_norm(self.encoder(x, arcs, edge_weight=weight, mask=mask, sorted_edges=line_graph), mask))
        return Start(self.base_dropout(x), line_graph, arc_attr)

    def propagation_matrix(self, x: Tensor, edge_index: Tensor, **kwargs: Any) -> Tensor:
        r"""Returns the operator :math:`\mathsf{U}[\mathbf{A}_w]` as a sparse matrix over the arcs, for looking at.

        Row :math:`(u, v)` holds the weights of the arcs :math:`(v, w)` from which it gathers. Arcs are numbered as in
        :meth:`gump.EulerianLineGraph.from_edge_index`. Takes what :meth:`forward` takes.

        Shapes:
            - **output:** :math:`(A, A)`
        """
        start = self.start(x, edge_index, **kwargs)
        return Propagation(self.coin(*start), start.line_graph, hubs=self.coin.hubs(*start)).matrix()

    def _arc_attr(
        self, x: Tensor, edge_weight: Tensor | None, edge_attr: Tensor | None, line_graph: EulerianLineGraph
    ) -> Tensor | None:
        """Gathers what arcs carry: edge attributes, edge weights, and whether the arc is real."""
        for name, rows in (("edge_weight", edge_weight), ("edge_attr", edge_attr)):
            if rows is not None:
                line_graph.check_edge_rows(name, rows)
        if edge_weight is not None and edge_weight.dim() != 1:
            raise ValueError(
                f"'edge_weight' must be one number for each edge (got shape {list(edge_weight.shape)}); pass attributes as edge_attr=, "
                "or weights with .squeeze(-1)"
            )
        columns = [] if edge_attr is None else [edge_attr.flatten(1) if edge_attr.dim() > 1 else edge_attr.unsqueeze(1)]
        width = sum(c.size(1) for c in columns)
        if edge_weight is not None and (width < self.edge_dim or self.base not in ("gcn", "graph")):
            columns.append(edge_weight.reshape(-1, 1))
            width += 1
        if not columns and self.edge_dim:
            raise ValueError(
                f"'edge_attr' must have the {self.edge_dim} columns that 'edge_dim' says (got none); pass it, or set edge_dim=0"
            )
        if width != self.edge_dim:
            advice = " or leave the weights out" if edge_weight is not None and width > self.edge_dim else ""
            raise ValueError(
                f"'edge_dim' must be the number of edge attributes, {width} (got {self.edge_dim}); pass edge_dim={width}{advice}"
            )
        attr = [line_graph.arc_attr(c.to(x.dtype)) for c in columns]
        if self.directed:
            attr.append(line_graph.listed.to(x.dtype).unsqueeze(-1))
        return torch.cat(attr, dim=-1) if attr else None

    def _propagate(self, start: Start, propagate: Propagation, mask: Tensor | None) -> Tensor:
        """Runs the layers."""
        first = self._layer(0, ArcFeatures(start.x, start.line_graph, start.arc_attr, mask), propagate, mask)
        h = self._block(0, self.dropout(first), mask)  # the GCNII flavor mixes in what was before
        states, given = [h], {"first": first} if self.conv == "gcnii" else {}
        for k in range(1, self.num_layers):
            new = self._layer(k, h, propagate, mask, **given)
            h = self._block(k, h + new if self.residual else new, mask)
            states.append(h)
        if self.layer_weight is None:
            return h
        return torch.stack([w * s for w, s in zip(self.layer_weight.softmax(0), states, strict=True)]).sum(0)

    def _layer(self, k: int, h: Tensor | ArcFeatures, propagate: Propagation, mask: Tensor | None, **given: Tensor) -> Tensor:
        """Runs one layer, from the second on with its dropout."""

        def run(h: Tensor | ArcFeatures) -> Tensor:
            if isinstance(self.norms[k], NoNorm):
                out = self.convs[k](h, propagate, self.arc_act, **given)
            else:
                out = normalized(self.norms[k], self.arc_act, self.convs[k](h, propagate, **given), mask)
            return out if k == 0 else self.dropout(out)

        return self._kept(run, h)

    def _block(self, k: int, h: Tensor, mask: Tensor | None) -> Tensor:
        """Runs the feed-forward block behind a layer, if there is one."""
        return self._kept(lambda h: self.blocks[k](h, mask), h) if self.blocks else h

    def _kept(self, run: Callable[[Any], Tensor], h: Tensor | ArcFeatures) -> Tensor:
        """Runs a part of a layer; with ``checkpoint`` its inner states are computed again in the backward pass."""
        return checkpoint(run, h, use_reentrant=False) if self.checkpoint and self.training else run(h)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, conv='{self.conv}', base={self.base!r}, num_base_layers={self.num_base_layers}, "
            f"coin={self.coin})"
        )


def _warn_of_growth(dropout: float, num_layers: int, alpha: float) -> None:
    """Warns where dropout makes states far larger in training than in evaluation: it divides their energy by 1 - dropout in every layer."""
    growth = ((1 - alpha) ** 2 / (1 - dropout)) ** (num_layers / 2) if dropout < 1 else 1.0
    if growth > TOO_LARGE:
        warnings.warn(
            f"dropout={dropout:g} without a norm makes states of {num_layers} layers some {growth:.0e} times as large in training as in evaluation; "
            f"take a norm, 'base_dropout' instead, or at most {1 / num_layers:.2g}",
            stacklevel=3,
        )


def _warn_of_decay(num_layers: int) -> None:
    """Warns where nothing makes up for the half of the energy that a ReLU takes from an orthogonal layer."""
    left = 2 ** (-num_layers / 2)
    if left * TOO_LARGE < 1:
        warnings.warn(
            f"orthogonal_weights=True with a ReLU and without a norm leaves states of {num_layers} layers some {left:.0e} of their size; take a "
            "norm, residual=True, or another nonlinearity",
            stacklevel=3,
        )
