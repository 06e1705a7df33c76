"""The two tables of blocks in the paper's appendix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gump.linalg import polar_factor, unitarity_error

TOLERANCE = 1e-7
"""Above which a singular value counts, as in the paper."""


@dataclass(frozen=True)
class BlockTable:
    r"""One row of both tables of the appendix: ranks and smallest singular values, and residuals after a number of steps.

    Args:
        num_blocks: The number of blocks.
        max_degree: The side of the largest.
        full_rank: The share with :math:`\sigma_{\min} > 10^{-7}`.
        smallest: The minimum, the first percentile and the median of :math:`\sigma_{\min}(\mathbf{B}_v)`.
        residuals: For every number of steps :math:`K` the median, the 95th percentile and the maximum of
            :math:`r_{v,K} = \lVert \mathbf{X}_{v,K}^{\top} \mathbf{X}_{v,K} - \mathbf{I} \rVert_F / \sqrt{d_v}`.
    """

    num_blocks: int
    max_degree: int
    full_rank: float
    smallest: tuple[float, float, float]
    residuals: dict[int, tuple[float, float, float]]


@torch.no_grad()
def block_table(blocks: Sequence[Tensor], num_steps: Sequence[int] = (5, 10)) -> BlockTable:
    r"""Measures blocks of scores as the paper's appendix does.

    Singular values are computed in float64, Newton-Schulz in the precision of the blocks; the published medians of :math:`10^{-7}` are
    those of float32. Percentiles are interpolated linearly.

    Args:
        blocks: Scores, one tensor for every degree: ``model.coin.scores(*model.start(x, edge_index))`` for a :class:`gump.nn.GUMP`.
        num_steps: The numbers :math:`K` of Newton-Schulz steps.

    Shapes:
        - **blocks:** :math:`(\mathrm{num\_blocks}, d, d)` each

    Example:
        >>> table = block_table([torch.ones(1, 2, 2), torch.eye(3).unsqueeze(0)])
        >>> table.num_blocks, table.full_rank, table.residuals[10][2]  # the block of ones keeps its rank of one
        (2, 0.5, 0.7071...)
    """
    if not blocks:
        raise ValueError("'blocks' must hold a block (got none): the graph has no edge")
    smallest = torch.cat([torch.linalg.svdvals(b.double())[:, -1] for b in blocks])
    residuals = {}
    for steps in num_steps:
        error = torch.cat([unitarity_error(polar_factor(b, num_steps=steps)).double() for b in blocks])
        residuals[steps] = (_quantile(error, 0.5), _quantile(error, 0.95), float(error.max()))
    return BlockTable(
        num_blocks=smallest.numel(),
        max_degree=max(b.size(-1) for b in blocks),
        full_rank=float((smallest > TOLERANCE).double().mean()),
        smallest=(float(smallest.min()), _quantile(smallest, 0.01), _quantile(smallest, 0.5)),
        residuals=residuals,
    )


def _quantile(values: Tensor, share: float) -> float:
    return float(np.quantile(values.cpu().numpy(), share))  # torch's refuses more than 16 million
