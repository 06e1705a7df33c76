"""The two tables of blocks in the paper's appendix, beside the published figures, and the same on the datasets' own features.

    GUMP_DATA=/path/to/datasets python benchmarks/blocks.py

Random features are the paper's diagnostic: 64 standard normal columns per vertex, straight into the scores of equation 1. Real features are
the one-hot labels behind a GIN of the paper's depth with batch norm, as in the paper's setting. The paper does not state how weights are
drawn: here by torch's default for linear maps, uniform within 1 / sqrt(fan in), and in the rows named glorot by Glorot's normal law, on
random features too; attention width 32, a LeakyReLU slope of 0.01, seed 0.
Float32, where the published medians of 1e-7 at K = 10 are from; singular values in float64. The last line is one JSON object.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import torch
from torch import Tensor
from torch_geometric.data import Batch

from gump import EulerianLineGraph
from gump.datasets import load_tu
from gump.diagnostics import BlockTable, block_table
from gump.nn import GUMP, PRESETS, Coin

PUBLISHED = {
    "MUTAG": BlockTable(
        3371, 4, 1.0, (2.50e-6, 1.42e-4, 1.11e-1), {5: (5.98e-2, 7.07e-1, 8.16e-1), 10: (1.09e-7, 5.48e-1, 8.16e-1)}
    ),
    "PROTEINS": BlockTable(
        43466, 25, 0.9999, (2.30e-8, 2.07e-5, 2.65e-2), {5: (4.98e-1, 8.16e-1, 9.35e-1), 10: (1.89e-7, 5.87e-1, 9.28e-1)}
    ),
    "ENZYMES": BlockTable(
        19474, 9, 1.0, (4.45e-7, 1.07e-4, 5.19e-3), {5: (4.37e-1, 6.20e-1, 8.37e-1), 10: (1.36e-7, 2.61e-1, 7.07e-1)}
    ),
    "NCI1": BlockTable(
        122319, 4, 1.0, (2.07e-7, 8.87e-4, 1.33e-1), {5: (4.86e-3, 6.84e-1, 8.64e-1), 10: (9.78e-8, 9.34e-2, 8.09e-1)}
    ),
    "NCI109": BlockTable(
        122020, 5, 1.0, (8.16e-7, 6.43e-4, 1.37e-1), {5: (5.91e-3, 6.94e-1, 8.65e-1), 10: (9.95e-8, 2.06e-1, 8.14e-1)}
    ),
}
BASE_LAYERS = {"MUTAG": 5, "PROTEINS": 3, "ENZYMES": 1, "NCI1": 1, "NCI109": 1}


def scores_of(name: str, features: str, batch: Batch, line_graph: EulerianLineGraph) -> list[Tensor]:
    """Fresh scores of all blocks."""
    torch.manual_seed(0)
    if features != "real":
        coin = Coin(128)
        if features == "glorot":
            for weight in coin.parameters():
                torch.nn.init.xavier_normal_(weight)
        return coin.scores(torch.randn(batch.num_nodes, 64), line_graph)
    settings = {"conv": "gin", "base": "gin", "num_base_layers": BASE_LAYERS[name], **PRESETS["paper"]}
    model = GUMP(batch.num_features, 64, 1, **settings)
    return model.coin.scores(*model.start(batch.x, batch.edge_index, line_graph=line_graph))


def row(name: str, table: BlockTable) -> str:
    """One line of both tables."""
    residuals = "  ".join(f"{x:.2e}" for triple in table.residuals.values() for x in triple)
    smallest = "  ".join(f"{x:.2e}" for x in table.smallest)
    return f"{name:10s} {table.num_blocks:8,d} {table.max_degree:6d} {table.full_rank:9.2%}  {smallest}  {residuals}"


@torch.no_grad()
def main() -> None:
    """Measures and prints."""
    torch.set_num_threads(1)
    columns = ["min s", "p1 s", "med. s", "med. r5", "p95 r5", "max r5", "med. r10", "p95 r10", "max r10"]
    print(f"{'':10s} {'blocks':>8s} {'max d':>6s} {'full rank':>9s}  " + "  ".join(f"{column:8s}" for column in columns))
    results = {}
    for name, published in PUBLISHED.items():
        batch = Batch.from_data_list(load_tu(name, os.environ["GUMP_DATA"]))
        line_graph = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
        print(name)
        print(row(" published", published))
        for features in ("random", "glorot", "real"):
            table = block_table(scores_of(name, features, batch, line_graph))
            print(row(f" {features}", table))
            results[f"{name} {features}"] = {
                **asdict(table),
                "smallest": [float(f"{x:.3g}") for x in table.smallest],
                "residuals": {k: [float(f"{x:.3g}") for x in triple] for k, triple in table.residuals.items()},
            }
        same = (table.num_blocks, table.max_degree) == (published.num_blocks, published.max_degree)
        print(f" blocks and largest degree {'as' if same else 'NOT as'} published")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
