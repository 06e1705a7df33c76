"""What hubs cost, and what their coins lose.

    python benchmarks/hubs.py scale [--threads 2]                  # must hold: cost of one training step
    GUMP_DATA=DIR python benchmarks/hubs.py cora --records DIR     # must hold: accuracy on Cora, ten seeds

``scale`` times one training step (forward and backward; GCN flavor, four layers of width 64; the line graph is built before, and what it
keeps is made by a first step that does not count) of a star with 100,000 leaves, of a path with as many arcs, and of Barabási-Albert graphs of
up to a million edges, beside PyG's GCN. Star and path take turns in one process, and the ratio is the median over the turns. Everything else
is measured in a fresh process, whose peak memory is that of the whole process, torch included; there the least of several steps counts, which
a busy machine disturbs least. CPU seconds stand beside all times. ``blocks`` times dense blocks against the form of hubs by degree, from
which the default of ``max_block`` was chosen.

``cora`` trains GCN-GUMP with ``max_block`` 16 against blocks for all (the largest degree is 168), with the same seeds, through
``gump.experiment``, and compares test accuracies at the epoch that the configuration's rule selects.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import GCN

from gump import EulerianLineGraph
from gump.nn import GUMP
from gump.nn.coin import MAX_BLOCK

NUM_LEAVES = 100_000
EDGES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
ATTACHED = 5
"""How many edges a new vertex of a Barabási-Albert graph brings."""

WIDTH, NUM_LAYERS = 64, 4
CORA: dict[str, Any] = {
    "dataset": {"kind": "planetoid", "name": "Cora"},
    "protocol": {"kind": "official", "num_runs": 10},
    "model": {
        "kind": "GUMP",
        "hidden_channels": WIDTH,
        "num_layers": NUM_LAYERS,
        "dropout": 0.5,
        "norm": "none",
        "base_norm": "none",
        "residual": True,
    },
    "head": {"num_layers": 1},
    "train": {"epochs": 200, "lr": 1e-2, "weight_decay": 5e-4, "patience": 50},
}
"""What is trained on Cora."""


def star(num_leaves: int) -> tuple[Tensor, int]:
    """A hub and its leaves."""
    return torch.stack([torch.zeros(num_leaves, dtype=torch.long), torch.arange(1, num_leaves + 1)]), num_leaves + 1


def path(num_edges: int) -> tuple[Tensor, int]:
    """One vertex after the other."""
    return torch.stack([torch.arange(num_edges), torch.arange(1, num_edges + 1)]), num_edges + 1


def preferential(num_edges: int, seed: int = 0) -> tuple[Tensor, int]:
    """A Barabási-Albert graph: every new vertex brings some edges to ends of earlier edges, drawn uniformly.

    Ends are listed two per edge. An edge draws the number of an earlier end; if that is the second end of an edge, it leads to where that edge
    leads, which is looked up until all are known. Edges that coincide are merged by whoever reads them.
    """
    source = np.arange(num_edges) // ATTACHED
    drawn = (np.random.default_rng(seed).random(num_edges) * 2 * ATTACHED * source).astype(np.int64)
    target = np.where(drawn % 2 == 0, source[drawn // 2], -1)
    while (unknown := np.flatnonzero(target < 0)).size:
        target[unknown] = target[drawn[unknown] // 2]
    edges = np.stack([source, target])[:, source != target]
    return torch.from_numpy(edges), int(source[-1]) + 1


def lattice(degree: int) -> tuple[Tensor, int]:
    """A ring where everyone is joined to the nearest ``degree``."""
    num_nodes = max(24_000 // degree, degree + 2)
    vertex = torch.arange(num_nodes).repeat_interleave(degree // 2)
    return torch.stack([vertex, (vertex + torch.arange(1, degree // 2 + 1).repeat(num_nodes)) % num_nodes]), num_nodes


GRAPHS: dict[str, Callable[[int], tuple[Tensor, int]]] = {
    "star": star,
    "path": path,
    "preferential": preferential,
    "lattice": lattice,
}


def training_step(graph: str, size: int, model: str, max_block: int | None) -> Callable[[], tuple[float, float]]:
    """A function that makes one step and returns its seconds, of the clock and of the CPU."""
    edge_index, num_nodes = GRAPHS[graph](size)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, WIDTH)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    if model == "gcn":
        network: torch.nn.Module = GCN(WIDTH, WIDTH, NUM_LAYERS)
        given: dict[str, Any] = {"edge_index": line_graph.to_edge_index()}
    else:
        network = GUMP(WIDTH, WIDTH, NUM_LAYERS, max_block=max_block or MAX_BLOCK)
        given = {"edge_index": edge_index, "line_graph": line_graph}

    def step() -> tuple[float, float]:
        began, cpu_began = time.perf_counter(), time.process_time()
        network.zero_grad()
        network(x, **given).square().mean().backward()
        return time.perf_counter() - began, time.process_time() - cpu_began

    return step


def measure(graph: str, size: int, model: str, max_block: int | None, repeats: int) -> dict[str, float]:
    """Times training steps in this process."""
    step = training_step(graph, size, model, max_block)
    first, *others = (step() for _ in range(repeats + 1))
    wall, cpu = (min(times) for times in zip(*others, strict=True))
    return {"first_s": first[0], "step_s": wall, "cpu_s": cpu, "peak_gb": peak_memory()}


def peak_memory() -> float:
    """The most that this process has held since its program began, in gigabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e9


def star_and_path(max_block: int | None, repeats: int = 9) -> dict[str, float]:
    """Times the two in turns, in this process, since the ratio is what counts."""
    steps = {name: training_step(name, NUM_LEAVES, "gump", max_block) for name in ("star", "path")}
    times = [{name: step() for name, step in steps.items()} for _ in range(repeats + 1)][1:]
    found: dict[str, float] = {}
    for clock, key in enumerate(("step_s", "cpu_s")):
        star_s, path_s = (statistics.median(t[name][clock] for t in times) for name in steps)
        ratio = statistics.median(t["star"][clock] / t["path"][clock] for t in times)
        found |= {f"star_{key}": star_s, f"path_{key}": path_s, f"star_to_path_{key}": ratio}
    return found


def in_fresh_process(
    threads: int, graph: str, size: int, model: str = "gump", max_block: int | None = None, repeats: int = 3
) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "measure", graph, str(size), model, "--repeats", str(repeats), "--threads", str(threads)]
    command += [] if max_block is None else ["--max-block", str(max_block)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def slope(sizes: tuple[int, ...], times: list[float]) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit([math.log(size) for size in sizes], [math.log(t) for t in times], 1)[0])


def blocks(threads: int) -> None:
    """Dense blocks against the form of hubs, by degree."""
    ratios = {}
    for degree in (16, 32, 48, 64, 128, 256):
        dense, hub = (in_fresh_process(threads, "lattice", degree, max_block=m) for m in (degree, degree - 1))
        ratios[degree] = round(dense["cpu_s"] / hub["cpu_s"], 2)
        print(
            f"degree {degree:3}: blocks {dense['cpu_s']:.3f} s, hubs {hub['cpu_s']:.3f} s of CPU time, {ratios[degree]:.2f} times",
            flush=True,
        )
    print(json.dumps({"blocks_to_hubs": ratios}))


def scale(threads: int, max_block: int | None) -> None:
    """Star against path, and Barabási-Albert graphs by their number of edges."""
    print(f"torch {torch.__version__}, {threads} threads, max_block {max_block or 'by default'}")
    results = star_and_path(max_block)
    for name in ("star", "path"):
        results[f"{name}_gb"] = in_fresh_process(threads, name, NUM_LEAVES, max_block=max_block, repeats=1)["peak_gb"]
        print(
            f"{name} of {NUM_LEAVES:,} edges: step {results[f'{name}_step_s']:.3f} s, {results[f'{name}_cpu_s']:.3f} s of CPU time, "
            f"peak {results[f'{name}_gb']:.2f} GB"
        )
    print(
        f"star to path, median of nine turns: {results['star_to_path_step_s']:.2f}, CPU time {results['star_to_path_cpu_s']:.2f}",
        flush=True,
    )
    series: dict[str, list[dict[str, float]]] = {"gump": [], "gcn": []}
    for size in EDGES:
        for model, members in series.items():
            members.append(in_fresh_process(threads, "preferential", size, model, max_block, repeats=2 if size > 100_000 else 5))
            last = members[-1]
            print(
                f"Barabási-Albert, {size:9,} edges, {model:4}: step {last['step_s']:7.3f} s, {last['cpu_s']:7.3f} s of CPU time, "
                f"first step {last['first_s']:6.2f} s, peak {last['peak_gb']:.2f} GB",
                flush=True,
            )
    for key in ("step_s", "cpu_s"):
        slopes = {model: slope(EDGES, [m[key] for m in members]) for model, members in series.items()}
        results |= {f"slope_{model}_{key[:-2]}": value for model, value in slopes.items()}
    last = series["gump"][-1]
    results |= {"million_edges_s": last["step_s"], "million_edges_cpu_s": last["cpu_s"], "million_edges_gb": last["peak_gb"]}
    print(json.dumps({key: round(value, 3) for key, value in results.items()}))


def cora(records: Path, jobs: int, batch_norm: bool) -> None:
    """Hub coins against dense coins on Cora, by test accuracy at the selected epoch: no norms but residual connections, or the reverse."""
    from gump.experiment.config import make_configs
    from gump.experiment.run import Runner, run_all

    accuracy = {}
    other = {"model.norm": "batch", "model.base_norm": "batch", "model.residual": False} if batch_norm else {}
    for max_block in (16, 168):
        (config,) = make_configs("hubs/cora", CORA, {"model.max_block": max_block, **other})
        runs = list(run_all(Runner(records), [config], num_jobs=jobs))
        accuracy[max_block] = [100 * run.results[run.select]["test"] for run in runs]
        mean, deviation = statistics.mean(accuracy[max_block]), statistics.stdev(accuracy[max_block])
        print(
            f"max_block {max_block}: test accuracy {mean:.2f} ± {deviation:.2f} over {len(runs)} seeds, selected by {runs[0].select}"
        )
    difference = [hub - dense for hub, dense in zip(accuracy[16], accuracy[168], strict=True)]
    error = statistics.stdev(difference) / len(difference) ** 0.5
    print(f"hubs minus blocks, seed by seed: {statistics.mean(difference):+.2f} ± {error:.2f} (standard error)")
    print(json.dumps({"hubs": accuracy[16], "blocks": accuracy[168], "difference": round(statistics.mean(difference), 2)}))


def main() -> None:
    """Runs what was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scale", "blocks", "cora", "measure"])
    parser.add_argument("graph", nargs="*", help="for measure: the graph, its size, and gump or gcn")
    parser.add_argument("--threads", type=int, default=2, help="how many threads torch uses (default: %(default)s)")
    parser.add_argument("--max-block", type=int, help="the largest block, by default as GUMP has it")
    parser.add_argument("--repeats", type=int, default=3, help="for measure: how many steps (default: %(default)s)")
    parser.add_argument("--records", type=Path, default=Path("records"), help="for cora: where records go (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="for cora: how many runs at a time (default: %(default)s)")
    parser.add_argument("--batch-norm", action="store_true", help="for cora: with batch norm, and without residual connections")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.what == "measure":
        graph, size, model = options.graph
        print(json.dumps(measure(graph, int(size), model, options.max_block, options.repeats)))
    elif options.what == "scale":
        scale(options.threads, options.max_block)
    elif options.what == "blocks":
        blocks(options.threads)
    else:
        cora(options.records, options.jobs, options.batch_norm)


if __name__ == "__main__":
    main()
