"""How far coins are from orthogonal, and how much the signal of a target then varies from graph to graph.

    python benchmarks/gains.py

The gain is by what the signal that all arcs of the target hold is multiplied on its way into what the source of a transfer task reads,
without weights and nonlinearities, at the depth of the configurations, one more than half the number of vertices. A reader that is
the same for all graphs, as GUMP's is, sees a signal whose gain varies as noise. Fresh weights, random features, float64: of twenty
graphs the mean gain and its standard deviation over the mean, the same of the energy that is left of a signal on all arcs, and the largest
entry of U U^T - I, each the mean of ten draws of the weights.

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


def measured(model: GUMP, graph: Data) -> tuple[float, float, float]:
    """The gain of the target's signal on a graph, the share of a signal's energy that is left, and how far the operator is from orthogonal there."""
    num_nodes = int(graph.num_nodes or 0)
    arcs = EulerianLineGraph.from_edge_index(graph.edge_index, num_nodes).arcs
    operator = model.propagation_matrix(graph.x.double(), graph.edge_index).to_dense()
    size, power = operator.size(0), torch.linalg.matrix_power(operator, num_nodes // 2 + 1)
    gain = power[arcs[1] == graph.source_index].mean(0)[(arcs == graph.target_index).any(0)].sum()
    error = (operator @ operator.t() - torch.eye(size, dtype=operator.dtype)).abs().max()
    return float(gain), float(power.square().sum() / size), float(error)


@torch.no_grad()
def main() -> None:
    """Prints a line for each task and coin, then all numbers."""
    found: dict[str, dict[str, float]] = {}
    for task, num_nodes in TASKS:
        graphs = transfer_task(task, num_nodes, num_graphs=NUM_GRAPHS, random_features=True)
        for coin, beta in COINS:
            torch.manual_seed(0)
            draws = []
            for _ in range(DRAWS):
                model = GUMP(5, 32, 1, base=None, coin=coin, beta=beta).double().eval()
                gain, energy, error = torch.tensor([measured(model, graph) for graph in graphs], dtype=torch.float64).t()
                spread = [each.std() / each.mean().abs() for each in (gain, energy)]
                draws.append(torch.stack([error.mean(), gain.mean(), spread[0], energy.mean(), spread[1]]))
            names = ("error", "gain", "variation of the gain", "energy left", "variation of the energy")
            numbers = dict(zip(names, torch.stack(draws).mean(0).tolist(), strict=True))
            name = coin if coin == "grover" else f"{coin}, beta {beta}"
            found[f"{task} {num_nodes}, {name}"] = numbers
            print(f"{task}, {num_nodes} vertices, {name}: " + ", ".join(f"{k} {v:.2g}" for k, v in numbers.items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
