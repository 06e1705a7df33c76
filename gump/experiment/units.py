"""The unit of the numbers that a regression answers with."""

from __future__ import annotations

import torch
from torch import Tensor


class Units(torch.nn.Module):
    r"""Turns numbers around zero into those of the targets: :math:`\mathrm{mean} + \mathrm{spread} \cdot \mathbf{x}`, column by column.

    Behind the last layer of a predictor it lets numbers of any size be learned alike, masses in dalton like concentrations in mol/L, and answers
    keep their unit. Mean and spread are not learned.

    Args:
        num_targets: How many columns there are.

    Shapes:
        - **input:** :math:`(*, T)`
        - **output:** :math:`(*, T)`
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, num_targets: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_targets))
        self.register_buffer("spread", torch.ones(num_targets))

    @torch.no_grad()
    def fit(self, y: Tensor) -> None:
        """Takes mean and spread of the targets to learn from, a row for each answer; those that are missing are NaN, and each is known somewhere."""
        known = [column[~column.isnan()] for column in y.double().T]
        spread, mean = torch.tensor([torch.std_mean(column, correction=0) for column in known], dtype=torch.double).T
        self.mean.copy_(mean)
        self.spread.copy_(torch.where(spread > 0, spread, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """The numbers in their unit."""
        return self.mean + self.spread * x


def units_of(model: torch.nn.Module) -> Units | None:
    """The units of a predictor; classes and labels have none."""
    return next((module for module in model.modules() if isinstance(module, Units)), None)


def spread_of(model: torch.nn.Module) -> Tensor | None:
    """The spread of the targets that a predictor learns from, in which its loss is measured; none for classes and labels."""
    units = units_of(model)
    return None if units is None else units.spread
