"""What the core costs, against PyG and against the literal reading of the paper, in one run on the CPU.

    GUMP_DATA=/path/to/datasets python benchmarks/core.py

Steps of two threads come in two speeds, which differ for GCN most, for GCN-GUMP less and for the literal reading hardly: compare the runs in
`results/core_runs.jsonl`, which all have two threads. In the slow one two threads are no faster than one (`--threads 1`), as where the two virtual
cores of a machine share a physical one; a machine may change from one to the other between two runs. So run it several times; `results/core.txt` is
one run, of the fast kind.

Times are medians of steps that alternate between the competitors, so that what else the machine does hits both alike; read the ratios, not the
milliseconds. A step is forward, loss, backward and Adam in training mode on one batch. Collating the batch is in no step; for GUMP that includes
grouping the batch's arcs by degree, and the ratio with that grouping inside the step is given beside. The literal reading is timed by itself, since
its garbage would slow its neighbors. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, leaky_relu
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN
from torch_geometric.transforms import LineGraph

from gump import EulerianLineGraph
from gump.datasets import load_tu
from gump.linalg import polar_factor
from gump.nn import GUMP, GraphPredictor
from gump.nn.coin import Coin
from gump.transforms import AddLineGraph

WIDTH, ATTENTION = 64, 32
BATCHES = {"NCI1": (64, 10), "PROTEINS": (16, 20)}
"""Dataset: number of graphs in the batch and number of layers."""


def alternate(*functions: Callable[[], Any], repeats: int = 60) -> list[float]:
    """Median milliseconds of each, called in turn."""
    times: list[list[float]] = [[] for _ in functions]
    warm_up = 2 + repeats // 10
    for repeat in range(repeats + warm_up):
        for function, record in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            if repeat >= warm_up:
                record.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(record) for record in times]


def batch_of(name: str) -> Batch:
    """The first shuffled batch of a dataset, line graphs on it."""
    size, _ = BATCHES[name]
    graphs = [AddLineGraph()(graph) for graph in load_tu(name, os.environ["GUMP_DATA"])]
    torch.manual_seed(0)
    return next(iter(DataLoader(graphs, size, shuffle=True)))


def step_of(
    encoder: torch.nn.Module, batch: Batch, line_graph: Callable[[], EulerianLineGraph] | None = None
) -> Callable[[], None]:
    """A training step of an encoder under a mean-pooling head; ``line_graph`` is called in every step."""
    model = GraphPredictor(encoder, int(batch.y.max()) + 1, num_layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        given = {"line_graph": line_graph()} if line_graph else {}
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, batch=batch.batch, num_graphs=batch.num_graphs, **given)
        cross_entropy(out, batch.y).backward()
        optimizer.step()

    return step


class Literal(torch.nn.Module):
    """GCN-GUMP as Algorithms 2 and 3 read: a sparse 2e x 2e matrix, Newton-Schulz by sparse products, gather and scatter of messages."""

    def __init__(self, in_channels: int, num_layers: int) -> None:
        super().__init__()
        self.out_channels = 2 * WIDTH
        self.base = GCN(in_channels, WIDTH, 1)
        self.source, self.target = (torch.nn.Linear(2 * WIDTH, ATTENTION, bias=False) for _ in range(2))
        self.score = torch.nn.Linear(ATTENTION, 1, bias=False)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH if k else 2 * WIDTH, WIDTH) for k in range(num_layers))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, line_graph: EulerianLineGraph) -> Tensor:
        """Computes vertex representations."""
        x = torch.relu(self.base(x, edge_index))
        (source, target), (row, column) = line_graph.arcs, line_graph.transitions()
        h = torch.cat([x[source], x[target]], dim=1)
        alpha = torch.tanh(self.score(leaky_relu(self.source(h)[row] + self.target(h)[column], 0.01))).squeeze(-1)
        norm = x.new_zeros(line_graph.num_nodes).index_add(0, target[row], alpha**2).sqrt().clamp_min(1e-12)
        size = (line_graph.num_arcs,) * 2
        matrix = torch.sparse_coo_tensor(
            torch.stack([row, column]), alpha / norm[target[row]], size, check_invariants=False
        ).coalesce()
        for _ in range(10):
            square = torch.sparse.mm(matrix.t(), matrix)
            cubic = torch.sparse.mm(matrix, square)
            matrix = (15 / 8 * matrix - 5 / 4 * cubic + 3 / 8 * torch.sparse.mm(cubic, square)).coalesce()
        (row, column), weight = matrix.indices(), matrix.values()
        for layer in self.layers:
            message = weight.unsqueeze(-1) * layer(h)[column]
            h = torch.relu(torch.zeros(size[0], WIDTH).index_add(0, row, message))
        count = target.bincount(minlength=line_graph.num_nodes).clamp_min(1)
        scattered = torch.zeros(line_graph.num_nodes, WIDTH).index_add(0, target, h) / count.unsqueeze(-1)
        return torch.cat([x, scattered], dim=1)


def line_graph_ratio() -> float:
    """How many times faster than PyG's transform the line graph of 80,000 arcs is built, transitions listed."""
    torch.manual_seed(0)
    edges = torch.randint(20_000, (2, 41_000))
    line_graph = EulerianLineGraph.from_edge_index(edges[:, edges[0] != edges[1]], 20_000)
    arcs = line_graph.to_edge_index()
    ours, theirs = alternate(
        lambda: EulerianLineGraph.from_edge_index(arcs, 20_000).transitions(),
        lambda: LineGraph(force_directed=True)(Data(edge_index=arcs, num_nodes=20_000)),
        repeats=9,
    )
    print(
        f"line graph of {arcs.size(1):,} arcs with transitions: {ours:.1f} ms, PyG's LineGraph {theirs:.0f} ms: {theirs / ours:.0f} times faster"
    )
    return theirs / ours


def step_ratios(name: str, batch: Batch) -> dict[str, float]:
    """GCN-GUMP against PyG's GCN, plain and with batch norm, and against the literal reading."""
    _, num_layers = BATCHES[name]
    collated = EulerianLineGraph.from_data(batch)
    collated.compressed(collated.max_degree)  # kept with the line graph once asked for
    states = collated.num_arcs / batch.num_nodes
    plain = {"attention_channels": ATTENTION, "norm": None, "base_norm": None}
    gcn, gcn_norm, gump, gump_grouping, gump_norm = alternate(
        step_of(GCN(batch.num_features, WIDTH, num_layers), batch),
        step_of(GCN(batch.num_features, WIDTH, num_layers, norm="batch_norm"), batch),
        step_of(GUMP(batch.num_features, WIDTH, num_layers, **plain), batch, lambda: collated),
        step_of(GUMP(batch.num_features, WIDTH, num_layers, **plain), batch, lambda: EulerianLineGraph.from_data(batch)),
        step_of(GUMP(batch.num_features, WIDTH, num_layers, attention_channels=ATTENTION), batch, lambda: collated),
    )
    (literal,) = alternate(step_of(Literal(batch.num_features, num_layers), batch, lambda: collated), repeats=10)
    ratios = {
        "step_to_gcn": gump / gcn,
        "step_to_gcn_per_state": gump / gcn / states,
        "step_and_grouping_to_gcn_per_state": gump_grouping / gcn / states,
        "normed_step_to_normed_gcn_per_state": gump_norm / gcn_norm / states,
        "literal_to_step": literal / gump,
    }
    print(
        f"{name}, {batch.num_graphs} graphs, {num_layers} layers: GCN {gcn:.1f} ms ({gcn_norm:.1f} with batch norm), "
        f"GCN-GUMP {gump:.1f} ms ({gump_norm:.1f}), literal {literal:.0f} ms; {states:.2f} states per vertex"
    )
    print("   " + ", ".join(f"{key} {value:.2f}" for key, value in ratios.items()))
    return {f"{name}_{key}": round(value, 3) for key, value in ratios.items()}


def unrolled(blocks: Tensor) -> Tensor:
    """Newton-Schulz with K = 10, differentiated by autograd through its steps."""
    x = blocks / torch.linalg.matrix_norm(blocks, keepdim=True).clamp_min(1e-12)
    for _ in range(10):
        square = x.mT @ x
        x = 15 / 8 * x - 5 / 4 * x @ square + 3 / 8 * x @ square @ square
    return x


def projection_ratios(name: str, batch: Batch) -> dict[str, float]:
    """The exact projections of a batch's scores, forward and backward, against unrolled Newton-Schulz."""
    line_graph = EulerianLineGraph.from_data(batch)
    torch.manual_seed(0)
    coin = Coin(2 * WIDTH, ATTENTION)
    scores = [s.detach().requires_grad_() for s in coin.scores(torch.randn(batch.num_nodes, WIDTH), line_graph)]

    weight = {s.size(-1): torch.randn_like(s) for s in scores}

    def run(project: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        return lambda: sum((project(s) * weight[s.size(-1)]).sum() for s in scores if s.size(-1) > 1).backward()

    times = alternate(run(unrolled), run(coin.project), run(polar_factor))
    ratios = {"bounded_to_unrolled": times[1] / times[0], "polar_to_unrolled": times[2] / times[0]}
    print(
        f"{name}, projection forward and backward: unrolled K=10 {times[0]:.1f} ms, bounded {times[1]:.1f} ms, polar {times[2]:.1f} ms"
    )
    return {f"{name}_{key}": round(value, 3) for key, value in ratios.items()}


def peak_memory(project: Callable[[Tensor], Tensor], blocks: Tensor) -> float:
    """The most that torch has allocated at any moment of a forward and backward, in megabytes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        project(blocks).sum().backward()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes)) / 1e6


def memory_ratios() -> dict[str, float]:
    """Peak memory of Newton-Schulz at K = 10 and K = 40, of the exact factor, and of the unrolled loop at K = 10."""
    blocks = torch.randn(100_000, 4, 4, requires_grad=True)
    ten, forty, exact, loop = (
        peak_memory(project, blocks)
        for project in (lambda b: polar_factor(b, num_steps=10), lambda b: polar_factor(b, num_steps=40), polar_factor, unrolled)
    )
    print(
        f"peak memory over 100,000 blocks of 4 x 4 ({blocks.nbytes / 1e6:.1f} MB): K=10 {ten:.1f} MB, K=40 {forty:.1f} MB, "
        f"exact {exact:.1f} MB, unrolled K=10 {loop:.1f} MB"
    )
    return {
        "memory_K40_to_K10": round(forty / ten, 3),
        "memory_exact_to_K10": round(exact / ten, 2),
        "memory_unrolled_to_K10": round(loop / ten, 2),
    }


def main() -> None:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="how many threads torch uses (default: %(default)s)")
    torch.set_num_threads(parser.parse_args().threads)
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, MKL {'yes' if torch.backends.mkl.is_available() else 'no'}"
    )
    ratios: dict[str, float] = {"line_graph_speedup": round(line_graph_ratio(), 1)}
    if "GUMP_DATA" in os.environ:
        for name in BATCHES:
            batch = batch_of(name)
            ratios |= step_ratios(name, batch) | projection_ratios(name, batch)
    else:
        print("set GUMP_DATA to the folder of the TU datasets for the rest")
    ratios |= memory_ratios()
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
