"""What the coins of a model are like on a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gump.diagnostics.block_table import TOLERANCE
from gump.diagnostics.twin import twin
from gump.linalg import grover, polar_factor, unitarity_error


@dataclass(frozen=True)
class CoinReport:
    r"""Statistics over all blocks of a graph or batch.

    Args:
        num_blocks: The number of vertices that are not isolated.
        max_degree: The side of the largest block.
        full_rank: The share of blocks of scores whose smallest singular value exceeds 1e-7.
        max_error: The largest unitarity error of a coin.
        non_unitary: The share of coins with a unitarity error above 1e-3.
        from_grover: The median distance of a coin from the Grover coin, over vertices of degree two and more.
        from_polar: The median distance of a coin from the polar factor of its scores, where those have full rank and degree two or more.

    Distances are :math:`\lVert \mathbf{U} - \mathbf{V} \rVert_F / \sqrt{d}`: zero for equal matrices, two for opposite ones.
    """

    num_blocks: int
    max_degree: int
    full_rank: float
    max_error: float
    non_unitary: float
    from_grover: float
    from_polar: float


@torch.no_grad()
def coin_report(model: Any, x: Tensor, edge_index: Tensor, **kwargs: Any) -> CoinReport:
    """Measures the coins that a model computes for a graph.

    Args:
        model: A :class:`gump.nn.GUMP` whose coin has scores. It is measured in the mode in which it is, and stays as it is.
        x: Vertex features.
        edge_index: The edges.
        kwargs: Whatever else the model's forward takes.
    """
    if not hasattr(getattr(model, "coin", None), "kind") or not hasattr(model, "start"):
        raise ValueError(
            f"'model' must be a gump.nn.GUMP, which has coins (got {type(model).__name__}); of a larger model pass that part"
        )
    if not model.coin.has_scores:
        raise ValueError(f"'model' must have a coin with scores (got '{model.coin.kind}')")
    model = twin(model)
    start = model.start(x, edge_index, **kwargs)
    if start.line_graph.num_arcs == 0:
        raise ValueError("'edge_index' must have an edge (got none): without one there are no coins")
    if start.line_graph.max_degree > model.coin.max_block:
        raise ValueError(
            f"'model' must have a block for every vertex (got max_block={model.coin.max_block}, and vertex "
            f"{int(start.line_graph.block_vertices[-1])} has degree {start.line_graph.max_degree:,}); raise 'max_block' to measure hubs as blocks"
        )
    scores = model.coin.scores(*start)
    if not all(bool(block.isfinite().all()) for block in scores):
        raise ValueError(
            "scores of coins must be finite (got NaN or infinity): look for such numbers in 'x' and in the weights of 'model'"
        )
    rank, error, from_grover, from_polar = [], [], [], []
    for block in scores:
        coin, degree = model.coin.project(block), block.size(-1)
        full = torch.linalg.svdvals(block.double())[:, -1] > TOLERANCE
        rank.append(full)
        error.append(unitarity_error(coin))
        if degree > 1:
            from_grover.append(torch.linalg.matrix_norm(coin - grover(degree, coin)) / degree**0.5)
            if bool(full.any()):
                from_polar.append(torch.linalg.matrix_norm(coin[full] - polar_factor(block[full].to(coin.dtype))) / degree**0.5)
    errors = torch.cat(error)
    return CoinReport(
        num_blocks=start.line_graph.num_blocks,
        max_degree=start.line_graph.max_degree,
        full_rank=float(torch.cat(rank).double().mean()),
        max_error=float(errors.max()),
        non_unitary=float((errors > 1e-3).double().mean()),
        from_grover=float(torch.cat(from_grover).median()) if from_grover else float("nan"),
        from_polar=float(torch.cat(from_polar).median()) if from_polar else float("nan"),
    )
