from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, Graph, grid, path, random_graph, ring
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv

from gump.nn import GraphPredictor, NodePredictor
from gump.nn.hop_network import Hops
from gump.nn.models.drew_gcn import DRewGCN
from gump.transforms.hops import AddHops

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)}
SETTINGS: list[dict[str, Any]] = [
    {"delay": 1},
    {"delay": 2, "self_loops": True},
    {"delay": None},
    {"delay": None, "share_weights": True, "l2_norm": True},
    {"delay": 2, "max_distance": 2, "self_loops": True, "share_weights": True},
]


def distances(edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    graph = nx.empty_graph(num_nodes)
    graph.add_edges_from(edge_index.t().tolist())
    out = torch.full((num_nodes, num_nodes), 10**6)
    for v, others in nx.all_pairs_shortest_path_length(graph):
        for w, distance in others.items():
            out[v, w] = distance
    return out


def hops(edge_index: torch.Tensor, num_nodes: int, max_distance: int = 10) -> dict[str, torch.Tensor]:
    distance = distances(edge_index, num_nodes)
    index = ((distance >= 1) & (distance <= max_distance)).nonzero().t()
    return {"hop_index": index, "hop_distance": distance[index[0], index[1]]}


def data(graph: Graph, num_features: int = 3) -> Data:
    edge_index, num_nodes = graph
    return Data(x=torch.randn(num_nodes, num_features).double(), edge_index=edge_index, **hops(edge_index, num_nodes))


def call(model: torch.nn.Module, graph: Data, **kwargs: Any) -> torch.Tensor:
    return model(graph.x, graph.edge_index, hop_index=graph.hop_index, hop_distance=graph.hop_distance, **kwargs)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ["grid", "barbell", "random 1"])
def test_it_is_the_formula(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = GRAPHS[name]
    model, graph, distance = DRewGCN(3, 6, 4, **settings).double(), data(GRAPHS[name]), distances(edge_index, num_nodes)
    for conv in model.convs:
        torch.nn.init.normal_(conv.bias)
    x = [model.encoder(graph.x)]
    for t in range(4):
        total = model.convs[t].bias.expand(num_nodes, 6)
        for k in range(1, min(t + 1, settings.get("max_distance", 4)) + 1):
            adjacency = (distance == k).double() + (torch.eye(num_nodes) if settings.get("self_loops") else 0)
            degree = adjacency.sum(1).clamp(min=1)
            old = x[t] if settings["delay"] is None else x[t - max(k - settings["delay"], 0)]
            weight = model.convs[t].weight[0 if settings.get("share_weights") else k - 1]
            total = total + adjacency / torch.outer(degree, degree).sqrt() @ old @ weight
        new = x[t] + torch.relu(total)
        x.append(new / new.norm(dim=1, keepdim=True) if settings.get("l2_norm") else new)
    assert (call(model, graph) - x[-1]).abs().max() < 1e-12


def test_one_layer_with_self_loops_adds_what_a_gcn_layer_gives() -> None:
    torch.manual_seed(0)
    model, graph = DRewGCN(3, 6, 1, self_loops=True).double(), data(grid(3, 3))
    conv = GCNConv(6, 6, bias=False).double()
    conv.lin.weight.data = model.convs[0].weight[0].t()
    x = model.encoder(graph.x)
    both = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    assert (call(model, graph) - x - conv(x, both).relu()).abs().max() < 1e-12


def test_weights_of_a_directed_graph_are_those_of_its_matrix_with_self_loops() -> None:
    graph = AddHops(2)(Data(x=torch.ones(4, 1).double(), edge_index=torch.tensor([[0, 1, 0, 0], [1, 2, 2, 3]])))
    hops = Hops.of(graph.x, graph.hop_index, graph.hop_distance, 2, self_loops=True)
    for k in (1, 2):
        at = hops.distance == k
        found = torch.zeros(4, 4).double().index_put((hops.source[at], hops.target[at]), hops.weight[at]) + hops.own[k - 1].diag()
        matrix = torch.eye(4).double().index_put((hops.source[at], hops.target[at]), torch.ones(()).double())
        assert torch.allclose(found, matrix / torch.outer(matrix.sum(1), matrix.sum(0)).sqrt())


def reach(num_layers: int, delay: int | None) -> int:
    """How far a signal can have come: the best mix of long and late, short and early."""
    far = [0]
    for t in range(num_layers):
        far.append(max(k + far[t if delay is None else t - max(k - delay, 0)] for k in range(1, t + 2)))
    return far[-1]


@pytest.mark.parametrize("delay", [1, 2, 3, None])
@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
def test_a_signal_arrives_when_the_delay_says_and_not_before(delay: int | None, num_layers: int) -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = path(13)
    model, graph = DRewGCN(1, 4, num_layers, delay=delay, act="tanh").double(), data(path(13), 1)
    jacobian = torch.autograd.functional.jacobian(lambda x: model(x, None, **hops(edge_index, num_nodes)), graph.x)
    sees = (jacobian != 0).any(dim=1)[:, :, 0]
    assert torch.equal(sees, distances(edge_index, num_nodes) <= reach(num_layers, delay))
    if delay == 1:
        assert reach(num_layers, delay) == num_layers
    if delay is None:
        assert reach(num_layers, delay) == num_layers * (num_layers + 1) // 2


@pytest.mark.parametrize("delay", [1, 2, None])
@pytest.mark.parametrize("t", [0, 1, 3])
def test_a_layer_reads_each_distance_from_one_state_alone(delay: int | None, t: int) -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = ring(12)
    model, pairs = DRewGCN(1, 4, t + 1, delay=delay, act="tanh").double(), hops(edge_index, num_nodes)
    states = tuple(torch.randn(num_nodes, 4).double() for _ in range(t + 1))
    structure = Hops.of(states[0], **pairs, max_distance=t + 1)
    jacobians = torch.autograd.functional.jacobian(lambda *s: model.layer(list(s), structure), states)
    distance = distances(edge_index, num_nodes)
    for s, jacobian in enumerate(jacobians):
        read = [k for k in range(1, t + 2) if t - (0 if delay is None else max(k - delay, 0)) == s]
        expected = torch.isin(distance, torch.tensor([*read, 0] if s == t else read))
        assert torch.equal((jacobian != 0).any(dim=3).any(dim=1), expected)


def test_pairs_farther_apart_than_the_layers_reach_are_ignored() -> None:
    torch.manual_seed(0)
    graph = data(path(9))
    for settings in SETTINGS:
        model = DRewGCN(3, 6, 3, **settings).double()
        near = hops(graph.edge_index, 9, max_distance=model.max_distance)
        assert near["hop_distance"].numel() < graph.hop_distance.numel()
        assert torch.equal(call(model, graph), model(graph.x, None, **near))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", GRAPHS)
def test_relabeling_permutes_the_output(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = DRewGCN(3, 6, 4, **settings).double()
    for x in (torch.ones(GRAPHS[name][1], 3).double(), torch.randn(GRAPHS[name][1], 3).double()):
        graph, label = data(GRAPHS[name]), torch.randperm(x.size(0))
        out = model(x, None, hop_index=graph.hop_index, hop_distance=graph.hop_distance)
        order = torch.randperm(graph.hop_distance.numel())
        pairs = {"hop_index": label[graph.hop_index][:, order], "hop_distance": graph.hop_distance[order]}
        assert (model(x[label.argsort()], None, **pairs)[label] - out).abs().max() < 1e-10


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_graph_does_not_depend_on_its_company(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    members = [data(graph) for graph in (path(7), *GRAPHS.values(), (torch.empty(2, 0, dtype=torch.long), 2))]
    model = DRewGCN(3, 6, 4, out_channels=2, **settings).double()
    for conv in model.convs:
        torch.nn.init.normal_(conv.bias)
    together = call(model, Batch.from_data_list(members))
    assert (together - torch.cat([call(model, member) for member in members])).abs().max() < 1e-12


@pytest.mark.parametrize("norm", ["batch", "layer", None])
@pytest.mark.parametrize("num_nodes", [1, 3])
def test_a_graph_without_edges_is_legal(norm: str | None, num_nodes: int) -> None:
    graph = data((torch.empty(2, 0, dtype=torch.long), num_nodes))
    model = DRewGCN(3, 6, 3, norm=norm).double()
    out = call(model, graph)
    assert out.shape == (num_nodes, 6)
    assert out.isfinite().all()
    if norm is None:
        assert torch.equal(out, model.encoder(graph.x))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("predictor", [GraphPredictor, NodePredictor])
def test_a_step_of_training_changes_every_weight(predictor: Callable[..., torch.nn.Module], settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    batch = Batch.from_data_list([data(path(6)), data(random_graph(0))])
    model = predictor(DRewGCN(3, 8, 3, act="elu", dropout=0.1, **settings), 2).double()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters())
    call(model, batch, batch=batch.batch).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    optimizer.step()
    assert all((p != before[name]).any() for name, p in model.named_parameters())


def test_the_transform_gives_what_the_model_needs_however_few_bits_it_takes() -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = ring(150)
    graph = data((edge_index, num_nodes))
    both = AddHops(max_distance=4)(Data(x=graph.x, edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1)))
    assert both.hop_distance.dtype == torch.int8
    for settings in SETTINGS:
        model = DRewGCN(3, 6, 4, **settings).double()
        assert (call(model, both) - call(model, graph)).abs().max() < 1e-12


def test_there_is_a_weight_for_every_distance_of_every_layer_unless_they_are_shared() -> None:
    assert [conv.weight.size(0) for conv in DRewGCN(3, 4, 4).convs] == [1, 2, 3, 4]
    assert [conv.weight.size(0) for conv in DRewGCN(3, 4, 4, max_distance=2).convs] == [1, 2, 2, 2]
    assert [conv.weight.size(0) for conv in DRewGCN(3, 4, 4, share_weights=True).convs] == [1, 1, 1, 1]


def test_refusals() -> None:
    x, edge_index = torch.randn(3, 2), path(3)[0]
    with pytest.raises(ValueError, match=r"'hop_index' and 'hop_distance' must be given .*AddHops\(max_distance=5\)"):
        DRewGCN(2, 4, 5)(x, edge_index)
    near = AddHops(max_distance=4)(Data(x=x, edge_index=edge_index))
    with pytest.raises(
        ValueError,
        match=r"'max_distance' of gump.transforms.AddHops must be at least 5, .* \(got 4\); apply AddHops\(max_distance=5\)",
    ):
        DRewGCN(2, 4, 5)(**near.to_dict())
    assert DRewGCN(2, 4, 5, max_distance=4)(**near.to_dict()).isfinite().all()
    with pytest.raises(ValueError, match=r"'hop_distance' \[num_pairs\] \(got \[2, 2\] and \[3\]\)"):
        DRewGCN(2, 4, 5)(x, edge_index, hop_index=edge_index, hop_distance=torch.ones(3))
    for argument in ("delay", "max_distance", "num_layers"):
        with pytest.raises(ValueError, match=rf"'{argument}' must be at least 1 \(got 0\)"):
            DRewGCN(2, 4, **{"num_layers": 2, argument: 0})
    with pytest.raises(ValueError, match="'norm' must be one of 'batch', 'layer', None"):
        DRewGCN(2, 4, 2, norm="instance")


def test_repr() -> None:
    assert repr(DRewGCN(3, 4, 5, delay=None)) == (
        "DRewGCN(3, 4, num_layers=5, out_channels=4, delay=None, max_distance=5, share_weights=False, self_loops=False, l2_norm=False)"
    )
