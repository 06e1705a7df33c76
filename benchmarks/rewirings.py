"""What preparing all of NCI1 takes with every rewiring, the way a run prepares it: in parallel processes, kept in a cache.

    GUMP_DATA=/path/to/datasets python benchmarks/rewirings.py
    GUMP_DATA=/path/to/datasets python benchmarks/rewirings.py --count 40 FoSR GTR

All 4,110 graphs, none left out, with the library's defaults; ``--count`` is the number of edges where a rewiring counts them. ``wall`` is the time
that a run waits with an empty cache, ``cpu`` the processor time of all processes together, ``again`` the time that it waits when the cache has
the result. Other work on the machine lengthens the first and the last: ``load`` is the number of processes that wanted a core in the minute
before a row was done, this benchmark's own included. ``edges`` is half of what ``edge_index`` lists in a graph, on average. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from gump import transforms
from gump.experiment.config import build, make_configs
from gump.experiment.preprocess import prepare
from gump.experiment.registry import TRANSFORMS

REWIRINGS = [name for name in transforms.__all__ if not name.startswith(("Add", "Cap"))]
COUNTS = ("num_edges", "num_iterations")

Table = dict[str, Any]


def transform_of(name: str, count: int | None) -> Table:
    """The table of a rewiring in a configuration."""
    counts = set(COUNTS) & set(inspect.signature(getattr(transforms, name)).parameters)
    return {"kind": name} | (dict.fromkeys(counts, count) if count is not None else {})


def settings_of(*chain: Table) -> Table:
    """The settings of a run with these transforms, checked and complete."""
    tables = {
        "dataset": {"kind": "tu", "name": "NCI1"},
        "protocol": {"kind": "fresh"},
        "model": {"kind": "MPNN", "hidden_channels": 64, "num_layers": 4},
        "transform": list(chain),
    }
    return make_configs("rewirings", tables)[0].settings


def processor_s() -> float:
    """Processor time of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


def measure(transform: Table, root: Path) -> dict[str, float]:
    """Prepares the dataset twice, the first time for real."""
    settings = settings_of(transform)
    start, busy = time.perf_counter(), processor_s()
    fresh = prepare(settings, line_graph=False, root=root)
    wall_s, cpu_s, load = time.perf_counter() - start, processor_s() - busy, round(os.getloadavg()[0], 1)
    start = time.perf_counter()
    kept = prepare(settings, line_graph=False, root=root)
    again_s = time.perf_counter() - start
    assert all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(fresh, kept, strict=True))
    mean_edges = sum(graph.num_edges for graph in fresh) / 2 / len(fresh)
    return {
        "wall_s": round(wall_s, 1),
        "cpu_s": round(cpu_s, 1),
        "again_s": round(again_s, 1),
        "mean_edges": round(mean_edges, 2),
        "load": load,
    }


def main() -> None:
    """Runs all of it, or the rewirings that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(REWIRINGS)}; by default all")
    parser.add_argument("--count", type=int, help="the number of edges, where a rewiring has one")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(REWIRINGS):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(REWIRINGS)}")
    if "GUMP_DATA" not in os.environ:
        raise SystemExit("set GUMP_DATA to the folder of the TU datasets")
    root, found = Path(os.environ["GUMP_DATA"]), {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GUMP_CACHE"] = cache
        plain = prepare(settings_of(), line_graph=False, root=root)
        cores, mean_edges = len(os.sched_getaffinity(0)), sum(graph.num_edges for graph in plain) / 2 / len(plain)
        print(
            f"torch {torch.__version__}, {cores} cores; {len(plain)} graphs of NCI1 with {mean_edges:.2f} edges on average; seconds"
        )
        print(f"{'rewiring':10}{'wall':>8}{'cpu':>8}{'again':>8}{'load':>8}{'edges':>9}  setting")
        for name in arguments.names or REWIRINGS:
            table = transform_of(name, arguments.count)
            row = found[name] = measure(table, root)
            cells = f"{row['wall_s']:8.1f}{row['cpu_s']:8.1f}{row['again_s']:8.1f}{row['load']:8.1f}{row['mean_edges']:9.2f}"
            print(f"{name:10}{cells}  {build(table, TRANSFORMS)!r}", flush=True)
    print(json.dumps({"num_graphs": len(plain), "cores": cores, "rewirings": found}))


if __name__ == "__main__":
    main()
