"""How alike the states of a graph become from layer to layer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import AntiSymmetricConv
from torch_geometric.utils import to_undirected

from gump.diagnostics.twin import twin
from gump.line_graph import EulerianLineGraph


@dataclass(frozen=True)
class LayerState:
    r"""What the states are like between two layers.

    Args:
        energy: The sum of their squares, :math:`\lVert \mathbf{H} \rVert_F^2`.
        dirichlet_energy: See :func:`dirichlet_energy`; for states of arcs over transitions, :func:`arc_dirichlet_energy`.
        roughness: That energy over what it would be on average without the cross terms: 0 where neighbors are equal, 1 where they have
            nothing to do with each other, up to 2 where they are opposite.
        rank_one_distance: See :func:`rank_one_distance`.
        mean_cosine: See :func:`mean_cosine`.
    """

    energy: float
    dirichlet_energy: float
    roughness: float
    rank_one_distance: float
    mean_cosine: float


def dirichlet_energy(h: Tensor, edge_index: Tensor) -> Tensor:
    r"""Sums how much the states of neighbors differ.

    .. math::
        E(\mathbf{H}) = \tfrac{1}{2} \sum_{(u, v)} \lVert \mathbf{h}_u - \mathbf{h}_v \rVert^2

    over both orientations of every edge, however it is listed, so that an edge counts once. Zero where every component has one state. A GCN
    that over-smooths ends in states proportional to the roots of the degrees, which differ: see :func:`rank_one_distance`.

    Args:
        h: The states.
        edge_index: The edges, in one orientation or both; one that is listed twice counts once.

    Shapes:
        - **h:** :math:`(N, F)`
        - **edge_index:** :math:`(2, E)`

    Example:
        >>> dirichlet_energy(torch.tensor([[1.0], [3.0]]), torch.tensor([[0, 1], [1, 0]]))
        tensor(4.)
    """
    source, target = to_undirected(edge_index, num_nodes=h.size(0))
    return (h[source] - h[target]).square().sum() / 2


def arc_dirichlet_energy(h: Tensor, line_graph: EulerianLineGraph) -> Tensor:
    r"""Sums how much the states of consecutive arcs differ: the Dirichlet energy over the transitions of the line graph.

    .. math::
        E(\mathbf{H}) = \tfrac{1}{2} \sum_{v} \sum_{u, w \in N(v)} \lVert \mathbf{h}_{(u, v)} - \mathbf{h}_{(v, w)} \rVert^2

    Transitions are not listed. At a vertex with :math:`d` arcs in, :math:`\mathbf{a}`, and as many out, :math:`\mathbf{b}`, the sum over all
    pairs is :math:`d \sum \lVert \mathbf{a} - \bar{\mathbf{a}} \rVert^2 + d \sum \lVert \mathbf{b} - \bar{\mathbf{b}} \rVert^2 + d^2 \lVert
    \bar{\mathbf{a}} - \bar{\mathbf{b}} \rVert^2`, which is never negative, however near to each other the states are.

    Args:
        h: The states, in the order of ``line_graph.arcs``.
        line_graph: The arcs.

    Shapes:
        - **h:** :math:`(A, F)`

    Example:
        >>> line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0], [1]]))
        >>> arc_dirichlet_energy(torch.tensor([[1.0], [3.0]]), line_graph)  # (0, 1) follows on (1, 0), and the other way round
        tensor(4.)
    """
    degree = _degrees(line_graph).to(h.dtype).unsqueeze(-1)
    ingoing, outgoing = (_sums(h, line_graph, end) / degree.clamp_min(1) for end in (1, 0))
    apart = ((h - ingoing[line_graph.arcs[1]]).square() * degree[line_graph.arcs[1]]).sum()
    apart = apart + ((h - outgoing[line_graph.arcs[0]]).square() * degree[line_graph.arcs[0]]).sum()
    return (apart + (degree * (ingoing - outgoing)).square().sum()) / 2


def rank_one_distance(h: Tensor) -> Tensor:
    r"""Computes which share of the energy is left when all states are multiples of one vector.

    .. math::
        1 - \sigma_1^2 / \textstyle\sum_i \sigma_i^2

    Zero where all rows point one way, whatever their lengths: then no linear map can tell vertices apart but by a number. That is what
    over-smoothing is in general (`Roth and Liebig 2023 <https://arxiv.org/abs/2308.16800>`_, whose distance is another with the same
    zeros). At most :math:`1 - 1 / \min(N, F)`; zero where all states are zero, NaN where one is not finite.

    Args:
        h: The states.

    Shapes:
        - **input:** :math:`(N, F)`

    Example:
        >>> rank_one_distance(torch.tensor([[1.0, 2.0], [3.0, 6.0]])).round(decimals=6)
        tensor(0.)
        >>> rank_one_distance(torch.eye(4)).round(decimals=6)
        tensor(0.7500)
    """
    if h.numel() == 0:
        return h.new_zeros(())
    if not bool(h.isfinite().all()):  # torch decomposes infinity without a word, and NaN not at all
        return h.new_full((), torch.nan)
    squares = torch.linalg.svdvals(h.double()).square()  # in descending order; those of a Gram matrix would be lost in rounding
    total = squares.sum()
    return torch.where(total > 0, squares[1:].sum() / total, 0).to(h.dtype)


def mean_cosine(h: Tensor) -> Tensor:
    r"""Averages the cosine of the angle between two states over all pairs of different rows.

    .. math::
        \frac{\lVert \sum_i \hat{\mathbf{h}}_i \rVert^2 - n}{n (n - 1)}, \quad \hat{\mathbf{h}}_i = \mathbf{h}_i / \lVert \mathbf{h}_i \rVert

    One where all states point the same way. Rows that are zero do not count; with fewer than two others the result is NaN.

    Args:
        h: The states.

    Shapes:
        - **input:** :math:`(N, F)`

    Example:
        >>> mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])).round(decimals=4)
        tensor(0.3333)
    """
    norm = h.norm(dim=-1, keepdim=True)
    unit = h / torch.where(norm > 0, norm, 1)
    count = (norm > 0).sum()
    return (unit.sum(0).square().sum() - count) / (count * (count - 1))


@torch.no_grad()
def collapse_by_layer(
    model: torch.nn.Module, x: Tensor, edge_index: Tensor, layers: Sequence[torch.nn.Module] | None = None, **kwargs: Any
) -> list[LayerState]:
    """Measures the states that go into every layer of a model, and those that come out of the last.

    The layers are watched while the model runs, so that norms, nonlinearities and residuals between them count. A layer that is called
    several times is several layers, and so are the steps inside of PyG's ``AntiSymmetricConv``; complex states count as pairs of real ones.
    The model is measured in the mode in which it is, as by all diagnostics, and stays as it is; call ``model.eval()`` before if batch norm and
    dropout should do what they do in evaluation.

    Args:
        model: Any model that takes vertex features and edges. One that takes a ``line_graph``, such as :class:`gump.nn.GUMP`, is given
            one. States of arcs are compared along transitions.
        x: Vertex features.
        edge_index: The edges, as the model takes them; states are compared along either orientation.
        layers: Modules of the model, in any order; by default its ``convs``, or its ``layers``.
        kwargs: Whatever else the model's forward takes.

    Returns:
        One more than there are layers; the first is what the first layer is given.
    """
    if layers is not None and not set(layers) <= set(model.modules()):
        raise ValueError("'layers' must be modules of 'model' (got others)")
    chosen = layers if layers is not None else getattr(model, "convs", getattr(model, "layers", None))
    if not isinstance(chosen, torch.nn.ModuleList | torch.nn.Sequential | Sequence) or len(chosen) == 0:
        raise ValueError(f"'model' must have its layers in 'convs' or 'layers' (got {type(model).__name__}); name them as 'layers'")
    names = {name for name, module in model.named_modules() if any(module is layer for layer in chosen)}
    measured = twin(model)
    states: list[tuple[Tensor, EulerianLineGraph | None]] = []
    last: list[tuple[Tensor, EulerianLineGraph | None]] = []

    def watch_input(module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        states.append((_state(_first_argument(module, inputs, named)), _line_graph_among(inputs, named)))

    def watch_output(_: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        found = _state(output[0] if isinstance(output, tuple) and not hasattr(output, "dense") else output)
        last[:] = [(found, _line_graph_among(inputs, named))]

    for name, module in measured.named_modules():
        if name in names:
            step = module.phi if isinstance(module, AntiSymmetricConv) else module
            step.register_forward_pre_hook(watch_input, with_kwargs=True)
            module.register_forward_hook(watch_output, with_kwargs=True)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, x.size(0), bool(getattr(model, "directed", False)))
    if "line_graph" in inspect.signature(model.forward).parameters:
        kwargs.setdefault("line_graph", line_graph)
    measured(x, edge_index, **kwargs)
    if not states:
        raise ValueError("'layers' must be called when 'model' runs (got none that was); name others as 'layers'")
    return [_measured(h, line_graph if arcs is None else arcs, arcs is not None) for h, arcs in states + last]


def _first_argument(module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What a layer calls its first argument, whether it came by its name or not."""
    return inputs[0] if inputs else next(iter(inspect.signature(module.forward).bind(**named).arguments.values()))


def _line_graph_among(inputs: tuple[Any, ...], named: dict[str, Any]) -> EulerianLineGraph | None:
    """The line graph on whose arcs a layer works: one of its arguments, or that of a propagation among them."""
    given = [*inputs, *named.values()]
    found = [each if isinstance(each, EulerianLineGraph) else getattr(each, "line_graph", None) for each in given]
    return next((each for each in found if isinstance(each, EulerianLineGraph)), None)


def _state(given: Any) -> Tensor:
    """The states in what a layer is given: arc features are kept in parts, and a pair holds those of sources and of targets."""
    if hasattr(given, "dense"):
        given = given.dense()
    elif isinstance(given, tuple | list) and len(given) == 2:
        given = given[0] if given[1] is None else given[1]
    if not isinstance(given, Tensor) or given.dim() != 2:
        what = list(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise ValueError(
            f"'layers' must take and return states first, a row for each vertex or arc (got {what}); name others as 'layers'"
        )
    return given.clone()


def _measured(h: Tensor, line_graph: EulerianLineGraph, on_arcs: bool) -> LayerState:
    h = torch.view_as_real(h).flatten(-2).double() if h.is_complex() else h.double()
    on_arcs = on_arcs and h.size(0) == line_graph.num_arcs  # and not of vertices, to which a line graph was given all the same
    if not on_arcs and h.size(0) != line_graph.num_nodes:
        raise ValueError(
            f"'layers' must have a state for each of the {line_graph.num_nodes} vertices (got {h.size(0)}); name those before pooling as 'layers'"
        )
    if not on_arcs:
        energy, squares = dirichlet_energy(h, line_graph.arcs), h[line_graph.arcs.flatten()].square().sum()
    else:
        energy, squares = arc_dirichlet_energy(h, line_graph), _transition_squares(h, line_graph)
    return LayerState(
        energy=float(h.square().sum()),
        dirichlet_energy=float(energy),
        roughness=float(2 * energy / squares) if squares != 0 else 0.0,
        rank_one_distance=float(rank_one_distance(h)),
        mean_cosine=float(mean_cosine(h)),
    )


def _transition_squares(h: Tensor, line_graph: EulerianLineGraph) -> Tensor:
    """The squared lengths of both ends of every transition, summed: an arc begins as many as its target has arcs, and ends as many as its source."""
    degree = _degrees(line_graph)
    return (h.square().sum(-1) * degree[line_graph.arcs].sum(0)).sum()


def _degrees(line_graph: EulerianLineGraph) -> Tensor:
    """How many arcs begin, and end, at every vertex."""
    return line_graph.arcs[0].bincount(minlength=line_graph.num_nodes)


def _sums(h: Tensor, line_graph: EulerianLineGraph, end: int) -> Tensor:
    """The states of the arcs that begin (0) or end (1) at every vertex, summed."""
    return h.new_zeros(line_graph.num_nodes, h.size(-1)).index_add(0, line_graph.arcs[end], h)
