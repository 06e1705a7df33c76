"""How the energy that an almost unitary operator loses adds up with depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from gump.diagnostics.row_energy import check_operator, row_energy
from gump.linalg import unitarity_error

FLOOR = 1e-6
"""Energies below are not fitted: nobody can use so little of a signal."""

SHAPES = (0.01, 1000.0)
"""The least and the greatest shape that is fitted."""


def energy_kept(operator: Tensor, depth: int, num_probes: int | None = None, generator: torch.Generator | None = None) -> Tensor:
    r"""Computes which share of a signal's energy is left after every number of steps, :math:`\lVert \mathbf{U}^L \rVert_F^2 / N`.

    One at every depth for a unitary operator. It is :math:`N` times the mean of :func:`row_energy`.

    Args:
        operator: The matrix of one step, dense or sparse.
        depth: The largest number of steps.
        num_probes: How many vectors of random signs to follow, at least one, whose energies have this mean; by default all rows are, exactly.
        generator: The source of the signs.

    Shapes:
        - **operator:** :math:`(N, N)`
        - **output:** :math:`(\mathrm{depth} + 1)`

    Example:
        >>> energy_kept(torch.diag(torch.tensor([1.0, 0.5])), depth=2)
        tensor([1.0000, 0.6250, 0.5312])
    """
    if num_probes is None:
        return row_energy(operator, depth).sum(1)
    check_operator(operator, depth)
    if num_probes < 1:
        raise ValueError(f"'num_probes' must be at least 1 (got {num_probes}); leave it out for the exact energy")
    probes = torch.randint(2, (operator.size(0), num_probes), generator=generator).to(operator) * 2 - 1
    energies = [probes.abs().square().mean()]
    for _ in range(depth):
        probes = operator @ probes
        energies.append(probes.abs().square().mean())
    return torch.stack(energies)


class StepLoss(NamedTuple):
    r"""What one step of blocks that are not quite orthogonal costs.

    Args:
        residual: The root of the mean of :math:`r_v^2` over arcs, which is the unitarity error of the whole operator.
        loss: The share of a signal's energy that one step loses in the mean, :math:`1 - \lVert \mathbf{U} \rVert_F^2 / N`.
    """

    residual: float
    loss: float


def step_loss(blocks: Sequence[Tensor]) -> StepLoss:
    r"""Measures residual and loss of the blocks of an operator.

    For singular values that do not exceed one, as after Newton-Schulz, :math:`r^2 \le \mathrm{loss} \le r`: with
    :math:`\delta = 1 - \sigma^2 \in [0, 1]` the loss is the mean of :math:`\delta` and :math:`r^2` that of :math:`\delta^2`. The lower bound is
    met where singular values are zero or one, the upper where all are alike.

    Args:
        blocks: One tensor for every degree.

    Shapes:
        - **blocks:** :math:`(\mathrm{num\_blocks}, d, d)` each

    Example:
        >>> step_loss([torch.diag(torch.tensor([1.0, 0.0])).unsqueeze(0)])
        StepLoss(residual=0.7071..., loss=0.5)
    """
    num_arcs = sum(b.size(0) * b.size(-1) for b in blocks)
    if num_arcs == 0:
        raise ValueError("'blocks' must hold a block (got none): the graph has no edge")
    square = sum(float(unitarity_error(b).square().sum()) * b.size(-1) for b in blocks) / num_arcs
    return StepLoss(square**0.5, 1 - sum(float(b.square().sum()) for b in blocks) / num_arcs)


def blocks_of_condition(num_blocks: int, degree: int, condition: float, generator: torch.Generator | None = None) -> Tensor:
    r"""Draws blocks whose singular values run from one to :math:`1 / \kappa` in equal ratios, between random orthogonal matrices.

    Shapes:
        - **output:** :math:`(\mathrm{num\_blocks}, d, d)`, in float64
    """
    normal = torch.randn(2, num_blocks, degree, degree, generator=generator, dtype=torch.float64)
    (left, right), exponent = torch.linalg.qr(normal)[0], torch.linspace(0, -1, degree, dtype=torch.float64)
    return left * condition**exponent @ right


def predicted_energy(loss: Tensor, depth: Tensor, shape: float) -> Tensor:
    r"""Predicts the energy that is left from the loss of the first step.

    .. math::
        E(L) = \left(1 + L \left((1 - \delta)^{-1/\gamma} - 1\right)\right)^{-\gamma}

    The mean of :math:`e^{-\lambda L}` over rates :math:`\lambda` of a gamma distribution of shape :math:`\gamma`, scaled so that
    :math:`E(1) = 1 - \delta`. A large :math:`\gamma` gives :math:`(1 - \delta)^L`: every part of the signal loses at the same rate, as where
    the walk mixes; an infinite one is that law. A small one has a long tail: part of the signal lives where nothing is lost.
    """
    if math.isinf(shape):
        return (1 - loss) ** depth
    return (1 + depth * ((1 - loss) ** (-1 / shape) - 1)) ** -shape


class DecayFit(NamedTuple):
    r"""How well two laws tell the energy at depth from that after one step.

    Args:
        shape: The :math:`\gamma` of :func:`predicted_energy` that fits best, from 0.01 to 1000; infinite where the exponential law
            :math:`(1 - \delta)^L` fits no worse than the best of them.
        error: The root mean square of the error of :math:`\ln E` under that law.
        exponential_error: The same for the exponential law.
        num_points: How many energies were fitted.
        at_bound: Whether the best of the finite shapes is the least or the greatest, so that others might fit better still.
    """

    shape: float
    error: float
    exponential_error: float
    num_points: int
    at_bound: bool


def fit_decay(energy: Tensor) -> DecayFit:
    r"""Fits one :math:`\gamma` to the decay of many operators.

    Energies below 1e-6 are left out, and so is an operator that loses less than 1e-9 in its first step.

    Args:
        energy: What :func:`energy_kept` returned, a row for every operator.

    Shapes:
        - **input:** :math:`(\mathrm{num\_operators}, \mathrm{depth} + 1)`
    """
    energy = energy.double()
    loss = (1 - energy[:, 1]).unsqueeze(1).expand_as(energy)
    depth = torch.arange(energy.size(1), dtype=torch.float64).expand_as(energy)
    used = (energy > FLOOR) & (loss > 1e-9) & (depth > 1)
    if not bool(used.any()):
        raise ValueError("'energy' must hold an operator that loses energy, beyond one step (got none): there is nothing to fit")
    loss, depth, logarithm = loss[used], depth[used], energy[used].log()

    def error(log_shape: float) -> float:
        return float((predicted_energy(loss, depth, 10**log_shape).log() - logarithm).square().mean().sqrt())

    low, high = (math.log10(bound) for bound in SHAPES)
    best = minimize_scalar(error, bounds=(low, high), method="bounded")
    exponential = float((depth * torch.log1p(-loss) - logarithm).square().mean().sqrt())
    at_bound = bool(min(best.x - low, high - best.x) < 1e-3)
    shape = math.inf if exponential <= best.fun else float(10**best.x)
    return DecayFit(shape, min(float(best.fun), exponential), exponential, int(used.sum()), at_bound)
