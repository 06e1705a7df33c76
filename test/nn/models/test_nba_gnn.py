import itertools
from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, Graph, grid, path, random_graph, ring, star
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv, GINEConv

from gump import EulerianLineGraph
from gump.nn import GraphPredictor, NodePredictor
from gump.nn.models.nba_gnn import NBAGNN, non_backtracking_sum
from gump.transforms import AddLineGraph

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)}
NO_EDGES = torch.empty(2, 0, dtype=torch.long)
SETTINGS: list[dict[str, Any]] = [
    {"conv": "gcn"},
    {"conv": "gcn", "self_loops": False, "residual": False, "edge_dim": 2},
    {"conv": "gin"},
    {"conv": "gin", "edge_dim": 2, "residual": False},
]


def transitions(line_graph: EulerianLineGraph) -> torch.Tensor:
    """Which arc leads to which, found arc by arc."""
    arcs = line_graph.arcs.t().tolist()
    leaving = {v: [w for u, w in arcs if u == v] for v, _ in arcs}
    pairs = [
        (b, a)
        for (a, (v, w)), (b, (u, z)) in itertools.product(enumerate(arcs), enumerate(arcs))
        if z == v and (u != w or leaving[v] == [w])
    ]
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()


def tree() -> Graph:
    """A root with two children that have two children each: 0 - 1, 2; 1 - 3, 4; 2 - 5, 6."""
    return torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 3, 4, 5, 6]]), 7


def data(graph: Graph, edge_dim: int = 0) -> Data:
    edge_index, num_nodes = graph
    attr = {"edge_attr": torch.randn(edge_index.size(1), edge_dim).double()} if edge_dim > 0 else {}
    return Data(x=torch.randn(num_nodes, 3).double(), edge_index=edge_index, **attr)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_sum_at_vertices_is_the_sum_over_transitions(name: str) -> None:
    torch.manual_seed(0)
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    h = torch.randn(line_graph.num_arcs, 2).double()
    source, target = transitions(line_graph)
    expected = torch.zeros_like(h).index_add(0, target, h[source])
    assert (non_backtracking_sum(h, line_graph) - expected).abs().max() < 1e-13


@pytest.mark.parametrize("name", GRAPHS)
def test_the_transitions_are_those_of_the_line_graph_that_do_not_turn_back(name: str) -> None:
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    row, column = line_graph.transitions()
    kept = (column != line_graph.reverse[row]) | (line_graph.arc_degree[column] == 1)
    assert set(map(tuple, transitions(line_graph).t().tolist())) == set(
        zip(*line_graph.transitions()[:, kept].tolist(), strict=True)
    )


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_layer_is_the_one_of_pyg_on_the_graph_of_transitions(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    model, edges = NBAGNN(3, 6, 1, **settings).double(), transitions(line_graph)
    h, attr = torch.randn(line_graph.num_arcs, 6).double(), torch.randn(line_graph.num_arcs, 2).double()
    inside = model.lins[0]
    if model.conv == "gcn":
        conv = GCNConv(6, 6, add_self_loops=model.self_loops).double()
        conv.lin.weight.data, conv.bias.data = inside.weight.data, inside.bias.data
        expected = conv(h, edges)
    elif model.edge_dim == 0:
        expected = GINConv(inside)(h, edges)
    else:
        conv = GINEConv(torch.nn.Sequential(torch.nn.Linear(6, 6)), edge_dim=2).double()
        conv.lin, conv.nn = model.edge_lins[0], inside
        expected = conv(h, edges, attr[edges[0]])
    expected = expected.relu() + (h if model.residual else 0)
    assert (model.layer(0, h, line_graph, attr) - expected).abs().max() < 1e-12


def arc_jacobian(model: NBAGNN, line_graph: EulerianLineGraph, num_layers: int) -> torch.Tensor:
    """Which arc's state after the layers depends on which arc's state before them. What cancels does so up to rounding."""

    def run(h: torch.Tensor) -> torch.Tensor:
        for _ in range(num_layers):
            h = model.layer(0, h, line_graph)
        return h

    h = torch.randn(line_graph.num_arcs, 4).double()
    return torch.autograd.functional.jacobian(run, h).abs().amax(dim=(1, 3)) > 1e-12


@pytest.mark.parametrize("graph", [path(5), tree(), ring(6), star(3), grid(2, 3)])
@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
def test_a_state_hears_the_starts_of_walks_that_do_not_turn_back_and_no_others(graph: Graph, num_layers: int) -> None:
    torch.manual_seed(0)
    line_graph = EulerianLineGraph.from_edge_index(*graph)
    model = NBAGNN(3, 4, 1, self_loops=False, residual=False, act="tanh").double()
    arcs, neighbors = list(map(tuple, line_graph.arcs.t().tolist())), nx.Graph(graph[0].t().tolist())
    expected = torch.zeros(len(arcs), len(arcs), dtype=torch.bool)
    for start, end in itertools.product(range(len(arcs)), repeat=2):
        walks = {arcs[start]}
        for _ in range(num_layers):
            walks = {(v, w) for u, v in walks for w in neighbors[v] if w != u or len(neighbors[v]) == 1}
        expected[end, start] = arcs[end] in walks
    assert torch.equal(arc_jacobian(model, line_graph, num_layers), expected)


def test_on_a_path_a_signal_turns_at_the_end_and_nowhere_else() -> None:
    line_graph = EulerianLineGraph.from_edge_index(*path(4))
    arcs = list(map(tuple, line_graph.arcs.t().tolist()))
    signal = torch.zeros(6, 1)
    signal[arcs.index((1, 2))] = 1
    places = []
    for _ in range(7):
        places += [arcs[i] for i in signal.flatten().nonzero().flatten().tolist()]
        signal = non_backtracking_sum(signal, line_graph)
    assert places == [(1, 2), (2, 3), (3, 2), (2, 1), (1, 0), (0, 1), (1, 2)]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_model_is_the_formula(name: str, settings: dict[str, Any]) -> None:
    """Arc by arc, with a dictionary of states."""
    torch.manual_seed(0)
    model, graph = NBAGNN(3, 4, 2, **settings).double(), data(GRAPHS[name], settings.get("edge_dim", 0))
    line_graph = EulerianLineGraph.from_edge_index(graph.edge_index, graph.num_nodes)
    arcs, x = list(map(tuple, line_graph.arcs.t().tolist())), model.encoder(graph.x)
    attr = torch.zeros(len(arcs), 0).double() if graph.edge_attr is None else line_graph.arc_attr(graph.edge_attr)
    h = {a: model.start(torch.cat([x[a[0]], x[a[1]], e])).relu() for a, e in zip(arcs, attr, strict=True)}
    heard = {a: [b for b in arcs if b[1] == a[0] and b[0] != a[1]] or [(a[1], a[0])] for a in arcs}
    for k in range(2):
        new = {}
        for a in arcs:
            if model.conv == "gcn":
                own = int(model.self_loops)
                terms = [(b, ((len(heard[a]) + own) * (len(heard[b]) + own)) ** -0.5) for b in heard[a] + [a] * own]
                new[a] = model.lins[k](sum(weight * h[b] for b, weight in terms)).relu()
            else:
                edge = {b: model.edge_lins[k](attr[arcs.index(b)]) for b in heard[a]} if model.edge_dim else None
                new[a] = model.lins[k](h[a] + sum(h[b] if edge is None else (h[b] + edge[b]).relu() for b in heard[a])).relu()
        h = {a: h[a] + new[a] if model.residual else new[a] for a in arcs}
    rows = []
    for v in range(graph.num_nodes):
        ends = [torch.stack([h[a] for a in arcs if a[i] == v] or [x[v]]).mean(0) for i in (1, 0)]
        rows.append(model.readout(torch.cat(ends)))
    assert (model(graph.x, graph.edge_index, edge_attr=graph.edge_attr) - torch.stack(rows)).abs().max() < 1e-12


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", GRAPHS)
def test_relabeling_permutes_the_output(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, graph = NBAGNN(3, 6, 4, **settings).double(), data(GRAPHS[name], settings.get("edge_dim", 0))
    label = torch.randperm(graph.num_nodes)
    for x in (torch.ones_like(graph.x), graph.x):
        out = model(x, graph.edge_index, edge_attr=graph.edge_attr)
        again = model(x[label.argsort()], label[graph.edge_index], edge_attr=graph.edge_attr)
        assert (again[label] - out).abs().max() < 1e-10 * out.abs().max().clamp(min=1)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_batch_equals_its_members_with_the_line_graph_built_before_or_not(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    members = [AddLineGraph()(data(graph, settings.get("edge_dim", 0))) for graph in (*GRAPHS.values(), (NO_EDGES, 2), star(3))]
    batch, model = Batch.from_data_list(members), NBAGNN(3, 6, 3, out_channels=2, **settings).double()
    alone = torch.cat([model(g.x, g.edge_index, edge_attr=g.edge_attr) for g in members])
    for line_graph in (None, EulerianLineGraph.from_data(batch)):
        together = model(batch.x, batch.edge_index, edge_attr=batch.edge_attr, batch=batch.batch, line_graph=line_graph)
        assert (together - alone).abs().max() < 1e-11 * alone.abs().max().clamp(min=1)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("norm", ["batch", "layer", None])
@pytest.mark.parametrize("graph", [(NO_EDGES, 1), (NO_EDGES, 3), (torch.tensor([[3], [1]]), 6), (torch.tensor([[0], [0]]), 1)])
def test_vertices_without_edges_keep_their_row(graph: Graph, norm: str | None, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, graph_data = NBAGNN(3, 4, 2, norm=norm, **settings).double(), data(graph, settings.get("edge_dim", 0))
    out = model(graph_data.x, graph_data.edge_index, edge_attr=graph_data.edge_attr)
    assert out.shape == (graph[1], 4)
    assert out.isfinite().all()
    for v in set(range(graph[1])) - set(graph[0].flatten().tolist()):
        x = model.encoder(graph_data.x[v])
        assert torch.allclose(out[v], model.readout(torch.cat([x, x])))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("predictor", [GraphPredictor, NodePredictor])
def test_a_step_of_training_changes_every_weight(predictor: Callable[..., torch.nn.Module], settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    batch = Batch.from_data_list([data(graph, settings.get("edge_dim", 0)) for graph in (path(6), random_graph(0))])
    model = predictor(NBAGNN(3, 8, 3, act="elu", dropout=0.1, **settings), 2).double()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters())
    model(batch.x, batch.edge_index, edge_attr=batch.edge_attr, batch=batch.batch).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    optimizer.step()
    assert all((p != before[name]).any() for name, p in model.named_parameters())


def test_attributes_may_be_integers_and_a_single_column() -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = ring(5)
    model, x, attr = NBAGNN(3, 4, 2, conv="gin", edge_dim=1), torch.randn(num_nodes, 3), torch.arange(5)
    out = model(x, edge_index, edge_attr=attr)
    assert torch.equal(out, model(x, edge_index, edge_attr=attr.float().unsqueeze(1)))
    assert not torch.allclose(out, model(x, edge_index, edge_attr=attr.flip(0)))


def test_refusals() -> None:
    (edge_index, num_nodes), x = path(4), torch.randn(4, 3)
    other = EulerianLineGraph.from_edge_index(*ring(4))
    with pytest.raises(
        ValueError, match=r"'line_graph' must be the undirected one of 4 vertices and 3 columns .*got 4, 4, directed=False"
    ):
        NBAGNN(3, 4, 2)(x, edge_index, line_graph=other)
    with pytest.raises(ValueError, match="directed=True"):
        NBAGNN(3, 4, 2)(x, edge_index, line_graph=EulerianLineGraph.from_edge_index(edge_index, num_nodes, directed=True))
    with pytest.raises(ValueError, match=r"'edge_dim' must be the number of edge attributes, 2 \(got 0\)"):
        NBAGNN(3, 4, 2)(x, edge_index, edge_attr=torch.randn(3, 2))
    with pytest.raises(ValueError, match=r"'edge_dim' must be the number of edge attributes, 0 \(got 1\)"):
        NBAGNN(3, 4, 2, edge_dim=1)(x, edge_index)
    with pytest.raises(ValueError, match="'conv' must be one of 'gcn', 'gin'"):
        NBAGNN(3, 4, 2, conv="gat")
    with pytest.raises(ValueError, match=r"'num_layers' must be at least 1 \(got 0\)"):
        NBAGNN(3, 4, 0)


def test_repr() -> None:
    assert repr(NBAGNN(3, 4, 5, conv="gin", edge_dim=2)) == (
        "NBAGNN(3, 4, num_layers=5, out_channels=4, conv='gin', edge_dim=2, self_loops=True, residual=True)"
    )
