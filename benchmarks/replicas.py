"""What a step of many replicas costs, eagerly and recorded, and where the time goes.

    GUMP_DATA=/path/to/datasets python benchmarks/replicas.py configs/tu/nci1_gin_gump.toml --replicas 100 --trace

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.data import Batch
from torch_geometric.nn import GIN, global_mean_pool

from gump.experiment.config import Config, load_config
from gump.experiment.model import build_model
from gump.experiment.padded import PaddedStore
from gump.experiment.preprocess import prepare
from gump.experiment.protocol import run_seed
from gump.experiment.replica_trainer import EVALUATED_AT_ONCE, ReplicaTrainer
from gump.experiment.task import TASKS


def make_trainer(config: Config, num_replicas: int, device: torch.device, record_steps: bool) -> ReplicaTrainer:
    """The trainer of the first runs of a configuration."""
    dataset = prepare(config.settings, line_graph=False)
    models = []
    for index in range(num_replicas):
        torch.manual_seed(run_seed(0, index))
        models.append(build_model(config.settings, dataset).to(device))
    splits = [config.protocol.split(dataset, index) for index in range(num_replicas)]
    store = PaddedStore(dataset.graphs, device)
    return ReplicaTrainer(
        models, store, splits, TASKS[dataset.task], config.training, 0, range(num_replicas), record_steps=record_steps
    )


def milliseconds(trainer: ReplicaTrainer, kind: str, chunks: list[torch.Tensor], num_steps: int) -> float:
    """The mean time of a step after the first few."""
    for chunk in chunks:
        trainer.steps(kind, chunk)
    _wait(trainer)
    start = time.perf_counter()
    for k in range(num_steps):
        trainer.steps(kind, chunks[k % len(chunks)])
    _wait(trainer)
    return 1e3 * (time.perf_counter() - start) / num_steps


def _wait(trainer: ReplicaTrainer) -> None:
    if trainer.store.device.type == "cuda":
        torch.cuda.synchronize()


def gin_milliseconds(config: Config, device: torch.device, num_steps: int) -> dict[str, float]:
    """A step of PyG's GIN of the same depth, width and batch, its batches ready on the device: as one writes it, and recorded."""
    dataset = prepare(config.settings, line_graph=False)
    settings, size = config.settings["model"], config.training.batch_size
    batch = Batch.from_data_list(dataset.graphs[:size]).to(device)
    depth, width = settings["num_layers"], settings["hidden_channels"]
    gin = GIN(batch.x.size(-1), width, depth, norm="batch").to(device)
    head = torch.nn.Linear(width, dataset.num_targets).to(device)
    optimizer = torch.optim.Adam([*gin.parameters(), *head.parameters()], capturable=True)

    def step() -> None:
        optimizer.zero_grad()
        out = head(global_mean_pool(gin(batch.x, batch.edge_index), batch.batch, size))
        torch.nn.functional.cross_entropy(out, batch.y).backward()
        optimizer.step()

    def timed(run: Callable[[], None]) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(num_steps):
            run()
        torch.cuda.synchronize()
        return round(1e3 * (time.perf_counter() - start) / num_steps, 3)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    eager = timed(step)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad()
    with torch.cuda.graph(graph):
        step()
    return {"pyg_gin_eager_ms": eager, "pyg_gin_recorded_ms": timed(graph.replay)}


def main() -> None:
    """Times steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="a configuration, such as configs/tu/nci1_gin_gump.toml")
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--trace", action="store_true", help="print the kernels that take longest")
    arguments = parser.parse_args()
    device, config = torch.device(arguments.device), load_config(arguments.config)[0]
    trainer = make_trainer(config, arguments.replicas, device, record_steps=False)
    chunks = trainer._chunks(0)[:40]
    chunks = [chunk for chunk in chunks if chunk.size(1) == chunks[0].size(1)]
    trainer.steps.make_room("train", chunks)
    layouts = trainer.steps.layouts["train", chunks[0].size(1)]
    used = [next(layout for layout in layouts if layout.holds(trainer.store.layout(chunk))) for chunk in chunks]
    arcs = round(sum(layout.num_arcs for layout in used) / len(used))
    degrees = torch.tensor(layouts[0].degrees)
    real = float((trainer.store.counts[torch.stack(chunks)].sum(-2) * degrees).sum(-1).double().mean())
    results: dict[str, Any] = {
        "config": config.name,
        "replicas": arguments.replicas,
        "arcs_padded": arcs,
        "arcs_mean": round(real, 1),
        "eager_ms": round(milliseconds(trainer, "train", chunks, arguments.steps), 3),
    }
    if device.type == "cuda":
        if arguments.trace:
            activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(activities=activities) as profiler:
                trainer.steps("train", chunks[0])
                _wait(trainer)
            kernels = [event for event in profiler.key_averages() if event.device_type == torch.autograd.DeviceType.CUDA]
            kernels.sort(key=lambda event: -event.self_device_time_total)
            results["num_kernels"] = sum(event.count for event in kernels)
            results["device_ms"] = round(sum(event.self_device_time_total for event in kernels) / 1e3, 2)
            for event in kernels[:35]:
                print(f"{event.self_device_time_total / 1e3:8.3f} ms {event.count:5d} x  {event.key[:110]}")
        trainer.steps.record = True
        results["recorded_ms"] = round(milliseconds(trainer, "train", chunks, arguments.steps), 3)
        part = trainer.parts["val"][:, :EVALUATED_AT_ONCE]
        trainer.replicas.model.eval()
        trainer.steps.make_room("eval", [part])
        results["evaluation_ms"] = round(milliseconds(trainer, "eval", [part], arguments.steps), 3)
        results["memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    if arguments.replicas == 1 and device.type == "cuda":
        results |= gin_milliseconds(config, device, arguments.steps)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
