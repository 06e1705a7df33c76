"""How far the runs of the TU table are from what the passes and products of their kernels would take at the full speed of their GPU.

    GUMP_DATA=/path/to/datasets python benchmarks/floor.py records/tu

Counts, for one epoch of all replicas (every training graph forward and backward once, every validation graph forward once), the passes over
the states of the arcs and the products of the linear layers of GIN-GUMP as the kernels make them, without padding and with everything else for
nothing, and sets them, at the speed of the memory and of the tensor cores, beside the time that the records name. It is no strict lower bound:
states that fit into the cache could move faster than memory does, and kernels that fuse more would make fewer passes. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from gump.datasets.tu import load_tu
from gump.record import load_records
from gump.report.table import commit

BANDWIDTH = 4.8e12
"""Bytes a second that the memory of an H200 moves, by its data sheet."""

OPERATIONS = 494e12 / 3
"""Multiplications and additions a second: dense TF32 by the data sheet, three of which make a product of single precision."""

FORWARD, BACKWARD = 10, 17
"""Passes over the states of a layer. Forward: coin and shift read twice and write once, two linear layers read and write, the norm reads twice
and writes once. Backward: the norm reads four times and writes once, two linear layers read three times and write once, and so do coin and shift."""

PRODUCTS = 2
"""Square linear layers in a layer; each takes one product forward and two backward."""


def main() -> None:
    """Prints a line for every dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="a folder with records of NAME_gin_gump")
    folders = sorted(parser.parse_args().records.glob("*_gin_gump"))
    found = {}
    print(
        "In ms, an epoch of all runs together; counted: the larger of the bytes of these passes and the products; ratio: epoch to counted."
    )
    print(
        f"{'dataset':10s} {'runs':>4s} {'epoch':>9s} {'bytes of these passes':>21s} {'products':>9s} {'counted':>9s} {'ratio':>6s}  commit"
    )
    for folder in folders:
        runs = load_records(folder)
        settings = runs[0].settings
        name, model, protocol = settings["dataset"]["name"], settings["model"], settings["protocol"]
        arcs = sum(graph.num_edges for graph in load_tu(name).graphs)
        epoch = len(runs) * statistics.median(run.cost["epoch_time_s"] for run in runs)
        train, val = (len(runs) * protocol[part] * arcs for part in ("train", "val"))
        row = model["hidden_channels"] * model["num_layers"]
        traffic = 4 * row * (train * (FORWARD + BACKWARD) + val * FORWARD) / BANDWIDTH
        products = 2 * PRODUCTS * model["hidden_channels"] * row * (3 * train + val) / OPERATIONS
        counted = max(traffic, products)
        commits = ", ".join(sorted(set(map(commit, runs))))
        print(
            f"{name:10s} {len(runs):4d} {1e3 * epoch:9.1f} {1e3 * traffic:21.1f} {1e3 * products:9.1f} {1e3 * counted:9.1f} "
            f"{epoch / counted:6.2f}  {commits}"
        )
        found[name] = {"epoch_s": round(epoch, 4), "counted_s": round(counted, 4), "ratio": round(epoch / counted, 2)}
    found["all"] = {key: round(sum(each[key] for each in found.values()), 3) for key in ("epoch_s", "counted_s")}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
