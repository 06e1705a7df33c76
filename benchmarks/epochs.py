"""What a hundred epochs take: GCN, Kiani et al. and GCN-GUMP, with one batch and with batches of as many propagated states.

    GUMP_DATA=/path/to/datasets python benchmarks/epochs.py --device cuda

All have the depth, width and batch of the paper's GCN-GUMP. An epoch is training and the evaluation of all three parts after it; its median
over a few is given times a hundred. "Matched" are the batches of GCN-GUMP that hold as many states as GCN's batch has vertices: by the paper's
formula an edge counts as two states, and by the batches that it prints as four. "One program" is `gump run --replicas 1`, and a
hundred runs side by side are given as the share of one. The literal reading of Algorithms 2 and 3 is that of `core.py`, its training steps alone.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from core import Literal, alternate, step_of
from torch_geometric.loader import DataLoader

from gump import EulerianLineGraph
from gump.datasets import load_tu
from gump.experiment.config import load_config
from gump.experiment.run import Runner, run_all

CONFIGS = Path(__file__).parent.parent / "configs" / "tu"
NAMES = ("MUTAG", "PROTEINS", "ENZYMES", "NCI1", "NCI109")


def hundred_epochs(
    method: str, dataset: str, overrides: dict[str, Any], device: str, num_epochs: int, num_replicas: int | None = None
) -> float:
    """Seconds for a hundred epochs of one run, or for its share of so many side by side."""
    config = load_config(CONFIGS / f"{dataset.lower()}_{method}.toml", overrides | {"train.epochs": num_epochs})
    with tempfile.TemporaryDirectory() as folder:
        runs = run_all(Runner(Path(folder), device, num_replicas=num_replicas), config, range(num_replicas or 1))
        return 100 * next(iter(list(runs))).cost["epoch_time_s"]


def literal_seconds(dataset: str, num_layers: int, batch_size: int, device: str) -> float:
    """Seconds for the training steps of a hundred epochs of the literal reading."""
    graphs = load_tu(dataset)
    batch = next(iter(DataLoader(list(graphs), batch_size, shuffle=True))).to(device)
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


def row(name: str, device: str, num_epochs: int, num_replicas: int) -> dict[str, float]:
    """One row of the table."""
    settings = load_config(CONFIGS / f"{name.lower()}_gcn_gump.toml")[0].settings
    batch, depth = settings["train"]["batch_size"], settings["model"]["num_layers"]
    graphs = list(load_tu(name))
    vertices, arcs = (sum(sizes) for sizes in zip(*((g.num_nodes, g.edge_index.size(1)) for g in graphs), strict=True))
    equal = {"model.num_layers": depth, "train.batch_size": batch}
    found: dict[str, float] = {"batch": batch, "layers": depth}
    found["GCN"] = hundred_epochs("gcn_plain", name, equal, device, num_epochs)
    found["Kiani et al."] = hundred_epochs("gin_kiani", name, equal, device, num_epochs)
    found["GUMP"] = hundred_epochs("gcn_gump", name, {}, device, num_epochs)
    for key, states in (("matched batch", arcs), ("matched batch, as printed", 2 * arcs)):
        found[key] = max(1, batch * vertices // states)
        found[f"GUMP, {key}"] = hundred_epochs("gcn_gump", name, {"train.batch_size": found[key]}, device, num_epochs)
    for method, title in (("gcn_plain", "GCN"), ("gcn_gump", "GUMP")):
        found[f"{title}, one program"] = hundred_epochs(method, name, equal, device, num_epochs, 1)
        found[f"{title}, one of {num_replicas}"] = hundred_epochs(method, name, equal, device, num_epochs, num_replicas)
    found["literal"] = literal_seconds(name, depth, batch, device)
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="datasets; those of the paper's table by default")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=3, help="how many are timed (default: %(default)s)")
    parser.add_argument("--replicas", type=int, default=100, help="how many runs side by side (default: %(default)s)")
    given = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if given.device == 'cuda' else 'CPU'}; seconds for 100 epochs")
    rows = {}
    for name in given.names:
        rows[name] = row(name, given.device, given.epochs, given.replicas)
        print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in rows[name].items()), flush=True)
    print(json.dumps({name: {key: float(f"{value:.4g}") for key, value in found.items()} for name, found in rows.items()}))


if __name__ == "__main__":
    main()
