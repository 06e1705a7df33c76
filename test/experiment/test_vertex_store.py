from pathlib import Path
from typing import Any

import pytest
import torch

from gump.experiment.config import make_configs
from gump.experiment.feed import NodeFeed
from gump.experiment.model import build_model
from gump.experiment.padded import PaddedStore
from gump.experiment.preprocess import prepare
from gump.experiment.protocol import run_seed
from gump.experiment.replica_trainer import ReplicaTrainer
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer
from gump.experiment.vertex_store import VertexStore

MODELS: dict[str, dict[str, Any]] = {
    "GCN-GUMP with hubs": {"kind": "GUMP", "max_block": 4, "residual": True},
    "GCNII-GUMP": {"kind": "GUMP", "conv": "gcnii", "norm": "none"},
    "GIN-GUMP with edge attributes": {"kind": "GUMP", "conv": "gin", "edge_dim": 2},
    "GCN": {"kind": "MPNN"},
    "GCNII": {"kind": "GCNII"},
    "A-DGN": {"kind": "ADGN"},
    "Ortho-GConv": {"kind": "OrthoGCN", "norm": "batch"},
    "unitary GCN": {"kind": "UnitaryGCN", "norm": "batch"},
}


def setting(name: str, num_runs: int) -> tuple[Any, Any, list[torch.nn.Module]]:
    tables = {
        "dataset": {"kind": "fake", "level": "node", "num_graphs": 12, "edge_features": True},
        "protocol": {"kind": "fresh"},
        "model": {"hidden_channels": 6, "num_layers": 3, **MODELS[name]},
        "train": {"epochs": 10, "lr": 0.01, "batch_size": 4, "repeats": 2},
    }
    config = make_configs("test", tables)[0]
    dataset = prepare(config.settings, line_graph="GUMP" in name)
    dataset.graphs[0].x, dataset.graphs[0].edge_attr = dataset.graphs[0].x.double(), dataset.graphs[0].edge_attr.double()
    models = []
    for index in range(num_runs):
        torch.manual_seed(run_seed(0, index))
        models.append(build_model(config.settings, dataset).double())
    return config, dataset, models


@pytest.mark.parametrize("name", MODELS)
def test_runs_about_vertices_side_by_side_are_what_each_would_be_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path))
    config, dataset, models = setting(name, 3)
    task, splits = TASKS[dataset.task], [config.protocol.split(dataset, index) for index in range(3)]
    fresh = setting(name, 3)[2]
    many = ReplicaTrainer(models, VertexStore(dataset[0]), splits, task, config.training, 0, range(3)).fit()
    assert len({tuple(progress.history["train_loss"]) for progress in many}) == 3
    for r in range(3):
        alone = Trainer(
            fresh[r], NodeFeed(dataset[0], splits[r], torch.device("cpu"), repeats=2), task, config.training, 0, r
        ).fit()
        assert many[r].predictions == alone.predictions
        for key, values in alone.history.items():
            assert many[r].history[key] == pytest.approx(values, abs=1e-6), key


def test_a_batch_asks_each_replica_about_its_own_vertices_of_the_one_graph() -> None:
    _, dataset, _ = setting("GCN", 0)
    store, index = VertexStore(dataset[0]), torch.tensor([[3, 1], [0, 5]])
    batch = store.batch(index, store.layout(index))
    assert torch.equal(batch.y, dataset[0].y[index])
    assert torch.equal(store.targets(index), batch.y)
    assert batch.answers is index
    assert all(torch.equal(x, dataset[0].x) for x in batch.x)
    assert batch.x.stride(0) == 0, "no replica has a copy"
    assert bool(batch.mask.all())
    assert store.chunks(index, 1) == [index]


@pytest.mark.parametrize("name", ["directed", "listed twice"])
def test_edges_that_are_not_listed_once_in_either_direction_are_refused(name: str) -> None:
    _, dataset, _ = setting("GCN", 0)
    graph, edges = dataset[0].clone(), dataset[0].edge_index
    graph.edge_index = edges[:, 1:] if name == "directed" else torch.cat([edges, edges[:, :1]], dim=1)
    for store in (VertexStore, lambda graph: PaddedStore([graph])):
        with pytest.raises(ValueError, match=f"'--replicas' must be left out unless .* .got {graph.edge_index.size(1)} columns"):
            store(graph)
