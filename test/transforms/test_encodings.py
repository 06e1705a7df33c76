"""PyG's encodings by random walks and by the Laplacian, from a configuration to a trained model."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from simple_graphs import to_matrix
from torch_geometric.data import Data

from gump.experiment.config import load_config
from gump.experiment.preprocess import Preparation, prepare
from gump.experiment.run import Runner
from gump.transforms.encodings import AddRandomWalkPE

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 1, 3], [1, 0, 2, 1, 3, 2, 3, 1]])


@pytest.mark.parametrize("weighted", [False, True])
def test_walks_return_as_the_powers_of_their_matrix_say(weighted: bool) -> None:
    weight = torch.tensor([2.0, 2.0, 0.5, 0.5, 3.0, 3.0, 10.0, 10.0]) if weighted else torch.ones(8)
    data = Data(x=torch.ones(5, 1), edge_index=EDGES, edge_weight=weight if weighted else None)  # the last vertex has no edge
    adjacency = torch.zeros(5, 5, dtype=torch.double).index_put((EDGES[0], EDGES[1]), weight.double(), accumulate=True)
    walk = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1e-9)
    expected = torch.stack([torch.matrix_power(walk, k).diagonal() for k in range(1, 5)], dim=1)
    torch.testing.assert_close(AddRandomWalkPE(4, attr_name="pe")(data).pe.double(), expected, atol=1e-6, rtol=1e-6)
    appended = AddRandomWalkPE(4, attr_name=None)(data).x
    torch.testing.assert_close(appended.double(), torch.cat([torch.ones(5, 1).double(), expected], dim=1), atol=1e-6, rtol=1e-6)


def test_walks_by_negative_weights_are_refused() -> None:
    data = Data(x=torch.ones(4, 1), edge_index=EDGES, edge_weight=-torch.ones(8))
    with pytest.raises(ValueError, match=r"'edge_weight' must not be negative \(got -1\)"):
        AddRandomWalkPE(2)(data)


@pytest.mark.parametrize("num_nodes", [90, 150])
def test_eigenvectors_depend_on_the_number_of_a_graph_alone(num_nodes: int) -> None:
    edges = torch.tensor(list(nx.cycle_graph(num_nodes).edges)).t()  # whose eigenvalues are pairs of equal ones
    data = Data(x=torch.ones(num_nodes, 1), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    table = {"kind": "AddLaplacianEigenvectorPE", "k": 4, "is_undirected": True, "when": "once"}
    preparation = Preparation({"transform": [table]}, False, False)
    first, again, other = (preparation(data.clone(), number).laplacian_eigenvector_pe for number in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (first.t() @ first - torch.eye(4)).abs().max() < 1e-4


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
