"""Can the far side of a ring be heard? Trains a GCN and GCN-GUMP side by side on rings of growing size.

Source and target are opposite vertices of a ring of n vertices, n/2 hops apart; both models have n/2 + 1 layers of width 32, the
same head, optimizer and budget of steps, and see the five graphs of the task at once. The GCN has batch norm, as in the paper that
posed the task, and learned less without when this was written; GCN-GUMP has its defaults, but no base GNN. Chance is 20 %.
"""

import argparse
from pathlib import Path
from statistics import mean

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch_geometric.data import Batch
from torch_geometric.nn import GCN

import gump
from gump.datasets import transfer_task

CLASSES, CHANNELS = 5, 32


def make_gcn(num_layers: int) -> torch.nn.Module:
    """PyG's GCN, with the head that GCN-GUMP gets too."""
    return gump.nn.NodePredictor(GCN(CLASSES, CHANNELS, num_layers, norm="batch_norm"), CLASSES)


def make_gump(num_layers: int) -> torch.nn.Module:
    """GCN-GUMP without a base GNN, so that the propagation alone must carry the signal."""
    return gump.nn.NodePredictor(gump.nn.GUMP(CLASSES, CHANNELS, num_layers, conv="gcn", base=None), CLASSES)


MODELS = {"GCN": make_gcn, "GCN-GUMP": make_gump}


def train(name: str, batch: Batch, num_layers: int, seed: int, num_steps: int, eval_every: int = 10) -> float:
    """Trains until three evaluations in a row are perfect or the budget is spent; returns the accuracy of the last one."""
    inputs = {"x": batch.x, "edge_index": batch.edge_index}
    if name == "GCN-GUMP":
        inputs["line_graph"] = gump.EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
    torch.manual_seed(seed)
    model = MODELS[name](num_layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    accuracy, num_perfect = 0.0, 0
    for step in range(1, num_steps + 1):
        model.train()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(**inputs)[batch.source_index], batch.y).backward()
        optimizer.step()
        if step % eval_every == 0 or step == num_steps:
            model.eval()
            with torch.no_grad():
                accuracy = float((model(**inputs)[batch.source_index].argmax(-1) == batch.y).float().mean())
            num_perfect = num_perfect + 1 if accuracy == 1 else 0
            if num_perfect == 3:
                break
    return accuracy


def draw(hops: list[int], accuracies: dict[str, list[float]], path: Path) -> None:
    """Draws accuracy against distance."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.add_subplot(xlabel="hops from source to target", ylabel="accuracy", ylim=(0, 1.05), title="Ring", xticks=hops)
    for (name, accuracy), style in zip(accuracies.items(), ("o--", "o-"), strict=True):
        axes.plot(hops, accuracy, style, label=name)
    axes.axhline(1 / CLASSES, color="gray", linewidth=0.8, linestyle=":", label="chance")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> None:
    """Trains, prints a table, writes a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 8, 12, 16, 20, 24, 28], help="numbers of vertices, even")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds to average over (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="the most training steps for either model (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out/ring_transfer.png"), help="the picture (default: %(default)s)")
    options = parser.parse_args(arguments)
    if min(options.seeds, options.steps) < 1:
        parser.error("--seeds and --steps must be at least 1")
    if any(size < 4 or size % 2 for size in options.sizes):
        parser.error("--sizes must be even and at least 4")

    torch.set_num_threads(1)  # the graphs are tiny: threads would only wait for each other
    console = Console()
    hops: list[int] = []
    accuracies: dict[str, list[float]] = {name: [] for name in MODELS}
    table = Table("vertices", "hops", *MODELS, title="Ring: mean accuracy")
    with Progress(console=console) as progress:
        task = progress.add_task("training", total=len(options.sizes) * len(MODELS) * options.seeds)
        for size in options.sizes:
            graphs = transfer_task("Ring", size, CLASSES)
            batch, distance = Batch.from_data_list(graphs), graphs[0].distance
            hops.append(distance)
            for name in MODELS:
                runs = []
                for seed in range(options.seeds):
                    progress.update(task, description=f"{name}, {size} vertices")
                    runs.append(train(name, batch, distance + 1, seed, options.steps))
                    progress.advance(task)
                accuracies[name].append(mean(runs))
            table.add_row(str(size), str(distance), *(f"{accuracies[name][-1]:.0%}" for name in MODELS))
    console.print(table, f"(over {options.seeds} seeds, at most {options.steps} steps of training)")
    draw(hops, accuracies, options.out)
    console.print(f"Picture: {options.out}")


if __name__ == "__main__":
    main()
