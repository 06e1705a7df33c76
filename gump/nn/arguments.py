"""Checks of the arguments that models share."""

from collections.abc import Collection

import torch
from torch import Tensor

TOLERANCE = 1e-5
"""By what share of the largest weight those of an edge in its two directions may differ."""


def check_name(argument: str, name: str | None, known: Collection[str], optional: bool = False) -> None:
    """Refuses a name that is not known, and none unless it is optional."""
    if name not in known and not (optional and name is None):
        names = [f"'{k}'" for k in known] + (["None"] if optional else [])
        raise ValueError(f"'{argument}' must be one of {', '.join(names)} (got {name!r})")


def can_look(x: Tensor) -> bool:
    """Whether the values of a tensor can be looked at without waiting: not on a GPU, and not of all replicas under ``torch.func.vmap``."""
    return x.device.type == "cpu" and not torch._C._functorch.is_batchedtensor(x)


def check_both_directions(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Refuses edges that are not listed in both directions with the same weight, where :func:`can_look` allows to see it.

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
