"""What a training step of every system costs beside one of GCN, and what rewiring a graph costs, in one run on the CPU.

    GUMP_DATA=/path/to/datasets python benchmarks/baselines.py
    GUMP_DATA=/path/to/datasets python benchmarks/baselines.py GIN "GIN (+layer)"

A step is forward, loss, backward and Adam in training mode on one batch, through the same model and batch that a configuration would make.
All have width 64 and 4 layers unless the row says otherwise. Collating the batch is in no step; grouping arcs by degree is in those of GUMP and
NBA-GNN, as in training. What a transform does once for every graph is timed by itself, over the first 300 graphs of NCI1.

Steps of a system alternate with steps of GCN, and a ratio is that of their medians, in processor time of one thread, which does not count what else
the machine does, though caches and clock rates feel it. Every system is built and timed three times, with a GCN of its own: the table has the
median ratio and, as spread, the largest over the smallest. The last line is one JSON object.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import Compose

from gump.datasets import load_tu
from gump.datasets.dataset import Dataset
from gump.experiment.config import build, make_configs
from gump.experiment.model import build_model, predict
from gump.experiment.registry import MODELS, TRANSFORMS, takes_line_graph
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS
from gump.transforms import AddLineGraph

BATCHES = {"NCI1": 64, "PROTEINS": 16}
"""Dataset: number of graphs in the batch."""
NUM_PREPARED, ROUNDS, SECONDS, FEWEST = 300, 3, 0.5, 4
"""Graphs over which a transform is timed; how often a pair of systems is built, how long it is timed then, and the fewest steps."""

Table = dict[str, Any]
GCN: Table = {"kind": "MPNN", "hidden_channels": 64, "num_layers": 4}
"""What a system is where it does not say otherwise."""
SYSTEMS: dict[str, tuple[Table, list[Table]]] = {
    "GCN": ({}, []),
    "GIN": ({"conv": "gin"}, []),
    "GraphConv": ({"conv": "graph"}, []),
    "GCN (+layer)": ({"num_layers": 8}, []),
    "GIN (+layer)": ({"conv": "gin", "num_layers": 8}, []),
    "GraphConv (+layer)": ({"conv": "graph", "num_layers": 8}, []),
    "DIGL": ({}, [{"kind": "DIGL"}]),
    "SDRF": ({}, [{"kind": "SDRF"}]),
    "FoSR": ({}, [{"kind": "FoSR"}]),
    "GTR": ({}, [{"kind": "GTR"}]),
    "LASER": ({"num_relations": 3}, [{"kind": "LASER", "relation": True}]),
    "ProxyAdd": ({}, [{"kind": "ProxyAdd"}]),
    "ProxyDel": ({}, [{"kind": "ProxyDel"}]),
    "ELDANADD": ({}, [{"kind": "EldanAdd"}]),
    "GCNII": ({"kind": "GCNII"}, []),
    "A-DGN": ({"kind": "ADGN"}, []),
    "GRAND": ({"kind": "GRAND"}, []),
    "GPS": ({"kind": "GPS"}, []),
    "GPS, performer": ({"kind": "GPS", "attention": "performer"}, []),
    "GRIT": ({"kind": "GRIT"}, [{"kind": "AddRRWP", "num_steps": 17}]),
    "Exphormer": ({"kind": "Exphormer"}, [{"kind": "AddExpander"}]),
    "Graph ViT": ({"kind": "GraphViT"}, [{"kind": "AddPatches"}]),
    "G-MLPMixer": ({"kind": "GraphMLPMixer"}, [{"kind": "AddPatches"}]),
    "DRew-GCN": ({"kind": "DRewGCN"}, [{"kind": "AddHops", "max_distance": 4}]),
    "k-GCN-SSM": ({"kind": "KGCNSSM"}, [{"kind": "AddHops", "max_distance": 4}]),
    "Ortho-GConv": ({"kind": "OrthoGCN"}, []),
    "UniConv": ({"kind": "UnitaryGCN"}, []),
    "UniConv, real": ({"kind": "UnitaryGCN", "real": True}, []),
    "Lie UniConv": ({"kind": "UnitaryGCN", "lie": True}, []),
    "Lie UniConv, real": ({"kind": "UnitaryGCN", "lie": True, "real": True}, []),
    "NBA-GNN": ({"kind": "NBAGNN"}, []),
    "GCN-GUMP": ({"kind": "GUMP"}, []),
    "GIN-GUMP": ({"kind": "GUMP", "conv": "gin", "base": "gin"}, []),
    "GCN-GUMP, K=10": ({"kind": "GUMP", "coin": "newton_schulz"}, []),
}
"""What differs from GCN's model, and the transforms; every other setting is the library's default."""


def alternate(*functions: Callable[[], Any]) -> list[float]:
    """Median milliseconds of processor time of each, called in turn until the time is up."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(2):
        for function in functions:
            function()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times[0]) < FEWEST:
        for function, record in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            record.append(1e3 * (time.process_time() - start))
    return [statistics.median(record) for record in times]


def settings_of(name: str, dataset: str) -> Table:
    """The settings of a system, checked and complete, as those of a configuration."""
    changes, transforms = SYSTEMS[name]
    tables = {
        "dataset": {"kind": "tu", "name": dataset},
        "protocol": {"kind": "fresh"},
        "model": GCN | changes,
        "transform": transforms,
        "head": {"num_layers": 1},
    }
    return make_configs(name, tables)[0].settings


def transform_of(settings: Table) -> Callable[[Data], Data]:
    """What is done to every graph before training."""
    chain = [build(transform, TRANSFORMS) for transform in settings["transform"]]
    return Compose(chain + [AddLineGraph()] * takes_line_graph(MODELS[settings["model"]["kind"]]))


def step_of(name: str, dataset: Dataset) -> Callable[[], None]:
    """A training step of a system on all graphs of the dataset in one batch."""
    settings = settings_of(name, dataset.name)
    dataset = dataclasses.replace(dataset, graphs=[transform_of(settings)(graph) for graph in dataset])
    torch.manual_seed(0)
    batch, model = GraphStore(dataset.graphs).batch(torch.arange(len(dataset))), build_model(settings, dataset)
    optimizer, loss = torch.optim.Adam(model.parameters(), lr=1e-3), TASKS[dataset.task].loss

    def step() -> None:
        optimizer.zero_grad()
        loss(predict(model, batch), batch.y).backward()
        optimizer.step()

    return step


def preparation_ms(name: str, graphs: Sequence[Data]) -> float:
    """Mean milliseconds of processor time that the transforms of a system take for a graph."""
    transform = transform_of(settings_of(name, "NCI1"))
    start = time.process_time()
    for graph in graphs:
        transform(graph)
    return 1e3 * (time.process_time() - start) / len(graphs)


def main() -> None:
    """Runs all of it, or the systems that are named."""
    torch.set_num_threads(1)
    if unknown := set(sys.argv[1:]) - set(SYSTEMS):
        raise SystemExit(f"{', '.join(sorted(unknown))}: not one of {', '.join(SYSTEMS)}")
    if "GUMP_DATA" not in os.environ:
        raise SystemExit("set GUMP_DATA to the folder of the TU datasets")
    print(
        f"torch {torch.__version__}, 1 thread; steps over GCN's on {' and '.join(f'{n} graphs of {d}' for d, n in BATCHES.items())}"
    )
    datasets = {name: load_tu(name, os.environ["GUMP_DATA"]) for name in BATCHES}
    first = datasets["NCI1"].graphs[:NUM_PREPARED]
    for name, size in BATCHES.items():
        chosen = torch.randperm(len(datasets[name]), generator=torch.Generator().manual_seed(0))[:size]
        datasets[name] = dataclasses.replace(datasets[name], graphs=[datasets[name][i] for i in chosen.tolist()])
    print(f"{'system':20}" + "".join(f"{name:>10}{'spread':>8}" for name in BATCHES) + f"{'ms/graph':>10}  setting")
    ratios: dict[str, dict[str, float]] = {}
    for name in sys.argv[1:] or SYSTEMS:
        (changes, transforms), row, cells = SYSTEMS[name], {}, ""
        for dataset, data in datasets.items():
            rounds = [alternate(step_of(name, data), step_of("GCN", data)) for _ in range(ROUNDS)]
            found = [ours / gcn for ours, gcn in rounds]
            row[dataset] = round(statistics.median(found), 2)
            cells += f"{row[dataset]:10.2f}{max(found) / min(found):8.2f}"
        if transforms or takes_line_graph(MODELS[(GCN | changes)["kind"]]):
            row["ms_per_graph"] = round(preparation_ms(name, first), 2)
        ratios[name] = row
        once = f"{row['ms_per_graph']:10.2f}" if "ms_per_graph" in row else " " * 10
        setting = ", ".join([f"{key}={value}" for key, value in changes.items()] + [repr(build(t, TRANSFORMS)) for t in transforms])
        print(f"{name:20}{cells}{once}  {setting}", flush=True)
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
