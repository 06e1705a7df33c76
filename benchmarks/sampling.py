"""What sampling costs in accuracy on Cora, and what it saves on a graph of a million edges, in one run on the CPU.

    GUMP_DATA=/path/to/datasets python benchmarks/sampling.py

Large: a Barabási-Albert graph with ten edges for each of 100,000 vertices, GCN-GUMP with 4 layers of width 64. A batch is 64 vertices and what is
sampled around them; a step is building the line graph, forward, loss, backward and Adam. Times are medians over batches after the first, in
processor time of one thread, which does not count what else the machine does. Memory is the largest resident set of the process so far, which
before training holds Python, torch, the graph and the loader.

Cora: the public split, GCN-GUMP with 4 layers of width 64, dropout 0.5, a linear head, Adam at 5e-3 with weight decay 5e-4. Every variant takes
sixty steps. Of the models after every tenth, the one that is best on the validation part, over the whole graph, is tested: over the whole graph
and, where it was trained on samples, over such samples. The last line is one JSON object.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.datasets import load_planetoid
from gump.loader import ArcNeighborLoader
from gump.nn import GUMP, NodePredictor
from gump.transforms import CapDegree

NUM_NODES, NUM_EDGES_EACH, NUM_BATCHES = 100_000, 10, 8
NUM_SEEDS, NUM_STEPS, EVERY = 5, 60, 10
SIZES = {"narrow": [5, 3, 2, 2, 2, 2], "wide": [10, 5, 3, 2, 2, 2]}
"""Arcs drawn per vertex; six hops are what four layers and a GCN as base look at."""
MAX_DEGREE = 5


def barabasi_albert(num_nodes: int, num_edges_each: int, seed: int) -> torch.Tensor:
    """Joins every new vertex to different old ones, drawn by their degree (networkx does the same and needs much more memory)."""
    choose, ends, targets = random.Random(seed), [], set(range(num_edges_each))
    for vertex in range(num_edges_each, num_nodes):
        for target in targets:
            ends += [vertex, target]
        targets = set()
        while len(targets) < num_edges_each:
            targets.add(ends[choose.randrange(len(ends))])
    return torch.tensor(ends).view(-1, 2).t().contiguous()


def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Data, rows: Any) -> EulerianLineGraph:
    """Builds the line graph and takes one step; ``rows`` are those with an answer."""
    line_graph = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
    model.train()
    optimizer.zero_grad()
    cross_entropy(model(batch.x, batch.edge_index, line_graph=line_graph)[rows], batch.y[rows]).backward()
    optimizer.step()
    return line_graph


def peak_gb() -> float:
    """The largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure_large() -> dict[str, Any]:
    """Sizes, times and memory of batches of a large graph."""
    edge_index = barabasi_albert(NUM_NODES, NUM_EDGES_EACH, seed=0)
    torch.manual_seed(0)
    data = Data(x=torch.randn(NUM_NODES, 64), edge_index=edge_index, y=torch.randint(10, (NUM_NODES,)))
    whole = EulerianLineGraph.from_edge_index(edge_index, NUM_NODES)
    result: dict[str, Any] = {"num_edges": edge_index.size(1), "whole": sizes(whole)}
    print(f"whole graph: {whole}")
    for name, fan_out in SIZES.items():
        model = NodePredictor(GUMP(64, 64, 4), 10)
        optimizer = torch.optim.Adam(model.parameters())
        before = time.process_time()
        loader = ArcNeighborLoader(data, fan_out, batch_size=64, shuffle=True)
        row: dict[str, Any] = {"prepare_s": time.process_time() - before, "memory_before_gb": peak_gb()}
        graphs, times = [], []
        batches = iter(loader)
        for _ in range(NUM_BATCHES + 1):
            start = time.process_time()
            batch = next(batches)
            sampled = time.process_time()
            graphs.append(train_step(model, optimizer, batch, slice(batch.batch_size)))
            times.append((sampled - start, time.process_time() - sampled))
        row |= {"memory_peak_gb": peak_gb()}
        row |= {"sample_s": statistics.median(t[0] for t in times[1:]), "step_s": statistics.median(t[1] for t in times[1:])}
        row = {key: round(value, 3) for key, value in row.items()} | {"largest_batch": sizes(max(graphs, key=lambda g: g.num_arcs))}
        print(f"{name} {fan_out}: {row}", flush=True)
        result[name] = row
    capped = CapDegree(16)(data)
    result["capped_at_16"] = sizes(EulerianLineGraph.from_edge_index(capped.edge_index, NUM_NODES))
    print(f"capped at 16: {result['capped_at_16']}", flush=True)
    return result


def sizes(line_graph: EulerianLineGraph) -> dict[str, int]:
    """The sizes that cost follows."""
    names = ("num_nodes", "num_arcs", "num_transitions", "max_degree")
    return {name: getattr(line_graph, name) for name in names}


@torch.no_grad()
def accuracy(model: torch.nn.Module, data: Data, part: torch.Tensor, fan_out: list[int] | None = None) -> float:
    """Per cent right, over the whole graph or over samples."""
    model.eval()
    if fan_out is None:
        right = model(data.x, data.edge_index)[part].argmax(-1) == data.y[part]
    else:
        loader = ArcNeighborLoader(data, fan_out, batch_size=250, input_nodes=part)
        right = torch.cat([(model(b.x, b.edge_index).argmax(-1) == b.y)[: b.batch_size] for b in loader])
    return 100 * right.float().mean().item()


def trained(model: torch.nn.Module, batches: Iterator[Data], graph: Data, split: dict[str, torch.Tensor]) -> torch.nn.Module:
    """The model that was best on the validation part."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    best, state = -1.0, {}
    for step, batch in enumerate(itertools.islice(batches, NUM_STEPS), start=1):
        train_step(model, optimizer, batch, split["train"] if "batch_size" not in batch else slice(batch.batch_size))
        if step % EVERY == 0 and (now := accuracy(model, graph, split["val"])) > best:
            best, state = now, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    return model


def measure_cora() -> dict[str, Any]:
    """Test accuracies after training on the whole graph, on samples, and on the graph with fewer edges."""
    dataset = load_planetoid("Cora")
    data, split = dataset[0], dataset.split

    def whole(data: Data) -> Iterator[Data]:
        return itertools.repeat(data)

    def sampled(fan_out: list[int], batch_size: int, seed: int) -> Iterator[Data]:
        loader = ArcNeighborLoader(data, fan_out, batch_size, input_nodes=split["train"], shuffle=True, seed=seed)
        return itertools.chain.from_iterable(itertools.repeat(loader))

    capped = CapDegree(MAX_DEGREE)(data)
    variants: dict[str, tuple[Callable[[int], Iterator[Data]], Data, list[int] | None]] = {
        "whole graph": (lambda seed: whole(data), data, None),
        "wide samples, 140 vertices": (lambda seed: sampled(SIZES["wide"], 140, seed), data, SIZES["wide"]),
        "narrow samples, 140 vertices": (lambda seed: sampled(SIZES["narrow"], 140, seed), data, SIZES["narrow"]),
        "narrow samples, 20 vertices": (lambda seed: sampled(SIZES["narrow"], 20, seed), data, SIZES["narrow"]),
        f"degrees capped at {MAX_DEGREE}": (lambda seed: whole(capped), capped, None),
    }
    result: dict[str, Any] = {}
    for name, (batches, graph, fan_out) in variants.items():
        row: dict[str, list[float]] = {"whole": []} if fan_out is None else {"whole": [], "sampled": []}
        for seed in range(NUM_SEEDS):
            torch.manual_seed(seed)
            model = NodePredictor(GUMP(data.num_features, 64, 4, dropout=0.5), dataset.num_targets, num_layers=1)
            trained(model, batches(seed), graph, split)
            for key, values in row.items():
                values.append(round(accuracy(model, graph, split["test"], fan_out if key == "sampled" else None), 1))
        told = ", ".join(f"{key} {statistics.mean(v):.1f} ± {statistics.stdev(v) / len(v) ** 0.5:.1f}" for key, v in row.items())
        print(f"Cora, {name:30s} test accuracy (standard error over {NUM_SEEDS} seeds): {told}", flush=True)
        result[name] = row
    return result


def main() -> None:
    """Measures both."""
    torch.set_num_threads(1)
    print(json.dumps({"large": measure_large(), "cora": measure_cora()}))


if __name__ == "__main__":
    main()
