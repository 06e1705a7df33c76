import math
from typing import Any

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, Graph, grid, path, random_graph
from torch_geometric.data import Batch, Data

from gump.nn.hop_network import Hops
from gump.nn.models.kgcn_ssm import KGCNSSM

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"exact": True},
    {"delay": 1, "self_loops": True},
    {"max_distance": 1, "self_loops": True},
    {"exact": True, "max_distance": 2, "eigenvalues": (-1.0, 0.5), "input_scale": 0.7},
    {"share_weights": True, "delay": 2},
]


def distances(edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    graph = nx.empty_graph(num_nodes)
    graph.add_edges_from(edge_index.t().tolist())
    out = torch.full((num_nodes, num_nodes), 10**6)
    for v, others in nx.all_pairs_shortest_path_length(graph):
        for w, distance in others.items():
            out[v, w] = distance
    return out


def data(graph: Graph) -> Data:
    edge_index, num_nodes = graph
    distance = distances(edge_index, num_nodes)
    index = ((distance >= 1) & (distance < 10**6)).nonzero().t()
    x = torch.randn(num_nodes, 3).double()
    return Data(x=x, edge_index=edge_index, hop_index=index, hop_distance=distance[index[0], index[1]])


def call(model: torch.nn.Module, graph: Data, **kwargs: Any) -> torch.Tensor:
    return model(graph.x, graph.edge_index, hop_index=graph.hop_index, hop_distance=graph.hop_distance, **kwargs)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ["grid", "barbell", "random 1"])
def test_it_is_the_formula(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, graph, distance = KGCNSSM(3, 6, 4, **settings).double(), data(GRAPHS[name]), distances(*GRAPHS[name])
    num_nodes = distance.size(0)
    low, high = settings.get("eigenvalues", (0.99, 1.0))
    transition = torch.diag(torch.tensor([low + (high - low) * i / 5 for i in range(6)])).double()
    h = [model.encoder(graph.x)]
    for k in range(4):
        torch.nn.init.normal_(model.convs[k].bias)
        last = min(k + 1, settings.get("max_distance", 4))
        total = model.convs[k].bias.expand(num_nodes, 6)
        for place, j in enumerate([last] if settings.get("exact") else range(1, last + 1)):
            adjacency = (distance == j).double() + (torch.eye(num_nodes) if settings.get("self_loops") else 0)
            degree = adjacency.sum(1).clamp(min=1)
            old = h[k - max(j - settings["delay"], 0)] if "delay" in settings else h[k]
            weight = model.convs[k].weight[0 if settings.get("share_weights") else place]
            total = total + adjacency / torch.outer(degree, degree).sqrt() @ old @ weight
        h.append(h[k] @ transition + settings.get("input_scale", 1 / 4) * torch.relu(total))
    assert (call(model, graph) - h[-1]).abs().max() < 1e-7  # the eigenvalues were rounded to single precision


def layer_jacobians(model: KGCNSSM, graph: Data) -> list[torch.Tensor]:
    """The derivative of every layer's state by the state before it, as a matrix over all entries."""
    states, out = [model.encoder(graph.x)], []
    hops = Hops.of(graph.x, graph.hop_index, graph.hop_distance, model.max_distance, model.self_loops)
    for _ in range(model.num_layers):
        jacobian = torch.autograd.functional.jacobian(lambda h, past=states[:-1]: model.layer([*past, h], hops), states[-1])
        out.append(jacobian.reshape(states[-1].numel(), -1))
        states.append(model.layer(states, hops))
    return out


def test_where_nothing_is_written_the_jacobian_has_the_eigenvalues_of_the_fixed_map() -> None:
    torch.manual_seed(0)
    model, graph = KGCNSSM(3, 5, 3, eigenvalues=(0.5, 1.0), input_scale=0.0).double(), data(grid(2, 3))
    expected = model.eigenvalues.repeat_interleave(6)
    for jacobian in layer_jacobians(model, graph):
        assert (torch.linalg.eigvals(jacobian).real.sort().values - expected).abs().max() < 1e-12
    graph = data((torch.empty(2, 0, dtype=torch.long), 4))
    model = KGCNSSM(3, 5, 3, eigenvalues=(0.5, 1.0)).double()
    assert torch.allclose(call(model, graph), model.encoder(graph.x) * model.eigenvalues**3)


@pytest.mark.parametrize("settings", [{}, {"exact": True}, {"max_distance": 1}])
def test_at_the_start_gradients_neither_vanish_nor_explode_with_depth(settings: dict[str, Any]) -> None:
    """Against the same convolutions alone, whose gradients are gone after a few layers."""
    torch.manual_seed(0)
    graph, sizes = data(grid(3, 4)), []
    for ssm in ({}, {"eigenvalues": (0.0, 0.0), "input_scale": 1.0, "max_distance": 1}):
        model = KGCNSSM(3, 8, 20, **settings | ssm).double()
        product = torch.eye(12 * 8).double()
        jacobians = layer_jacobians(model, graph)
        if not ssm:
            assert all(0.5 < torch.linalg.matrix_norm(j, 2) < 1.6 for j in jacobians)
            assert all(torch.linalg.svdvals(j).median() > 0.9 for j in jacobians)
        for jacobian in jacobians:
            product = jacobian @ product
        sizes.append(float(product.norm()) / math.sqrt(12 * 8))
    assert 0.5 < sizes[0] < 2
    assert sizes[1] < 1e-2


def test_the_fixed_map_is_not_trained_and_is_saved() -> None:
    model = KGCNSSM(3, 4, 2, eigenvalues=(0.9, 1.0))
    assert not model.eigenvalues.requires_grad
    assert "eigenvalues" in model.state_dict()
    assert all("eigenvalues" not in name for name, _ in model.named_parameters())
    model.reset_parameters()
    assert torch.allclose(model.eigenvalues, torch.tensor([0.9, 0.9 + 0.1 / 3, 0.9 + 0.2 / 3, 1.0]))


@pytest.mark.parametrize("exact", [False, True])
def test_layer_by_layer_the_sight_grows(exact: bool) -> None:
    torch.manual_seed(0)
    graph = data(path(9))
    model = KGCNSSM(3, 4, 3, exact=exact, act="tanh").double()
    assert [conv.weight.size(0) for conv in model.convs] == ([1, 1, 1] if exact else [1, 2, 3])
    far = distances(*path(9))
    for k, jacobian in enumerate(layer_jacobians(model, graph)):
        sees = (jacobian.view(9, 4, 9, 4) != 0).any(dim=3).any(dim=1)
        assert torch.equal(sees, (far == 0) | (far == k + 1) if exact else far <= k + 1)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", GRAPHS)
def test_relabeling_permutes_the_output(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = KGCNSSM(3, 6, 4, **settings).double()
    for x in (torch.ones(GRAPHS[name][1], 3).double(), torch.randn(GRAPHS[name][1], 3).double()):
        graph, label = data(GRAPHS[name]), torch.randperm(x.size(0))
        out = model(x, None, hop_index=graph.hop_index, hop_distance=graph.hop_distance)
        again = model(x[label.argsort()], None, hop_index=label[graph.hop_index], hop_distance=graph.hop_distance)
        assert (again[label] - out).abs().max() < 1e-10


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_graph_does_not_depend_on_its_company(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    members = [data(graph) for graph in (path(7), *GRAPHS.values(), (torch.empty(2, 0, dtype=torch.long), 2))]
    model = KGCNSSM(3, 6, 4, out_channels=2, **settings).double()
    together = call(model, Batch.from_data_list(members))
    assert (together - torch.cat([call(model, member) for member in members])).abs().max() < 1e-12


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"'hop_index' and 'hop_distance' must be given .*AddHops\(max_distance=5\)"):
        KGCNSSM(2, 4, 5)(torch.randn(3, 2), path(3)[0])
    for eigenvalues in ((0.9, 1.1), (1.0, 0.9), (-2.0, 0.0)):
        with pytest.raises(ValueError, match="'eigenvalues' must be the smallest and the largest, between -1 and 1"):
            KGCNSSM(2, 4, 5, eigenvalues=eigenvalues)
    for argument in ("delay", "max_distance", "num_layers"):
        with pytest.raises(ValueError, match=rf"'{argument}' must be at least 1 \(got 0\)"):
            KGCNSSM(2, 4, **{"num_layers": 2, argument: 0})


def test_repr() -> None:
    assert repr(KGCNSSM(3, 4, 5)) == (
        "KGCNSSM(3, 4, num_layers=5, out_channels=4, eigenvalues=(0.99, 1.0), input_scale=0.2, delay=None, max_distance=5, "
        "exact=False, share_weights=False, self_loops=False)"
    )
