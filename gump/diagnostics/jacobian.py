"""How much one vertex's features move another vertex's representation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gump.diagnostics.distances import hop_distances


def jacobian(model: Callable[..., Tensor], x: Tensor, edge_index: Tensor, source: int, target: int, **kwargs: Any) -> Tensor:
    r"""Differentiates what a model returns for one vertex by the features of another.

    .. math::
        \mathbf{J} = \frac{\partial \mathbf{h}_{\mathrm{target}}}{\partial \mathbf{x}_{\mathrm{source}}}

    Exact, by one backward pass for every column of the result. The model is measured in the mode in which it is, and stays as it is; in
    training mode a batch norm joins all vertices, and dropout draws.

    Args:
        model: Any model ``model(x, edge_index, ...)`` that returns a row for every vertex.
        x: Vertex features, in the precision of the model; where signals may vanish, that should be float64.
        edge_index: The edges.
        source: The vertex whose features move.
        target: The vertex whose representation is read.
        kwargs: Whatever else the model's forward takes.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **output:** :math:`(F_{out}, F_{in})`

    Example:
        >>> def model(x, edge_index):
        ...     return 2 * x.flip(0)
        >>> jacobian(model, torch.zeros(2, 1), torch.tensor([[0], [1]]), source=0, target=1)
        tensor([[2.]])
    """
    for name, vertex in (("source", source), ("target", target)):
        if not 0 <= vertex < x.size(0):
            raise ValueError(f"'{name}' must be one of the {x.size(0)} vertices (got {vertex})")
    if not x.is_floating_point():
        raise ValueError(f"'x' must hold floating-point features (got {x.dtype}); categories have no derivative")
    model = copy.deepcopy(model)  # in training mode, measuring would move the averages of a batch norm
    if isinstance(model, torch.nn.Module):
        model.requires_grad_(False)
    row = x[source].detach().clone().requires_grad_()
    with torch.enable_grad():
        out = model(torch.cat([x[:source].detach(), row.unsqueeze(0), x[source + 1 :].detach()]), edge_index, **kwargs)
    if not isinstance(out, Tensor) or out.dim() != 2 or out.size(0) != x.size(0):
        shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(f"'model' must return a row for each of the {x.size(0)} vertices (got {shape}); pass it without pooling")
    if not out.requires_grad:
        return x.new_zeros(out.size(1), row.numel())
    rows = [torch.autograd.grad(o, row, retain_graph=True, allow_unused=True)[0] for o in out[target]]
    return torch.stack([torch.zeros_like(row) if r is None else r for r in rows])


def jacobian_norm(model: Callable[..., Tensor], x: Tensor, edge_index: Tensor, source: int, target: int, **kwargs: Any) -> float:
    r"""Computes the spectral norm :math:`\lVert \partial \mathbf{h}_{\mathrm{target}} / \partial \mathbf{x}_{\mathrm{source}} \rVert_2`.

    Zero where the model cannot see from one vertex to the other. Arguments as for :func:`jacobian`.
    """
    return float(torch.linalg.matrix_norm(jacobian(model, x, edge_index, source, target, **kwargs), ord=2))


def jacobian_by_depth(
    make_model: Callable[[int], Callable[..., Tensor]],
    depths: Sequence[int],
    x: Tensor,
    edge_index: Tensor,
    source: int,
    target: int,
    seeds: Sequence[int] = (0,),
    **kwargs: Any,
) -> Tensor:
    r"""Computes :func:`jacobian_norm` for fresh models of several depths.

    Args:
        make_model: Makes the model of a depth. Its weights are drawn after the seed was set; the caller's generator is left alone.
        depths: The depths.
        x: Vertex features.
        edge_index: The edges.
        source: The vertex whose features move.
        target: The vertex whose representation is read.
        seeds: One model is drawn for each, at every depth.
        kwargs: Whatever else the models' forward takes.

    Shapes:
        - **output:** :math:`(\mathrm{num\_depths}, \mathrm{num\_seeds})`, in float64
    """
    norms = torch.empty(len(depths), len(seeds), dtype=torch.float64)
    for i, depth in enumerate(depths):
        for j, seed in enumerate(seeds):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = make_model(depth)
                norms[i, j] = jacobian_norm(model, x, edge_index, source, target, **kwargs)
    return norms


def distant_pair(edge_index: Tensor, num_nodes: int, distance: int) -> tuple[int, int] | None:
    """Finds the first pair of vertices at exactly a distance: that of the first vertex which has one, with the first that is there.

    Args:
        edge_index: The edges, either orientation of which counts.
        num_nodes: The number of vertices.
        distance: The number of edges between the two.

    Example:
        >>> distant_pair(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, distance=2)
        (0, 2)
    """
    pairs = (hop_distances(edge_index, num_nodes) == distance).nonzero()
    return (int(pairs[0, 0]), int(pairs[0, 1])) if len(pairs) else None
