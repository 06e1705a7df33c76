"""PyG's encodings by random walks and by the Laplacian, from a configuration to a trained model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from simple_graphs import to_matrix

from gump.experiment.config import load_config
from gump.experiment.preprocess import prepare
from gump.experiment.run import Runner

CONFIG = """
[dataset]
kind = "fake"
num_graphs = 12
num_nodes = 7

[[transform]]
kind = "AddRandomWalkPE"
walk_length = 3
attr_name = "none"

[[transform]]
kind = "AddLaplacianEigenvectorPE"
k = 2
is_undirected = true
attr_name = "none"

[protocol]
kind = "official"
num_runs = 1

[model]
kind = "MPNN"
hidden_channels = 4
num_layers = 2

[train]
epochs = 1
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path / "cache"))
    path = Path(tmp_path, "encodings.toml")
    path.write_text(CONFIG)
    return load_config(path)[0]


def test_encodings_are_appended_to_the_features(config):
    plain = prepare(config.settings | {"transform": []}, line_graph=False)
    for before, after in zip(plain, prepare(config.settings, line_graph=False), strict=True):
        assert torch.equal(after.edge_index, before.edge_index)
        assert torch.equal(after.x[:, : before.num_features], before.x)
        adjacency, encodings = to_matrix(before), after.x[:, before.num_features :].double().numpy()
        degree = adjacency.sum(1)
        walk = adjacency / np.maximum(degree, 1)[:, None]
        returns = [np.linalg.matrix_power(walk, length).diagonal() for length in (1, 2, 3)]
        assert encodings[:, :3] == pytest.approx(np.stack(returns, axis=1), abs=1e-6)
        laplacian = np.eye(len(degree)) - adjacency / np.sqrt(np.outer(degree, degree).clip(1))
        laplacian[degree == 0] = 0
        values = np.linalg.eigvalsh(laplacian)[1:3]
        assert laplacian @ encodings[:, 3:] == pytest.approx(encodings[:, 3:] * values, abs=1e-5)
        assert np.linalg.norm(encodings[:, 3:], axis=0) == pytest.approx(1, abs=1e-5)


def test_a_model_trains_on_them(config, tmp_path):
    (record,) = Runner(tmp_path / "records").run(config)
    assert record.status == "finished"
    assert [table["kind"] for table in record.settings["transform"]] == ["AddRandomWalkPE", "AddLaplacianEigenvectorPE"]
