"""How much one vertex's features move another vertex's representation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gump.diagnostics.distances import hop_distances
from gump.diagnostics.twin import twin


def jacobian(model: Callable[..., Tensor], x: Tensor, edge_index: Tensor, source: int, target: int, **kwargs: Any) -> Tensor:
    r"""Differentiates what a model returns for one vertex by the features of another.

    .. math::
        \mathbf{J} = \frac{\partial \mathbf{h}_{\mathrm{target}}}{\partial \mathbf{x}_{\mathrm{source}}}

    Exact, by one backward pass for every row of the result. The model is measured in the mode in which it is, and stays as it is; in
    training mode a batch norm joins all vertices, and dropout draws.

    Args:
        model: Any model ``model(x, edge_index, ...)`` that returns a row, or a number, for every vertex.
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
    if x.dim() != 2:
        raise ValueError(f"'x' must have shape [num_nodes, num_features] (got {list(x.shape)})")
    for name, vertex in (("source", source), ("target", target)):
        if not 0 <= vertex < x.size(0):
            raise ValueError(f"'{name}' must be one of the {x.size(0)} vertices (got {vertex})")
    if not x.is_floating_point():
        raise ValueError(f"'x' must hold floating-point features (got {x.dtype}); categories have no derivative")
    model = twin(model)
    if isinstance(model, torch.nn.Module):
        _check_precision(model, x)
        model.requires_grad_(False)
    row = x[source].detach().clone().requires_grad_()
    with torch.enable_grad():
        out = model(torch.cat([x[:source].detach(), row.unsqueeze(0), x[source + 1 :].detach()]), edge_index, **kwargs)
    out = _checked_rows(out, x.size(0))
    if not out.requires_grad:
        return x.new_zeros(out.size(1), row.numel())
    rows = [torch.autograd.grad(o, row, retain_graph=True, allow_unused=True)[0] for o in out[target]]
    return torch.stack([torch.zeros_like(row) if r is None else r for r in rows])


def _check_precision(model: torch.nn.Module, x: Tensor) -> None:
    """Refuses features that no parameter could be multiplied with."""
    kinds = {(p.dtype, p.device) for p in model.parameters() if p.is_floating_point()}
    if kinds and (x.dtype, x.device) not in kinds:
        dtype, device = next(iter(kinds))
        raise ValueError(
            f"'x' must have the precision and the device of 'model', {dtype} on {device} (got {x.dtype} on {x.device}); pass model.to(x)"
        )


def _checked_rows(out: Any, num_nodes: int) -> Tensor:
    """Refuses what is no row of real numbers for every vertex."""
    if not isinstance(out, Tensor):
        raise ValueError(
            f"'model' must return a tensor (got {type(out).__name__}); pass a function that picks it, such as "
            "lambda x, edge_index: model(x, edge_index)[0]"
        )
    if out.dim() == 1 and out.size(0) == num_nodes:
        out = out.unsqueeze(1)
    if out.dim() != 2 or out.size(0) != num_nodes:
        raise ValueError(
            f"'model' must return a row for each of the {num_nodes} vertices (got {list(out.shape)}); pass it without pooling"
        )
    if out.is_complex():
        raise ValueError(
            f"'model' must return real numbers (got {out.dtype}); pass a function that returns both parts, such as "
            "lambda x, edge_index: torch.view_as_real(model(x, edge_index)).flatten(1)"
        )
    return out


def jacobian_norm(model: Callable[..., Tensor], x: Tensor, edge_index: Tensor, source: int, target: int, **kwargs: Any) -> float:
    r"""Computes the spectral norm :math:`\lVert \partial \mathbf{h}_{\mathrm{target}} / \partial \mathbf{x}_{\mathrm{source}} \rVert_2`.

    Zero where the model cannot see from one vertex to the other, NaN where a derivative is not finite. Arguments as for :func:`jacobian`.
    """
    matrix = jacobian(model, x, edge_index, source, target, **kwargs)
    return float(torch.linalg.matrix_norm(matrix, ord=2)) if bool(matrix.isfinite().all()) else math.nan


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
        make_model: Makes the model of a depth. Its weights are drawn after the seed was set; the caller's generators, of the CPU and of every
            GPU, are left alone.
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
    devices = list(range(torch.cuda.device_count())) if x.is_cuda or torch.cuda.is_initialized() else []
    for i, depth in enumerate(depths):
        for j, seed in enumerate(seeds):
            with torch.random.fork_rng(devices=devices):
                if devices:
                    torch.manual_seed(seed)
                else:
                    torch.default_generator.manual_seed(seed)  # the other would also seed GPUs that are not in use yet
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
