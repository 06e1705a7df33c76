"""How far coins are from orthogonal, and how much the signal of a target then varies from graph to graph.

    python benchmarks/gains.py

The gain is by what the signal that all arcs of the target hold is multiplied on its way into what the source of a transfer task reads,
without weights and nonlinearities, at the depth of the configurations, one more than half the number of vertices. A reader that is
the same for all graphs, as GUMP's is, sees a signal whose gain varies as noise. Fresh weights, random features, float64: of twenty
graphs the mean gain and its standard deviation over the mean, and the largest entry of U U^T - I, each the mean of ten draws of the weights.

The last line is one JSON object.
"""

from __future__ import annotations

import json

import torch
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.datasets import transfer_task
from gump.nn import GUMP

TASKS = (("CrossedRing", 8), ("CrossedRing", 16), ("CrossedRing", 28), ("CliquePath", 12), ("CliquePath", 16))
COINS = (
    *(("bounded", beta) for beta in (0.1, 0.3, 0.5, 0.7, 0.9)),
    *(("perturbed", beta) for beta in (0.1, 0.3, 0.5, 0.7, 0.9)),
    ("grover", 0.0),
)
DRAWS, NUM_GRAPHS = 10, 20


def gain_and_error(model: GUMP, graph: Data) -> tuple[float, float]:
    """The gain of the target's signal on a graph, and how far the operator is from orthogonal there."""
    num_nodes = int(graph.num_nodes or 0)
    arcs = EulerianLineGraph.from_edge_index(graph.edge_index, num_nodes).arcs
    operator = model.propagation_matrix(graph.x.double(), graph.edge_index).to_dense()
    read = (arcs[1] == graph.source_index).double()
    row = read / read.sum()
    for _ in range(num_nodes // 2 + 1):
        row = operator.t() @ row
    error = (operator @ operator.t() - torch.eye(operator.size(0), dtype=operator.dtype)).abs().max()
    return float(row[(arcs == graph.target_index).any(0)].sum()), float(error)


@torch.no_grad()
def main() -> None:
    """Prints a line for each task and coin, then all numbers."""
    found: dict[str, dict[str, float]] = {}
    for task, num_nodes in TASKS:
        graphs = transfer_task(task, num_nodes, num_graphs=NUM_GRAPHS, random_features=True)
        for coin, beta in COINS:
            torch.manual_seed(0)
            means, variations, errors = [], [], []
            for _ in range(DRAWS):
                model = GUMP(5, 32, 1, base=None, coin=coin, beta=beta).double().eval()
                gains, error = torch.tensor([gain_and_error(model, graph) for graph in graphs], dtype=torch.float64).t()
                means.append(gains.mean())
                variations.append(gains.std() / gains.mean().abs())
                errors.append(error.mean())
            numbers = {
                name: float(torch.stack(values).mean())
                for name, values in (("error", errors), ("gain", means), ("variation", variations))
            }
            name = coin if coin == "grover" else f"{coin}, beta {beta}"
            found[f"{task} {num_nodes}, {name}"] = numbers
            print(f"{task}, {num_nodes} vertices, {name}: " + ", ".join(f"{k} {v:.2g}" for k, v in numbers.items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
