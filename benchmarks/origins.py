"""How much of what the source of a transfer task reads comes from its target: which tasks are hard, and why.

    python benchmarks/origins.py

For every task and size the share of the target (gump.diagnostics.origin_shares) at the depth of the configurations, one more than half
the number of vertices: under the constant Grover coin, and under coins with fresh weights on random features, where it is the mean of ten
draws with its standard deviation. In float64.

The last line is one JSON object.
"""

from __future__ import annotations

import json

import torch
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.datasets import transfer_task
from gump.diagnostics import origin_shares
from gump.nn import GUMP

TASKS, SIZES = ("Ring", "CrossedRing", "CliquePath"), (6, 8, 10, 12, 16, 20, 28)
COINS, DRAWS = ("grover", "bounded", "perturbed", "near_identity", "polar", "newton_schulz"), 10


def share(graph: Data, coin: str) -> float:
    """The share of the target in what the source reads under fresh weights."""
    num_nodes = int(graph.num_nodes or 0)
    operator = GUMP(5, 32, 1, base=None, coin=coin).double().eval().propagation_matrix(graph.x.double(), graph.edge_index)
    line_graph = EulerianLineGraph.from_edge_index(graph.edge_index, num_nodes)
    shares = origin_shares(operator, line_graph, int(graph.source_index), num_nodes // 2 + 1)
    return float(shares[-1, int(graph.target_index)])


@torch.no_grad()
def main() -> None:
    """Prints a line for each task and coin, then all numbers."""
    torch.manual_seed(0)
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    for task in TASKS:
        for coin in COINS:
            cells = []
            for size in SIZES:
                graphs = transfer_task(task, size, num_graphs=DRAWS, random_features=True)
                shares = torch.tensor([share(graph, coin) for graph in graphs], dtype=torch.float64)
                found.setdefault(task, {}).setdefault(coin, {})[size] = [float(shares.mean()), float(shares.std())]
                cells.append(f"{size}: {100 * shares.mean():.3g} ({100 * shares.std():.2g})")
            print(f"{task}, {coin}, share in % by number of vertices: {', '.join(cells)}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
