"""Where a signal is after some steps."""

from __future__ import annotations

import torch
from torch import Tensor

from gump.diagnostics.row_energy import check_operator


def energy_by_distance(operator: Tensor, distance: Tensor, depth: int, place: Tensor | None = None) -> Tensor:
    r"""Computes how much of a signal's energy is how many hops away from where it started, after every number of steps.

    .. math::
        E_{L,k} = \frac{1}{N} \sum_{s} \sum_{i:\, \mathrm{dist}(i, s) = k} |(\mathbf{A}^L)_{is}|^2,

    the mean over all starts of a unit signal in one state. A row sums to the energy that is left, one for a unitary operator at any depth.
    Unitarity keeps the energy, not its way: a unitary walk may stay where it is.

    Args:
        operator: The matrix of one step: over arcs for GUMP (:meth:`gump.nn.GUMP.propagation_matrix`), over vertices for other models.
        distance: The distances between all vertices, see :func:`hop_distances`.
        depth: The largest number of steps.
        place: The vertex of every state; by default states are vertices. An arc is best said to be where the model reads it, at its end:
            ``line_graph.arcs[1]``.

    Shapes:
        - **operator:** :math:`(M, M)`
        - **distance:** :math:`(N, N)`
        - **place:** :math:`(M)`
        - **output:** :math:`(\mathrm{depth} + 1, D + 2)` for the largest finite distance :math:`D`; the last column is what got to other components

    Example:
        On an edge whose ends change places, all energy is one hop away after one step and back after two:

        >>> swap, distance = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> energy_by_distance(swap, distance, depth=2)
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [1., 0., 0.]])
    """
    check_operator(operator, depth)
    size = operator.size(0)
    place = torch.arange(size) if place is None else place.cpu()
    if place.numel() != size:
        raise ValueError(f"'place' must name the vertex of each of the {size} states (got {place.numel()})")
    apart = distance.cpu()[place][:, place]
    finite = apart[apart.isfinite()]
    farthest = int(finite.max()) if finite.numel() else 0
    column = torch.where(apart.isfinite(), apart, farthest + 1).long().flatten().to(operator.device)
    power = torch.eye(size, dtype=operator.dtype, device=operator.device)
    rows = []
    for step in range(depth + 1):
        power = operator @ power if step else power
        energy = power.abs().square()
        rows.append(energy.new_zeros(farthest + 2).index_add(0, column, energy.flatten()) / max(size, 1))
    return torch.stack(rows)


def return_probability(operator: Tensor, distance: Tensor, depth: int, place: Tensor | None = None) -> Tensor:
    """Computes how much of a signal's energy is at the vertex where it started, after every number of steps.

    Arguments as for :func:`energy_by_distance`.
    """
    return energy_by_distance(operator, distance, depth, place)[:, 0]


def reach(operator: Tensor, distance: Tensor, depth: int, hops: int, place: Tensor | None = None) -> Tensor:
    """Computes how much of a signal's energy is some hops or more away from where it started, after every number of steps.

    What got to other components is farther than any number of hops. Energy that was lost is nowhere. For what an even spread would give see
    :func:`even_reach`. Arguments as for :func:`energy_by_distance`.
    """
    if hops < 0:
        raise ValueError(f"'hops' must not be negative (got {hops})")
    energy = energy_by_distance(operator, distance, depth, place)
    return energy[:, min(hops, energy.size(1) - 1) :].sum(1)


def even_reach(distance: Tensor, hops: int, place: Tensor | None = None) -> float:
    """Computes the :func:`reach` of a signal that is spread evenly over all states of its component.

    Example:
        >>> even_reach(torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]), hops=2)
        0.222...
    """
    place = torch.arange(distance.size(0)) if place is None else place.cpu()
    apart = distance.cpu()[place][:, place]
    inside = apart.isfinite()
    return float(((inside & (apart >= hops)).sum(1).double() / inside.sum(1)).mean())
