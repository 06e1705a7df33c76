"""What trained coins do to a signal: the ladder of `configs/coins`, from the default to a GIN on vertices.

    GUMP_DATA=/path/to/datasets python benchmarks/ladder.py

Every rung is trained as its configuration says, on the first splits. Then, on the graphs of the test set and with the weights of the last epoch:
how far coins are from being unitary and the share of those that are not (error above 1e-3), the energy that is left of a signal on one arc after as
many steps as there are layers, the share of it that is back at the vertex where it started, and the share that is at least half the graph's diameter
away, beside that of an even spread. For a GIN the step is I + A, which makes energy grow, so only shares say something. Beside every mean over splits
stands its standard error. Accuracies are those of so few splits, and in no table. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from gump import EulerianLineGraph
from gump.diagnostics import energy_by_distance, even_reach, hop_distances
from gump.experiment.config import Config, load_config
from gump.experiment.feed import GraphFeed, GraphStore
from gump.experiment.model import build_model
from gump.experiment.preprocess import prepare
from gump.experiment.protocol import run_seed
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer
from gump.linalg import unitarity_error
from gump.nn import GUMP

CONFIGS = Path(__file__).parent.parent / "configs" / "coins"


@torch.no_grad()
def measure(encoder: torch.nn.Module, graph: Data, num_layers: int) -> dict[str, float]:
    """What the operator of a trained model does to signals on one graph."""
    edges, num_nodes = graph.edge_index, graph.num_nodes
    distance = hop_distances(edges, num_nodes)
    found: dict[str, float] = {}
    if isinstance(encoder, GUMP):
        line_graph = EulerianLineGraph.from_edge_index(edges, num_nodes)
        errors = torch.cat([unitarity_error(blocks) for blocks in encoder.coin(*encoder.start(graph.x, edges))])
        found = {"error": float(errors.mean()), "not unitary": float((errors > 1e-3).float().mean())}
        operator, place = encoder.propagation_matrix(graph.x, edges).to_dense(), line_graph.arcs[1]
    else:
        operator, place = torch.eye(num_nodes) + to_dense_adj(edges, max_num_nodes=num_nodes)[0], torch.arange(num_nodes)
    hops = max(int(distance[distance.isfinite()].max()) // 2, 1)
    energy = energy_by_distance(operator.double(), distance, num_layers, place)[-1]
    if isinstance(encoder, GUMP):
        found["energy left"] = float(energy.sum())
    shares = energy / energy.sum().clamp_min(torch.finfo(energy.dtype).tiny)
    return found | {"back": float(shares[0]), "far": float(shares[hops:].sum()), "far if even": even_reach(distance, hops, place)}


def rung(config: Config, num_runs: int) -> dict[str, tuple[float, float]]:
    """Trains the first runs of a configuration and measures them on their test graphs; the mean over runs and its standard error."""
    is_gump = config.settings["model"]["kind"] == "GUMP"
    dataset = prepare(config.settings, line_graph=is_gump)
    store = GraphStore(dataset.graphs, torch.device("cpu"))
    runs: list[dict[str, float]] = []
    for index in range(num_runs):
        torch.manual_seed(run_seed(config.protocol.seed, index))
        model, split = build_model(config.settings, dataset), config.protocol.split(dataset, index)
        feed = GraphFeed(store, split, config.training.batch_size)
        progress = Trainer(model, feed, TASKS[dataset.task], config.training, config.protocol.seed, index).fit()
        depth = config.settings["model"]["num_layers"]
        measured = [measure(model.eval().encoder, dataset.graphs[int(k)], depth) for k in split.test]
        means = {key: statistics.mean(each[key] for each in measured) for key in measured[0]}
        runs.append(means | {"accuracy": 100 * progress.best["last"]["test"]})
    series = {key: [run[key] for run in runs] for key in runs[0]}
    return {key: (statistics.mean(values), statistics.stdev(values) / math.sqrt(num_runs)) for key, values in series.items()}


def main() -> None:
    """Trains, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="mutag", help="as the files in configs/coins begin (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="how many splits, two at least (default: %(default)s)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for path in sorted(CONFIGS.glob(f"{given.dataset}_*.toml")):
        (config,) = load_config(path)
        title = config.settings["title"]
        results[title] = rung(config, given.runs)
        print(
            f"{title}: " + ", ".join(f"{key} {mean:.3g} ({error:.2g})" for key, (mean, error) in results[title].items()), flush=True
        )
    rounded = {
        title: {key: [float(f"{value:.4g}") for value in pair] for key, pair in found.items()} for title, found in results.items()
    }
    print(json.dumps(rounded))


if __name__ == "__main__":
    main()
