"""How the defaults of GUMP were chosen: norm, residual and coin, by validation accuracy on TU splits.

Trains every setting on the same fresh 80/10/10 splits and appends one JSON line per run. The choice reads validation figures only; test
accuracy is recorded beside them for the reader. Runs are taken from a queue split by split, so that a run that ends early has compared
all settings on equal splits.

    python benchmarks/defaults.py --data DIR --out results.jsonl --workers 14 --device cuda --minutes 9
    python benchmarks/defaults.py --summary results.jsonl
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gump import EulerianLineGraph
from gump.datasets.tu import load_tu
from gump.diagnostics import coin_report
from gump.nn import GUMP, PRESETS, GraphPredictor

DATASETS: dict[str, dict[str, Any]] = {
    "NCI1": {"num_layers": 10, "num_base_layers": 1, "batch_size": 64, "epochs": 30, "splits": 9},
    "PROTEINS": {"num_layers": 20, "num_base_layers": 3, "batch_size": 64, "epochs": 30, "splits": 9},
    "ENZYMES": {"num_layers": 10, "num_base_layers": 1, "batch_size": 16, "epochs": 60, "splits": 9},
    "MUTAG": {"num_layers": 16, "num_base_layers": 5, "batch_size": 16, "epochs": 50, "splits": 20},
}

SETTINGS: dict[str, dict[str, Any]] = {
    "bounded, batch norm": {"norm": "batch", "base_norm": "batch"},
    "bounded, layer norm": {"norm": "layer", "base_norm": "layer"},
    "bounded, layer norm, base batch norm": {"norm": "layer", "base_norm": "batch"},
    "bounded, no norm, base batch norm": {"norm": None, "base_norm": "batch"},
    "bounded, batch norm, residual": {"norm": "batch", "base_norm": "batch", "residual": True},
    "bounded, layer norm, residual": {"norm": "layer", "base_norm": "layer", "residual": True},
    "bounded, batch norm, weighted layers": {"norm": "batch", "base_norm": "batch", "jk": "weighted"},
    "Newton-Schulz K=10, batch norm": {"norm": "batch", "base_norm": "batch", "coin": "newton_schulz"},
    "polar, batch norm": {"norm": "batch", "base_norm": "batch", "coin": "polar"},
    "Grover, batch norm": {"norm": "batch", "base_norm": "batch", "coin": "grover"},
    "scores, batch norm": {"norm": "batch", "base_norm": "batch", "coin": "scores"},
    "paper preset": PRESETS["paper"],
    "bounded, batch norm, larger scores": {"norm": "batch", "base_norm": "batch", "score_gain": 3**0.5},
}
"""Arguments of GUMP, and ``score_gain``, by which the first weights of the attention are multiplied."""


class Graphs:
    """A dataset held on one device, from which batches are cut without a loop over graphs."""

    def __init__(self, name: str, root: str, device: str) -> None:
        graphs = load_tu(name, root)
        self.x = torch.cat([g.x for g in graphs]).to(device)
        self.y = torch.cat([g.y for g in graphs]).to(device)
        self.edge_index = torch.cat([g.edge_index for g in graphs], dim=1).to(device)
        self.num_nodes = torch.tensor([g.num_nodes for g in graphs], device=device)
        self.num_edges = torch.tensor([g.num_edges for g in graphs], device=device)
        self.first_node = self.num_nodes.cumsum(0) - self.num_nodes
        self.first_edge = self.num_edges.cumsum(0) - self.num_edges

    def batch(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features, edges, graph of every vertex and labels of some graphs."""
        nodes, graph = _ranges(self.first_node[ids], self.num_nodes[ids])
        edges, edge_graph = _ranges(self.first_edge[ids], self.num_edges[ids])
        offset = self.num_nodes[ids].cumsum(0) - self.num_nodes[ids]
        return self.x[nodes], self.edge_index[:, edges] + offset[edge_graph], graph, self.y[ids]


def _ranges(first: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenates ranges and says of which each number is."""
    which = torch.arange(length.numel(), device=length.device).repeat_interleave(length)
    within = torch.arange(which.numel(), device=which.device) - (length.cumsum(0) - length)[which]
    return first[which] + within, which


def train(graphs: Graphs, dataset: str, setting: str, split: int, conv: str, device: str) -> dict[str, Any]:
    """One run: Adam at 1e-3, one figure per epoch, selection by validation loss."""
    plan = DATASETS[dataset]
    order = torch.randperm(graphs.y.numel(), generator=torch.Generator().manual_seed(split)).to(device)
    train_ids, val_ids, test_ids = order.tensor_split([int(0.8 * order.numel()), int(0.9 * order.numel())])
    arguments = dict(SETTINGS[setting])
    gain = arguments.pop("score_gain", 1.0)
    torch.manual_seed(split)
    encoder = GUMP(
        graphs.x.size(1), 64, plan["num_layers"], conv=conv, base=conv, num_base_layers=plan["num_base_layers"], **arguments
    )
    with torch.no_grad():
        for weight in encoder.coin.parameters():
            weight *= gain
    model = GraphPredictor(encoder, int(graphs.y.max()) + 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def evaluate(ids: Tensor) -> tuple[float, float]:
        x, edge_index, batch, y = graphs.batch(ids)
        with torch.no_grad():
            out = model(x, edge_index, batch=batch, num_graphs=ids.numel())
        return float(cross_entropy(out, y)), float((out.argmax(-1) == y).double().mean())

    history, start = [], time.perf_counter()
    for _ in range(plan["epochs"]):
        model.train()
        for ids in train_ids[torch.randperm(train_ids.numel()).to(device)].split(plan["batch_size"]):
            x, edge_index, batch, y = graphs.batch(ids)
            optimizer.zero_grad()
            cross_entropy(model(x, edge_index, batch=batch, num_graphs=ids.numel()), y).backward()
            optimizer.step()
        model.eval()
        history.append((*evaluate(val_ids), *evaluate(test_ids)))
    best = min(history)
    x, edge_index, _, _ = graphs.batch(order[:200])
    coins = None
    if encoder.coin.has_scores:
        report = coin_report(encoder, x, edge_index, line_graph=EulerianLineGraph.from_edge_index(edge_index, x.size(0)))
        coins = {"max_error": report.max_error, "non_unitary": report.non_unitary, "from_grover": report.from_grover}
    return {
        "dataset": dataset, "setting": setting, "conv": conv, "split": split, "device": device, "torch": torch.__version__,
        "val_loss": best[0], "val_accuracy": best[1], "test_accuracy": best[3],
        "last_val_accuracy": history[-1][1], "last_test_accuracy": history[-1][3],
        "coins": coins, "time_s": round(time.perf_counter() - start, 1),
    }  # fmt: skip


def work(queue: Any, done: Any, root: str, device: str, deadline: float) -> None:
    """Takes runs from the queue until the time is up."""
    torch.set_num_threads(1)
    loaded: dict[str, Graphs] = {}
    while time.time() < deadline:
        try:
            dataset, setting, split, conv = queue.get(timeout=1)
        except Exception:
            return
        if dataset not in loaded:
            loaded = {dataset: Graphs(dataset, root, device)}
        try:
            done.put(train(loaded[dataset], dataset, setting, split, conv, device))
        except (RuntimeError, ValueError) as error:
            done.put({"dataset": dataset, "setting": setting, "conv": conv, "split": split, "error": str(error)[:200]})


def summarize(path: str) -> None:
    """Prints mean and standard error over splits, for every dataset and setting."""
    runs = defaultdict(list)
    for line in Path(path).read_text().splitlines():
        run = json.loads(line)
        if "error" not in run:
            runs[run["dataset"], run["conv"], run["setting"]].append(run)
    for (dataset, conv, setting), group in sorted(runs.items(), key=lambda item: (item[0][:2], -_mean(item[1], "val_accuracy"))):
        cells = [
            f"{key} {100 * _mean(group, key):5.1f} ± {100 * _error(group, key):3.1f}" for key in ("val_accuracy", "test_accuracy")
        ]
        cells.append(f"last {100 * _mean(group, 'last_val_accuracy'):5.1f} / {100 * _mean(group, 'last_test_accuracy'):5.1f}")
        coins = [run["coins"] for run in group if run["coins"]]
        if coins:
            cells.append(f"max error {max(c['max_error'] for c in coins):.0e}, from Grover {_mean(coins, 'from_grover'):.2f}")
        print(f"{dataset:9s} {conv:3s} {setting:38s} n={len(group):2d}  " + "  ".join(cells))


def _mean(runs: list[dict[str, Any]], key: str) -> float:
    return statistics.mean(run[key] for run in runs)


def _error(runs: list[dict[str, Any]], key: str) -> float:
    return statistics.stdev(run[key] for run in runs) / len(runs) ** 0.5 if len(runs) > 1 else float("nan")


def main() -> None:
    """Parses, starts the workers, writes what they send."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("GUMP_DATA"), help="folder of the raw datasets (default: $GUMP_DATA)")
    parser.add_argument("--out", default="results.jsonl", help="file to which results are appended")
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--conv", default="gin")
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--summary", metavar="FILE", help="only print the summary of earlier results")
    arguments = parser.parse_args()
    if arguments.summary:
        return summarize(arguments.summary)
    context = multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    for split in range(max(plan["splits"] for plan in DATASETS.values())):
        for dataset in arguments.datasets:
            for setting in arguments.settings if split < DATASETS[dataset]["splits"] else []:
                queue.put((dataset, setting, arguments.first_split + split, arguments.conv))
    deadline = time.time() + 60 * arguments.minutes
    workers = [
        context.Process(target=work, args=(queue, done, arguments.data, arguments.device, deadline), daemon=True)
        for _ in range(arguments.workers)
    ]
    for worker in workers:
        worker.start()
    with open(arguments.out, "a") as file:
        while any(worker.is_alive() for worker in workers) and time.time() < deadline + 30:
            try:
                run = done.get(timeout=1)
            except Exception:
                continue
            file.write(json.dumps(run) + "\n")
            file.flush()
            print(
                f"{run['dataset']} {run['setting']} split {run['split']}: {run.get('val_accuracy', run.get('error'))}", flush=True
            )
    summarize(arguments.out)


if __name__ == "__main__":
    main()
