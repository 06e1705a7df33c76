from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from gump import EulerianLineGraph
from gump.datasets import load_tu
from gump.diagnostics.block_table import _quantile, block_table
from gump.nn import Coin

PUBLISHED = {  # blocks, largest degree, medians of the smallest singular value and of the residuals at K = 5 and K = 10
    "MUTAG": (3371, 4, 1.11e-1, 5.98e-2, 1.09e-7),
    "PROTEINS": (43466, 25, 2.65e-2, 4.98e-1, 1.89e-7),
    "ENZYMES": (19474, 9, 5.19e-3, 4.37e-1, 1.36e-7),
    "NCI1": (122319, 4, 1.33e-1, 4.86e-3, 9.78e-8),
    "NCI109": (122020, 5, 1.37e-1, 5.91e-3, 9.95e-8),
}


def test_every_number_is_what_numpy_computes_block_by_block() -> None:
    torch.manual_seed(0)
    blocks = [torch.randn(7, 2, 2).double(), torch.randn(9, 3, 3).double()]
    smallest, residuals = [], {3: [], 6: []}
    for block in (b.numpy() for group in blocks for b in group):
        smallest.append(np.linalg.svd(block, compute_uv=False)[-1])
        x = block / np.linalg.norm(block)
        for step in range(1, 7):
            x = 15 / 8 * x - 5 / 4 * x @ (x.T @ x) + 3 / 8 * x @ (x.T @ x) @ (x.T @ x)
            if step in residuals:
                residuals[step].append(np.linalg.norm(x.T @ x - np.eye(len(x))) / np.sqrt(len(x)))
    table = block_table(blocks, num_steps=(3, 6))
    assert (table.num_blocks, table.max_degree, table.full_rank) == (16, 3, 1.0)
    assert table.smallest == pytest.approx((min(smallest), np.percentile(smallest, 1), np.median(smallest)))
    for step, found in residuals.items():
        assert table.residuals[step] == pytest.approx((np.median(found), np.percentile(found, 95), max(found)))


def test_rank_is_judged_as_in_the_paper() -> None:
    blocks = torch.diag_embed(torch.tensor([[1, 2e-7], [1, 0.5e-7], [1, 0], [1, 1]]).double())
    assert block_table([blocks]).full_rank == 0.5


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_are_as_published_and_medians_of_the_same_order(name: str, data_root: Path) -> None:
    batch = Batch.from_data_list(load_tu(name, data_root))
    line_graph = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
    torch.manual_seed(0)
    table = block_table(Coin(128).scores(torch.randn(batch.num_nodes, 64), line_graph))
    num_blocks, max_degree, *medians = PUBLISHED[name]
    assert (table.num_blocks, table.max_degree) == (num_blocks, max_degree)
    assert table.full_rank > 0.9999 - 1e-9
    found = (table.smallest[2], table.residuals[5][0], table.residuals[10][0])
    for ours, published in zip(found, medians, strict=True):
        assert 0.1 < ours / published < 10


def test_no_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="'blocks' must hold a block"):
        block_table([])


def test_there_may_be_more_blocks_than_torch_finds_quantiles_of() -> None:
    values = torch.arange(2**24 + 1, dtype=torch.float32).flip(0)
    assert _quantile(values, 0.5) == 2**23
