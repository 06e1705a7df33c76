"""Checks of the arguments that models share."""

from collections.abc import Collection
from numbers import Integral

import torch
from torch import Tensor

TOLERANCE = 1e-5
"""By what share of the largest weight those of an edge in its two directions may differ."""


def check_name(argument: str, name: str | None, known: Collection[str], optional: bool = False) -> None:
    """Refuses a name that is not known, and none unless it is optional."""
    if name not in known and not (optional and name is None):
        names = [f"'{k}'" for k in known] + (["None"] if optional else [])
        raise ValueError(f"'{argument}' must be one of {', '.join(names)} (got {name!r})")


def check_counts(least: int, **counts: int | None) -> None:
    """Refuses what is not an integer, or below the least; none is left out."""
    for argument, value in counts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
            raise ValueError(f"'{argument}' must be an integer (got {value!r})")
        if value is not None and value < least:
            raise ValueError(f"'{argument}' must be at least {least} (got {value})")


def check_features(x: Tensor, in_channels: int, weight: Tensor | None) -> None:
    """Refuses vertex features that do not fit a model; ``weight`` is one of its parameters, if it tells. Looks at shapes and types alone.

    Example:
        >>> check_features(torch.ones(5, 2), 3, torch.ones(8, 3))
        Traceback (most recent call last):
        ...
        ValueError: 'x' must have 3 columns, the model's in_channels (got 2)
    """
    if not isinstance(x, Tensor):
        advice = "call .to_homogeneous() on the data first" if isinstance(x, dict) else "pass torch.as_tensor(x)"
        raise ValueError(f"'x' must be a tensor (got {type(x).__name__}); {advice}")
    if x.dim() != 2:
        raise ValueError(
            f"'x' must have shape [num_nodes, in_channels] (got {list(x.shape)})"
            + ("; call x.unsqueeze(-1)" if x.dim() == 1 else "")
        )
    if x.size(1) != in_channels:
        raise ValueError(f"'x' must have {in_channels} columns, the model's in_channels (got {x.size(1)})")
    if not x.is_floating_point():
        raise ValueError(f"'x' must be real floating-point features (got {x.dtype}); call .float(), or embed what are categories")
    if weight is None:
        return
    cast = torch.is_autocast_enabled(x.device.type) and torch.float64 not in (x.dtype, weight.dtype)
    if cast and weight.dtype != torch.float32:
        raise ValueError(
            f"a model must have single precision under autocast (got {weight.dtype}); call .float(), or leave autocast out"
        )
    if x.dtype != weight.dtype and not cast:
        raise ValueError(f"'x' must have the type of the model, {weight.dtype} (got {x.dtype}); call x.to({weight.dtype})")


def can_look(x: Tensor) -> bool:
    """Whether the values of a tensor can be looked at without waiting: not on a GPU, not of all replicas under ``torch.func.vmap``, and not while a
    model is compiled or exported, when there are none."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling() and not torch._C._functorch.is_batchedtensor(x)


def is_transformed() -> bool:
    """Whether torch works on stand-ins of tensors, for which it has no sparse matrices: under the transforms of ``torch.func``, and while a model is
    compiled or exported."""
    return torch.compiler.is_compiling() or bool(torch._C._are_functorch_transforms_active())


def check_mask(mask: Tensor, edge_index: Tensor, num_nodes: int) -> None:
    """Refuses a mask that does not tell padding from the rest, where :func:`can_look` allows to see it.

    Example:
        >>> check_mask(torch.tensor([True, True, False]), torch.tensor([[0, 1], [1, 2]]), 3)
        Traceback (most recent call last):
        ...
        ValueError: 'mask' must leave out padding alone, which is joined to nothing else (got an edge from 1 to 2)
    """
    if mask.shape != (num_nodes,) or mask.dtype != torch.bool:
        raise ValueError(
            f"'mask' must have one boolean for each of {num_nodes} vertices (got {mask.dtype} of shape {list(mask.shape)})"
        )
    if can_look(mask) and can_look(edge_index):
        across = (mask[edge_index[0]] != mask[edge_index[1]]).nonzero()
        if across.numel():
            u, v = edge_index[:, int(across[0])].tolist()
            raise ValueError(f"'mask' must leave out padding alone, which is joined to nothing else (got an edge from {u} to {v})")


def check_both_directions(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Refuses edges that are not listed in both directions with the same weight, and negative weights, where :func:`can_look` allows to see it.

    Example:
        >>> check_both_directions(torch.tensor([[0, 1, 1], [1, 0, 2]]), None, 3)
        Traceback (most recent call last):
        ...
        ValueError: 'edge_index' must have every edge in both directions with the same weight (got (1, 2) without (2, 1)); apply \
torch_geometric.transforms.ToUndirected to the data
    """
    if not can_look(edge_index) or not (edge_weight is None or can_look(edge_weight)):
        return
    source, target = edge_index
    weight = torch.ones(source.numel(), dtype=torch.double) if edge_weight is None else edge_weight.detach().flatten().double()
    if not bool((weight >= 0).all()):
        raise ValueError(
            f"'edge_weight' must not be negative (got {float(weight.min()):.3g}); leave it out, or take absolute values"
        )
    pairs, number = torch.cat([source * num_nodes + target, target * num_nodes + source]).unique(return_inverse=True)
    excess = torch.zeros(pairs.numel(), dtype=torch.double).index_add_(0, number, torch.cat([weight, -weight]))
    if excess.numel() and bool((worst := excess.max()) > TOLERANCE * weight.abs().max()):
        u, v = divmod(int(pairs[excess.argmax()]), num_nodes)
        back = bool(((source == v) & (target == u)).any())
        raise ValueError(
            f"'edge_index' must have every edge in both directions with the same weight (got ({u}, {v}) "
            + (f"heavier than ({v}, {u}) by {float(worst):.3g}" if back else f"without ({v}, {u})")
            + "); apply torch_geometric.transforms.ToUndirected to the data"
        )
