"""What `gump.diagnostics.memory` predicts, against what a step takes on the CPU.

    GUMP_DATA=/path/to/datasets python benchmarks/memory.py --threads 1

Bytes are the most that tensors hold at a time, as torch's profiler records allocations; seconds are medians of three steps, which include building
the line graph. A ratio above one is a prediction that is too high.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch_geometric.data import Batch
from torch_geometric.utils import barabasi_albert_graph

from gump.datasets import load_planetoid, load_tu
from gump.diagnostics.memory import memory
from gump.nn import GUMP

WIDTH = 64


def cases() -> Iterator[tuple[str, Tensor, Tensor, int]]:
    """Name, features, edges and ``max_block``."""
    for name, size in (("NCI1", 64), ("PROTEINS", 16), ("MUTAG", 16)):
        batch = Batch.from_data_list(load_tu(name)[:size])
        yield f"{name}, {size} graphs", batch.x, batch.edge_index, 64
    cora = load_planetoid("Cora")[0]
    for max_block in (256, 16):
        yield "Cora", cora.x, cora.edge_index, max_block
    for leaves in (60, 2_000, 20_000):
        edges = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
        yield f"star, {leaves:,} leaves", torch.randn(leaves + 1, 8), edges, 64
    yield "path, 20,000 vertices", torch.randn(20_000, 8), torch.stack([torch.arange(19_999), torch.arange(1, 20_000)]), 64
    yield "clique, 60 vertices", torch.randn(60, 8), torch.combinations(torch.arange(60)).t(), 64
    torch.manual_seed(0)
    edges = barabasi_albert_graph(5_000, 5)
    for max_block in (256, 64):
        yield "Barabási-Albert, 25,000 edges", torch.randn(5_000, 8), edges, max_block


def step(model: GUMP, x: Tensor, edge_index: Tensor, training: bool) -> None:
    """One forward pass and, in training, one backward pass."""
    with torch.set_grad_enabled(training):
        out = model(x, edge_index)
        if training:
            out.square().mean().backward()


def measured(model: GUMP, x: Tensor, edge_index: Tensor, training: bool) -> tuple[int, float]:
    """Bytes and seconds."""
    run, times = partial(step, model, x, edge_index, training), []
    for _ in range(4):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    model.zero_grad()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak, statistics.median(times[1:])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    torch.set_num_threads(parser.parse_args().threads)
    print(f"GCN flavor, width {WIDTH}, torch {torch.__version__}, {torch.get_num_threads()} thread(s)")
    print(
        f"{'graph':31} {'block':>5} {'layers':>6} {'step':>5} {'MB':>8} {'predicted':>9} {'ratio':>5} {'ms':>8} {'predicted':>9} {'ratio':>5}"
    )
    for name, x, edge_index, max_block in cases():
        for num_layers, training in ((4, True), (12, True), (4, False)):
            model = GUMP(x.size(1), WIDTH, num_layers, max_block=max_block)
            predicted = memory(edge_index, WIDTH, num_layers, max_block, training=training)
            peak, seconds = measured(model, x, edge_index, training)
            print(
                f"{name:31} {max_block:5} {num_layers:6} {'train' if training else 'infer':>5} {peak / 1e6:8.1f} {predicted.bytes / 1e6:9.1f} "
                f"{predicted.bytes / peak:5.2f} {1e3 * seconds:8.1f} {1e3 * predicted.time_s:9.1f} {predicted.time_s / seconds:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
