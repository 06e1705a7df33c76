"""The expected Jacobian of message passing with random gates: Proposition 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gump.diagnostics.row_energy import check_operator


class ExpectedJacobian(NamedTuple):
    r"""The Jacobians of one target with respect to all sources, in the mean over draws of the gates.

    Args:
        mean: The mean over draws.
        standard_error: Of every entry of the mean.
        product: What the factorization predicts but for the gates, :math:`(\prod_{l=L}^{1} \mathbf{W}_l^{\top}) (\mathbf{A}^L)_{is}`.
        gate: The factor :math:`\rho_L`: :math:`p^L` where gates are drawn, the one that fits the mean best where they are those of ReLU.

    Shapes:
        - **mean, standard_error, product:** :math:`(N, F_{out}, F_{in})`, by source
    """

    mean: Tensor
    standard_error: Tensor
    product: Tensor
    gate: float

    @property
    def deviation(self) -> float:
        """How far the mean is from the factorization, in the Frobenius norm, as a share of the mean."""
        return float((self.mean - self.gate * self.product).norm() / self.mean.norm())


def expected_jacobian(
    operator: Tensor,
    weights: Sequence[Tensor],
    target: int,
    num_samples: int = 1000,
    keep: float | None = 0.5,
    generator: torch.Generator | None = None,
) -> ExpectedJacobian:
    r"""Estimates the expected Jacobian by Monte Carlo, beside the product that it should be (Proposition 4).

    .. math::
        \mathbf{H}^{(l)} = \mathbf{Z}_l \circ (\mathbf{A} \mathbf{H}^{(l-1)} \mathbf{W}_l), \qquad
        \mathbb{E}\left[\frac{\partial \mathbf{h}_i^{(L)}}{\partial \mathbf{x}_s}\right]
            = \rho_L \left(\prod_{l=L}^{1} \mathbf{W}_l^{\top}\right) (\mathbf{A}^L)_{is}

    With drawn gates, each open with the probability ``keep`` on its own, every path is open with :math:`\rho_L = p^L`, the
    proposition's assumption holds and so must its claim, up to the error of sampling. With ``keep=None`` the gates are those of ReLU on
    Gaussian features. There the assumption is an approximation, and :attr:`ExpectedJacobian.deviation` says how good a one: gates of
    later layers follow the weights, and they are more often open where activations are positive already.

    Args:
        operator: The propagation matrix :math:`\mathbf{A}`, dense and real.
        weights: The matrices :math:`\mathbf{W}_1, \dots, \mathbf{W}_L`.
        target: The vertex or arc :math:`i` that is read.
        num_samples: The number of draws.
        keep: The probability that a gate is open; none for those of ReLU.
        generator: The source of randomness.

    Shapes:
        - **operator:** :math:`(N, N)`
        - **weights:** :math:`(F_{l-1}, F_l)` each
    """
    check_operator(operator, 0)
    if operator.is_complex() or operator.layout != torch.strided:
        raise ValueError(f"'operator' must be dense and real (got {operator.layout} of {operator.dtype}); pass operator.to_dense()")
    if not 0 <= target < operator.size(0):
        raise ValueError(f"'target' must be one of the {operator.size(0)} rows of 'operator' (got {target})")
    if not weights:
        raise ValueError("'weights' must hold a matrix for each of at least one layer (got none)")
    if keep is not None and not 0 < keep <= 1:
        raise ValueError(f"'keep' must be above 0 and at most 1 (got {keep})")
    if not isinstance(num_samples, int) or num_samples < 2:
        raise ValueError(f"'num_samples' must be at least 2 for a standard error (got {num_samples})")
    for i, weight in enumerate(weights):
        if weight.dim() != 2 or (i and weight.size(0) != weights[i - 1].size(1)):
            raise ValueError(
                f"'weights' must be matrices of which each takes what the one before gives (got {[list(w.shape) for w in weights]})"
            )
        if (weight.dtype, weight.device) != (operator.dtype, operator.device):
            raise ValueError(
                f"'weights' must have the precision and the device of 'operator', {operator.dtype} on {operator.device} (got {weight.dtype} on "
                f"{weight.device})"
            )
    size = operator.size(0)
    total = square = operator.new_zeros(size, weights[-1].size(1), weights[0].size(0))
    for _ in range(num_samples):
        sample = _sample(operator, weights, target, _gates(operator, weights, keep, generator))
        total, square = total + sample, square + sample.square()
    mean = total / num_samples
    error = ((square / num_samples - mean.square()).clamp(min=0) / (num_samples - 1)).sqrt()
    product = _sample(operator, weights, target, [operator.new_ones(size, w.size(1)) for w in weights])
    gate = keep ** len(weights) if keep is not None else float((mean * product).sum() / product.square().sum())
    return ExpectedJacobian(mean, error, product, gate)


def _gates(operator: Tensor, weights: Sequence[Tensor], keep: float | None, generator: torch.Generator | None) -> list[Tensor]:
    """Which entries of every layer pass."""
    size, drawn_on = operator.size(0), "cpu" if generator is None else generator.device
    if keep is not None:
        return [(torch.rand(size, w.size(1), generator=generator, device=drawn_on) < keep).to(operator) for w in weights]
    h = torch.randn(size, weights[0].size(0), generator=generator, dtype=operator.dtype, device=drawn_on).to(operator)
    gates = []
    for weight in weights:
        h = (operator @ h @ weight).relu()
        gates.append((h > 0).to(operator.dtype))
    return gates


def _sample(operator: Tensor, weights: Sequence[Tensor], target: int, gates: Sequence[Tensor]) -> Tensor:
    """The Jacobian of one draw, backwards from the target."""
    width = weights[-1].size(1)
    grad = operator.new_zeros(width, operator.size(0), width)
    grad[:, target] = torch.eye(width, dtype=operator.dtype, device=operator.device)
    for weight, gate in zip(reversed(weights), reversed(gates), strict=True):
        grad = operator.t() @ (gate * grad) @ weight.t()
    return grad.transpose(0, 1)
