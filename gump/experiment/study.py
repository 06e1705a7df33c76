"""Studies: a diagnostic of many models on one graph, as data for a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gump.diagnostics import distant_pair, hop_distances, jacobian_by_depth
from gump.nn import ADGN, GUMP, MPNN, PRESETS, DRewGCN, UnitaryGCN
from gump.transforms import DIGL, GTR, SDRF, AddHops, FoSR

DEPTHS = (2, 5, 10, 15, 20, 30, 40, 60, 80, 100)
WEIGHTS = ("own", "he", "glorot")

_Make = Callable[[int, int], torch.nn.Module]
_Prepare = Callable[[Data], Data]


def jacobian_study(
    graphs: Sequence[Data],
    depths: Sequence[int] = DEPTHS,
    seeds: Sequence[int] = range(3),
    distance: int = 10,
    index: int | None = None,
    pair: tuple[int, int] | None = None,
    weights: str = "own",
    hidden_channels: int = 64,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    r"""Measures the Jacobian between two distant vertices against depth, for GUMP and the systems that it is compared with.

    From the paper: the spectral norm of :math:`\partial \mathbf{h}_{\mathrm{target}} / \partial \mathbf{x}_{\mathrm{source}}`, a pair at distance
    ten of a graph of NCI1, GCN as the base GNN, 2 to 100 layers, width 64, attention width 32. It does not say which graph, whether
    models are trained, how weights are drawn, and which norms there are. Here: the first graph with such a pair and its first pair; fresh
    models in float64 and in evaluation mode, where a batch norm that has seen nothing is the identity; no residuals but where a method
    has them; and each method's own initialization, torch's and PyG's defaults but for GUMP, which draws as He et al. do. Rewirings are
    followed by a GCN, with the transforms' default numbers of edges. ``"GUMP"`` has the library's default coin, ``"GUMP (paper)"`` ten
    steps of Newton-Schulz.

    The initialization matters as much as the operator: with glorot weights a ReLU halves a signal's energy in every layer, whatever
    propagates it without amplifying, as GIN's sum does. So ``weights="he"`` and ``"glorot"`` are controls, in which GUMP and the plain
    networks (GCN, GIN and those after rewirings) draw the weights of their layers by the same rule.

    Args:
        graphs: Graphs with numbers as features, such as ``load_tu("NCI1")``; categories have no derivative.
        depths: The numbers of layers.
        seeds: Fresh models are drawn for each.
        distance: The number of edges between source and target.
        index: The graph to take; by default the first that has such a pair.
        pair: Source and target, in place of the first pair at that distance; of the first graph, unless ``index`` says otherwise.
        weights: ``"own"``, ``"he"`` or ``"glorot"``, see above.
        hidden_channels: The width of all models.
        names: The systems to measure, by default all.

    Returns:
        ``depths``; ``series``, for each system the ``mean`` and the ``median`` over seeds (the lower one of two in the middle) with the
        ``low``est and the ``high``est value; and ``about``, what is needed to repeat it. All can be written as JSON.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"'weights' must be one of {', '.join(WEIGHTS)} (got '{weights}')")
    index, (source, target) = _find(graphs, distance, index, pair)
    graph = copy(graphs[index])
    graph.x = graph.x.double()
    apart = hop_distances(graph.edge_index, int(graph.num_nodes or 0))
    systems = _systems(hidden_channels, int(apart[apart.isfinite()].max()))
    if unknown := [name for name in names or () if name not in systems]:
        raise ValueError(f"'names' must be among {', '.join(systems)} (got '{unknown[0]}')")
    series = {}
    for name in names or systems:
        prepare, make = systems[name]
        data = prepare(copy(graph))
        extra = {key: data[key] for key in ("hop_index", "hop_distance") if key in data}

        def make_model(depth: int, make: _Make = make) -> torch.nn.Module:
            model = make(graph.num_features, depth)
            if weights != "own" and isinstance(model, MPNN | GUMP):
                _draw(model, weights)
            return model.double().eval()

        norms = jacobian_by_depth(make_model, depths, data.x, data.edge_index, source, target, seeds, **extra)
        over_seeds = {"mean": norms.mean(1), "median": norms.median(1).values, "low": norms.amin(1), "high": norms.amax(1)}
        series[name] = {key: values.tolist() for key, values in over_seeds.items()}
    about = {
        "quantity": "spectral norm of d h[target] / d x[source]",
        "graph": index,
        "num_nodes": graph.num_nodes,
        "source": source,
        "target": target,
        "distance": int(apart[source, target]) if apart[source, target].isfinite() else None,
        "seeds": list(seeds),
        "weights": weights,
        "hidden_channels": hidden_channels,
        "models": "fresh, float64, evaluation mode, in which a fresh batch norm is the identity",
        "band": "lowest and highest over seeds",
    }
    return {"depths": list(depths), "series": series, "about": about}


def _find(graphs: Sequence[Data], distance: int, index: int | None, pair: tuple[int, int] | None) -> tuple[int, tuple[int, int]]:
    """The graph and the pair to measure."""
    if isinstance(graphs, Data):
        raise ValueError("'graphs' must be a list of graphs (got one Data); pass [data]")
    if index is not None and not 0 <= index < len(graphs):
        raise ValueError(f"'index' must be the number of a graph, from 0 to {len(graphs) - 1} (got {index})")
    index = 0 if index is None and pair is not None else index
    for i in range(len(graphs)) if index is None else (index,):
        num_nodes = int(graphs[i].num_nodes or 0)
        if pair is not None and not all(0 <= vertex < num_nodes for vertex in pair):
            raise ValueError(f"'pair' must be two vertices from 0 to {num_nodes - 1} of graph {i} (got {pair[0]} and {pair[1]})")
        if found := pair or distant_pair(graphs[i].edge_index, num_nodes, distance):
            _check_features(graphs[i].x, i)
            return i, found
    where = "a graph" if index is None else f"graph {index}"
    raise ValueError(f"'distance' must be that of two vertices of {where} (got {distance}, which none have); pass a smaller one")


def _check_features(x: Tensor | None, index: int) -> None:
    if x is None:
        raise ValueError(
            f"'graphs' must have features 'x', which the Jacobian is taken by (got none on graph {index}); add some, such as "
            "torch_geometric.transforms.OneHotDegree does, or 'x' in an .npz file"
        )
    if not x.is_floating_point():
        raise ValueError(
            f"'graphs' must have numbers as features 'x' (got {x.dtype} on graph {index}, and categories have no derivative); make them "
            "floating-point, such as one-hot"
        )


def _draw(model: MPNN | GUMP, weights: str) -> None:
    """Draws the matrices of all layers by one rule."""
    for matrix in (p for p in model.convs.parameters() if p.dim() == 2):
        if weights == "he":
            torch.nn.init.kaiming_normal_(matrix, nonlinearity="relu")
        else:
            torch.nn.init.xavier_uniform_(matrix)


def _systems(width: int, diameter: int) -> dict[str, tuple[_Prepare, _Make]]:
    """What happens to the graph, and how the model for a number of features and a depth is made, by the name in the legend."""

    def plain(conv: str) -> _Make:
        return lambda channels, depth: MPNN(channels, width, depth, conv=conv)

    def as_is(data: Data) -> Data:
        return data

    def gump(**settings: Any) -> _Make:
        return lambda channels, depth: GUMP(channels, width, depth, conv="gcn", base="gcn", **settings)

    return {
        "GUMP": (as_is, gump()),
        "GUMP (paper)": (as_is, gump(**PRESETS["paper"])),
        "GCN": (as_is, plain("gcn")),
        "GIN": (as_is, plain("gin")),
        "DIGL": (DIGL(), plain("gcn")),
        "SDRF": (SDRF(), plain("gcn")),
        "FoSR": (FoSR(), plain("gcn")),
        "GTR": (GTR(), plain("gcn")),
        "DRew": (AddHops(diameter), lambda channels, depth: DRewGCN(channels, width, depth, max_distance=diameter)),
        "A-DGN": (as_is, lambda channels, depth: ADGN(channels, width, depth)),
        "UnitaryGCN": (as_is, lambda channels, depth: UnitaryGCN(channels, width, depth)),
    }
