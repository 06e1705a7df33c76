"""Which coins learn on Ring-28 with equal features: how many of ten seeds, and in how many steps.

    python benchmarks/ring.py

GCN-GUMP, width 32, 15 layers for 14 hops, full batches of the task's five graphs, Adam at 1e-3. A seed has learned at the first of three
steps in a row at which all five graphs are right in eval mode. Both with the default norm and without any. The last line is one JSON object.
"""

from __future__ import annotations

import json
import statistics

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Batch

from gump import EulerianLineGraph
from gump.datasets import transfer_task
from gump.nn import GUMP, NodePredictor

COINS = ("bounded", "grover", "newton_schulz", "polar", "scores")
NUM_SEEDS, NUM_STEPS = 10, 200


def steps_to_learn(coin: str, norm: str | None, conv: str, seed: int, residual: bool = False) -> int | None:
    """Trains one model; none if the budget did not suffice."""
    batch = Batch.from_data_list(transfer_task("Ring", num_nodes=28))
    line_graph = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
    torch.manual_seed(seed)
    model = NodePredictor(GUMP(5, 32, 15, conv=conv, coin=coin, norm=norm, base_norm=norm, residual=residual), 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    num_right = 0
    for step in range(1, NUM_STEPS + 1):
        model.train()
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, line_graph=line_graph)[batch.source_index]
        cross_entropy(out, batch.y).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            out = model(batch.x, batch.edge_index, line_graph=line_graph)[batch.source_index]
        num_right = num_right + 1 if bool((out.argmax(-1) == batch.y).all()) else 0
        if num_right == 3:
            return step - 2
    return None


def main() -> None:
    """Trains all and prints a row for each."""
    torch.set_num_threads(1)
    results = {}
    for conv, norm in (("gcn", "batch"), ("gcn", None), ("gin", "batch")):
        for coin in COINS:
            steps = [steps_to_learn(coin, norm, conv, seed) for seed in range(NUM_SEEDS)]
            learned = [s for s in steps if s is not None]
            median = f"median {statistics.median(learned):.0f} steps" if learned else ""
            print(
                f"{conv} flavor, norm {norm!s:5s}, {coin:14s} {len(learned):2d} of {NUM_SEEDS} seeds within {NUM_STEPS} steps  {median}",
                flush=True,
            )
            results[f"{conv} {norm} {coin}"] = steps
    steps = [steps_to_learn("bounded", "batch", "gcn", seed, residual=True) for seed in range(NUM_SEEDS)]
    print(
        f"gcn flavor, norm batch, bounded, residual: {sum(s is not None for s in steps)} of {NUM_SEEDS} seeds within {NUM_STEPS} steps"
    )
    print(json.dumps(results | {"gcn batch bounded residual": steps}))


if __name__ == "__main__":
    main()
