"""What the coins are like on real features: the paper's setting and the default, on fresh and on trained weights.

    GUMP_DATA=/path/to/datasets python benchmarks/coins.py

For every TU dataset at the paper's depth of the base GNN: the share of blocks of scores with full rank, the share of coins that are not
unitary (error above 1e-3), the largest error of any coin, and the median distance of the coin from the constant Grover coin and from the
polar factor of its scores. Trained weights are those after 100 steps on all graphs; nothing is selected or tested here. Fresh figures
are means over seeds. The last line is one JSON object.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
from dataclasses import asdict
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gump import EulerianLineGraph
from gump.datasets import load_tu
from gump.diagnostics import coin_report
from gump.nn import GUMP, PRESETS, GraphPredictor
from gump.transforms import AddLineGraph

DATASETS = {"MUTAG": (16, 5), "PROTEINS": (20, 3), "ENZYMES": (10, 1), "NCI1": (10, 1), "NCI109": (10, 1)}
"""The paper's numbers of layers and of base layers."""
SETTINGS: dict[str, dict[str, Any]] = {"default": {}, "paper": PRESETS["paper"]}
NUM_SEEDS, NUM_STEPS = 3, 100


def train(model: GraphPredictor, graphs: list[Data]) -> None:
    """Some steps of Adam on all graphs."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    epochs = itertools.chain.from_iterable(DataLoader(graphs, 64, shuffle=True) for _ in itertools.count())
    for batch in itertools.islice(epochs, NUM_STEPS):
        line_graph = EulerianLineGraph.from_data(batch)
        optimizer.zero_grad()
        cross_entropy(model(batch.x, batch.edge_index, batch=batch.batch, line_graph=line_graph), batch.y).backward()
        optimizer.step()


def main() -> None:
    """Measures and prints."""
    torch.set_num_threads(1)
    results: dict[str, dict[str, Any]] = {}
    for name, (num_layers, num_base_layers) in DATASETS.items():
        graphs = [AddLineGraph()(graph) for graph in load_tu(name, os.environ["GUMP_DATA"])]
        everything = Batch.from_data_list(graphs)
        line_graph = EulerianLineGraph.from_data(everything)
        print(f"{name}: {line_graph.num_blocks:,} blocks, largest degree {line_graph.max_degree}")
        for setting, arguments in SETTINGS.items():
            fresh = []
            for seed in range(NUM_SEEDS):
                torch.manual_seed(seed)
                encoder = GUMP(
                    everything.num_features, 64, num_layers, conv="gin", base="gin", num_base_layers=num_base_layers, **arguments
                )
                fresh.append(asdict(coin_report(encoder, everything.x, everything.edge_index, line_graph=line_graph)))
            model = GraphPredictor(encoder, int(everything.y.max()) + 1)
            train(model, graphs)
            model.eval()
            trained = asdict(coin_report(encoder, everything.x, everything.edge_index, line_graph=line_graph))
            mean = {key: statistics.mean(report[key] for report in fresh) for key in trained}
            mean["max_error"] = max(report["max_error"] for report in fresh)
            for weights, report in (("fresh", mean), ("trained", trained)):
                print(
                    f"  {setting:8s} {weights:8s} full rank {report['full_rank']:6.1%}  not unitary {report['non_unitary']:6.1%}  "
                    f"largest error {report['max_error']:.1e}  from Grover {report['from_grover']:.3f}  "
                    f"from polar {report['from_polar']:.3f}"
                )
                results[f"{name} {setting} {weights}"] = {key: float(f"{value:.4g}") for key, value in report.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
