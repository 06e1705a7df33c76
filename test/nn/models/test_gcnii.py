import math

import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.nn import GCN2Conv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj, to_undirected

from gump.nn.models.gcnii import GCNII

GRAPHS = SYMMETRIC | {"random": random_graph(0)}


def setting(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    edge_index = to_undirected(edges, num_nodes=num_nodes)
    index, weight = gcn_norm(edge_index, None, num_nodes, dtype=torch.double)
    return torch.randn(num_nodes, 3).double(), edge_index, to_dense_adj(index, edge_attr=weight, max_num_nodes=num_nodes)[0]


@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_its_formula(name: str) -> None:
    x, edge_index, adjacency = setting(name)
    model = GCNII(3, 8, 5, out_channels=2, alpha=0.2, theta=0.7).double()
    h = first = torch.relu(model.encoder(x))
    for k, conv in enumerate(model.convs, 1):
        beta = math.log(0.7 / k + 1)
        h = torch.relu((0.8 * adjacency @ h + 0.2 * first) @ ((1 - beta) * torch.eye(8).double() + beta * conv.weight1))
    assert (model(x, edge_index) - model.lin(h)).abs().max() < 1e-12


def test_normalizing_once_equals_layers_that_each_normalize() -> None:
    x, edge_index, _ = setting("random")
    weight = torch.rand(edge_index.size(1)).double()
    model = GCNII(3, 8, 3, shared_weights=False).double()
    h = first = torch.relu(model.encoder(x))
    for k, conv in enumerate(model.convs, 1):
        pyg = GCN2Conv(8, 0.1, 0.5, layer=k, shared_weights=False).double()
        pyg.load_state_dict(conv.state_dict())
        h = torch.relu(pyg(h, first, edge_index, weight))
    assert (model(x, edge_index, edge_weight=weight) - h).abs().max() < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
def test_without_weights_many_layers_are_personalized_pagerank(name: str) -> None:
    x, edge_index, adjacency = setting(name)
    model = GCNII(3, 8, 300, alpha=0.1, theta=0).double()
    first = torch.relu(model.encoder(x))
    expected = 0.1 * torch.linalg.solve(torch.eye(len(x)).double() - 0.9 * adjacency, first)
    assert (model(x, edge_index) - expected).abs().max() < 1e-10


def test_the_first_features_are_not_forgotten_while_a_gcn_smooths_them_away() -> None:
    x, edge_index, adjacency = setting("ring")  # where smooth means equal, since all vertices have one degree
    model = GCNII(3, 32, 64).double()
    out, smooth = model(x, edge_index), torch.linalg.matrix_power(adjacency, 64) @ torch.relu(model.encoder(x))

    def share_of_differences(h: torch.Tensor) -> torch.Tensor:
        return (h - h.mean(0)).norm() / h.norm()

    assert share_of_differences(out) > 0.05
    assert share_of_differences(smooth) < 1e-6


def test_dropout_drops_in_training_only() -> None:
    x, edge_index, _ = setting("grid")
    model = GCNII(3, 8, 2, dropout=0.5).double()
    assert not torch.equal(model(x, edge_index), model(x, edge_index))
    model.eval()
    assert torch.equal(model(x, edge_index), model(x, edge_index))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"alpha": 1.5}, r"'alpha' must be a share between 0 and 1 \(got 1.5\)"),
        ({"theta": -1.0}, r"'theta' must not be negative \(got -1.0\)"),
        ({"norm": "pair"}, "'norm' must be one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GCNII(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_base_parameters_are_those_of_the_convolutions_and_nothing_else() -> None:
    model = GCNII(3, 8, 4, out_channels=2)
    base = {id(p) for p in model.base_parameters()}
    assert {name.split(".")[0] for name, p in model.named_parameters() if id(p) in base} == {"convs"}
    assert {name.split(".")[0] for name, p in model.named_parameters() if id(p) not in base} == {"encoder", "lin"}


def test_repr() -> None:
    assert repr(GCNII(3, 8, 2)) == "GCNII(3, 8, num_layers=2, out_channels=8, alpha=0.1, theta=0.5)"
