"""What the training of a hundred epochs takes: GCN, Kiani et al. and GCN-GUMP, with one batch and with batches of as many propagated states.

    GUMP_DATA=/path/to/datasets python benchmarks/epochs.py --device cuda

All have the depth, width and batch of the paper's GCN-GUMP. A few training steps are made and made again, and the median is given times the
steps of a hundred epochs; evaluation is not counted. "Matched" are the batches of GCN-GUMP that hold as many states as GCN's batch
has vertices: by the paper's formula an edge counts as two states, and by the batches that it prints as four. "One program" is `gump run
--replicas 1`, where steps are recorded; what a run costs of a hundred side by side is in the records. The literal reading of Algorithms 2 and 3
is that of `core.py`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from core import Literal, alternate, step_of
from lightning_fabric import Fabric
from torch_geometric.loader import DataLoader

from gump import EulerianLineGraph
from gump.datasets import load_tu
from gump.experiment.config import load_config
from gump.experiment.feed import GraphFeed
from gump.experiment.model import build_model
from gump.experiment.padded import PaddedStore
from gump.experiment.preprocess import prepare
from gump.experiment.registry import MODELS, takes_line_graph
from gump.experiment.replica_trainer import ReplicaTrainer
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer

CONFIGS = Path(__file__).parent.parent / "configs" / "tu"
NAMES = ("MUTAG", "PROTEINS", "ENZYMES", "NCI1", "NCI109")


def hundred_epochs(
    method: str, dataset: str, overrides: dict[str, Any], device: str, num_steps: int, recorded: bool = False
) -> float:
    """Seconds for the training steps of a hundred epochs of one run."""
    (config,) = load_config(CONFIGS / f"{dataset.lower()}_{method}.toml", overrides)
    data = prepare(config.settings, takes_line_graph(MODELS[config.settings["model"]["kind"]]))
    torch.manual_seed(0)
    model, task = build_model(config.settings, data).to(device), TASKS[data.task]
    split, batch = config.protocol.split(data, 0), config.training.batch_size
    num_batches = math.ceil(split.train.numel() / batch)
    order = torch.randperm(split.train.numel(), generator=torch.Generator().manual_seed(0))  # neighbors by number are of one size
    timed = split._replace(train=split.train[order[: num_steps * batch]])
    trainer: Trainer | ReplicaTrainer
    if recorded:
        trainer = ReplicaTrainer([model], PaddedStore(data.graphs, device), [timed], task, config.training, 0, [0])
    else:
        feed, fabric = GraphFeed(GraphStore(data.graphs, device), timed, batch), Fabric(accelerator=device, devices=1)
        trainer = Trainer(model, feed, task, config.training, 0, 0, fabric)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        float(torch.as_tensor(trainer._train_epoch()).sum())  # which waits for the device
        times.append(time.perf_counter() - start)
    return 100 * statistics.median(times[1:]) * num_batches / min(num_steps, num_batches)


def literal_seconds(dataset: str, num_layers: int, batch_size: int, device: str) -> float:
    """Seconds for the training steps of a hundred epochs of the literal reading."""
    graphs = load_tu(dataset)
    shuffle = torch.Generator().manual_seed(0)
    batch = next(iter(DataLoader(list(graphs), batch_size, shuffle=True, generator=shuffle))).to(device)
    line_graph = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
    torch.set_default_device(device)
    try:
        step = step_of(Literal(batch.num_features, num_layers).to(device), batch, lambda: line_graph)

        def timed() -> None:
            step()
            if device == "cuda":
                torch.cuda.synchronize()

        (milliseconds,) = alternate(timed, repeats=5)
    finally:
        torch.set_default_device("cpu")
    return 100 * math.ceil(0.8 * len(graphs) / batch_size) * milliseconds / 1e3


def row(name: str, device: str, num_steps: int) -> dict[str, float]:
    """One row of the table."""
    settings = load_config(CONFIGS / f"{name.lower()}_gcn_gump.toml")[0].settings
    batch, depth = settings["train"]["batch_size"], settings["model"]["num_layers"]
    graphs = list(load_tu(name))
    vertices, arcs = (sum(sizes) for sizes in zip(*((g.num_nodes, g.edge_index.size(1)) for g in graphs), strict=True))
    equal = {"model.num_layers": depth, "train.batch_size": batch}
    found: dict[str, float] = {"batch": batch, "layers": depth}
    found["GCN"] = hundred_epochs("gcn_plain", name, equal, device, num_steps)
    found["Kiani et al."] = hundred_epochs("gin_kiani", name, equal, device, num_steps)
    found["GUMP"] = hundred_epochs("gcn_gump", name, {}, device, num_steps)
    for key, states in (("matched batch", arcs), ("matched batch, as printed", 2 * arcs)):
        found[key] = max(1, batch * vertices // states)
        found[f"GUMP, {key}"] = hundred_epochs("gcn_gump", name, {"train.batch_size": found[key]}, device, num_steps)
    for method, title in (("gcn_plain", "GCN"), ("gcn_gump", "GUMP")):
        found[f"{title}, one program"] = hundred_epochs(method, name, equal, device, num_steps, recorded=True)
    found["literal"] = literal_seconds(name, depth, batch, device)
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="datasets; those of the paper's table by default")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=10, help="how many are timed together (default: %(default)s)")
    given = parser.parse_args()
    print(
        f"torch {torch.__version__}, {torch.cuda.get_device_name() if given.device == 'cuda' else 'CPU'}; seconds for the training of 100 epochs"
    )
    rows = {}
    for name in given.names:
        rows[name] = row(name, given.device, given.steps)
        print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in rows[name].items()), flush=True)
    print(json.dumps({name: {key: float(f"{value:.4g}") for key, value in found.items()} for name, found in rows.items()}))


if __name__ == "__main__":
    main()
