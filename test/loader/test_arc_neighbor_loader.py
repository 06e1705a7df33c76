"""Mini-batches around a few vertices of one graph."""

from __future__ import annotations

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, grid, path, random_graph, star
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from gump import EulerianLineGraph
from gump.loader.arc_neighbor_loader import ArcNeighborLoader, _distinct
from gump.nn import GUMP
from gump.nn.models.gump import CONVS
from gump.transforms import AddLineGraph

BASES: list[tuple[str | None, int]] = [("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("graph", 1), (None, 0)]


def num_hops(base: str | None, num_base_layers: int, num_layers: int) -> int:
    """The formula of the docstring."""
    return num_layers + num_base_layers + (base == "gcn" and num_base_layers > 0)


def graph(edge_index: torch.Tensor, num_nodes: int, equal_features: bool = False) -> Data:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1 if equal_features else num_nodes, 3, generator=random, dtype=torch.float64).expand(num_nodes, 3)
    return Data(x=x, edge_index=edge_index)


def scale_free(num_nodes: int = 300, seed: int = 0) -> Data:
    edges = torch.tensor(list(nx.barabasi_albert_graph(num_nodes, 4, seed=seed).edges)).t()
    return graph(torch.cat([edges, edges.flip(0)], dim=1), num_nodes)


def model(*widths: int, **settings: Any) -> GUMP:
    """A model in eval mode whose batch norms have seen something."""
    torch.manual_seed(1)
    made = GUMP(*widths, **settings).double().eval()
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    return made


def only(loader: ArcNeighborLoader) -> Data:
    (batch,) = loader
    return batch


def largest_difference(data: Data, net: GUMP, hops: int, vertex: int) -> float:
    """Between the results at a vertex from its whole neighborhood and from the whole graph."""
    batch = only(ArcNeighborLoader(data, [-1] * hops, input_nodes=torch.tensor([vertex])))
    return (net(batch.x, batch.edge_index)[0] - net(data.x, data.edge_index)[vertex]).abs().max().item()


def described(batch: Data) -> list[tuple[str, Any]]:
    return [(key, value.tolist() if torch.is_tensor(value) else value) for key, value in sorted(batch)]


# Whole neighborhoods


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize(("base", "num_base_layers"), BASES)
@pytest.mark.parametrize("num_layers", [2, 3])
def test_whole_neighborhoods_of_enough_hops_give_what_the_whole_graph_gives_and_one_hop_less_does_not(
    conv: str, base: str | None, num_base_layers: int, num_layers: int
) -> None:
    data = graph(*grid(9, 9))
    net = model(3, 8, num_layers, conv=conv, base=base, num_base_layers=num_base_layers)
    hops = num_hops(base, num_base_layers, num_layers)
    assert largest_difference(data, net, hops, vertex=0) < 1e-12
    assert largest_difference(data, net, hops - 1, vertex=0) > 1e-6
    assert only(ArcNeighborLoader(data, [-1] * hops, input_nodes=torch.tensor([0]))).num_nodes < 81


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("equal_features", [True, False])
@pytest.mark.parametrize("norm", ["batch", None])
def test_so_they_do_on_symmetric_graphs(name: str, equal_features: bool, norm: str | None) -> None:
    data = graph(*SYMMETRIC[name], equal_features=equal_features)
    net = model(3, 8, 2, norm=norm, base_norm=norm, jk="weighted", residual=True)
    assert max(largest_difference(data, net, 4, vertex) for vertex in range(data.num_nodes)) < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_and_with_self_loops_duplicates_directions_weights_and_attributes(seed: int) -> None:
    data = graph(*random_graph(seed, num_nodes=40, num_edges=50))
    random = torch.Generator().manual_seed(seed)
    data.edge_attr = torch.randn(50, 2, generator=random, dtype=torch.float64)
    data.edge_weight = torch.rand(50, generator=random, dtype=torch.float64)
    net = model(3, 8, 2, directed=True, edge_dim=3, conv="gin")
    whole = net(data.x, data.edge_index, edge_attr=data.edge_attr, edge_weight=data.edge_weight)
    for batch in ArcNeighborLoader(data, [-1] * 4, batch_size=3, shuffle=True):
        out = net(batch.x, batch.edge_index, edge_attr=batch.edge_attr, edge_weight=batch.edge_weight)
        assert (out - whole[batch.n_id])[: batch.batch_size].abs().max() < 1e-12


@pytest.mark.parametrize(("base", "radius"), [("gcn", 2), ("gin", 3), (None, 4)])
@pytest.mark.parametrize("layer", [1, 2])
def test_coins_and_states_are_exact_up_to_the_distances_that_the_docstring_says(base: str | None, radius: int, layer: int) -> None:
    data = graph(*grid(9, 9))
    net = model(3, 8, layer, base=base)
    batch = only(ArcNeighborLoader(data, [-1] * 4, input_nodes=torch.tensor([0])))
    distance = torch.tensor([sum(divmod(int(v), 9)) for v in batch.n_id])  # from a corner of the grid
    whole, part = (EulerianLineGraph.from_edge_index(d.edge_index, d.num_nodes) for d in (data, batch))
    number = {tuple(arc): i for i, arc in enumerate(whole.arcs.t().tolist())}
    same = torch.tensor([number[tuple(arc)] for arc in batch.n_id[part.arcs].t().tolist()])
    error = (net(batch.x, batch.edge_index, return_arcs=True)[1] - net(data.x, data.edge_index, return_arcs=True)[1][same]).abs()
    exact = distance[part.arcs[1]] <= radius - layer
    assert error[exact].max() < 1e-12
    assert error[distance[part.arcs[1]] == radius - layer + 1].max() > 1e-6
    operator, whole_operator = (net.propagation_matrix(d.x, d.edge_index).to_dense() for d in (batch, data))
    error = (operator - whole_operator[same][:, same]).abs().amax(dim=1)  # the row of arc (u, v) is the coin at v
    assert error[distance[part.arcs[1]] <= radius - 1].max() < 1e-12
    assert error[distance[part.arcs[1]] == radius].max() > 1e-6


def test_gradients_are_those_of_the_whole_graph() -> None:
    data, net = graph(*grid(9, 9)), model(3, 8, 2)
    whole = torch.autograd.grad(net(data.x, data.edge_index)[:5].square().sum(), list(net.parameters()))
    batch = only(ArcNeighborLoader(data, [100] * 4, batch_size=5, input_nodes=torch.arange(5)))
    part = torch.autograd.grad(net(batch.x, batch.edge_index)[:5].square().sum(), list(net.parameters()))
    assert batch.num_nodes < 81
    assert max(float((a - b).abs().max()) for a, b in zip(whole, part, strict=True)) < 1e-11


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_whole_neighborhood_has_every_edge_of_the_vertices_inside(seed: int, hops: int) -> None:
    data = graph(*random_graph(seed, num_nodes=40, num_edges=50))
    network = nx.Graph(data.edge_index.t().tolist())
    network.add_nodes_from(range(40))
    for batch in ArcNeighborLoader(data, [-1] * hops):
        distance = nx.single_source_shortest_path_length(network, int(batch.n_id[0]), cutoff=hops)
        assert sorted(batch.n_id.tolist()) == sorted(distance)
        ends = [[distance.get(v, hops) for v in column] for column in data.edge_index.t().tolist()]
        assert batch.e_id.tolist() == [i for i, end in enumerate(ends) if min(end) < hops]


# Samples


def test_a_star_by_hand() -> None:
    data = graph(*star(1000))
    hub, leaf = ArcNeighborLoader(data, [2, 4], input_nodes=torch.tensor([0, 7]))
    assert (hub.num_nodes, hub.edge_index.tolist()) == (3, [[0, 0], [1, 2]])
    assert leaf.n_id[:2].tolist() == [7, 0]
    assert leaf.num_nodes in (5, 6)  # the hub may draw the arc back as one of its four
    assert leaf.edge_index.size(1) == leaf.num_nodes - 1


@pytest.mark.parametrize("sizes", [[5], [3, 2], [4, 3, 2], [1, 1, 1, 1]])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_samples_have_no_more_arcs_than_the_sum_of_fan_outs_and_vertices_draw_what_they_may(
    sizes: list[int], batch_size: int
) -> None:
    data = scale_free()
    degree = data.edge_index[0].bincount(minlength=300)
    most = 2 * batch_size * sum(math.prod(sizes[: h + 1]) for h in range(len(sizes)))
    for batch in itertools.islice(ArcNeighborLoader(data, sizes, batch_size, shuffle=True), 40):
        assert batch.edge_index.size(1) <= most
        assert is_undirected(batch.edge_index, num_nodes=batch.num_nodes)
        drawn = batch.edge_index[0].bincount(minlength=batch.num_nodes)[: batch.batch_size]
        assert (drawn >= degree[batch.n_id[: batch.batch_size]].clamp(max=sizes[0])).all()


def test_every_vertex_reached_before_the_last_hop_draws() -> None:
    batch = only(ArcNeighborLoader(graph(*path(50)), [2] * 9, input_nodes=torch.tensor([20])))
    assert sorted(batch.n_id.tolist()) == list(range(11, 30))
    assert (batch.n_id - 20).abs().tolist() == sorted((batch.n_id - 20).abs().tolist())  # hop by hop


@pytest.mark.parametrize("coin", ["bounded", "polar", "grover"])
def test_coins_of_a_sample_are_orthogonal(coin: str) -> None:
    net = model(3, 8, 4, coin=coin)
    for batch in itertools.islice(ArcNeighborLoader(scale_free(), [3, 3, 2], batch_size=20, shuffle=True), 3):
        matrix = net.propagation_matrix(batch.x, batch.edge_index).to_dense()
        assert (matrix.t() @ matrix - torch.eye(matrix.size(0))).abs().max() < 1e-10


def test_a_hub_with_few_of_its_arcs_is_another_vertex_than_with_all() -> None:
    data = graph(*star(100))
    assert largest_difference(data, model(3, 8, 2), 4, vertex=0) < 1e-12
    batch = only(ArcNeighborLoader(data, [5] * 4, input_nodes=torch.tensor([0])))
    net = model(3, 8, 2)
    assert (net(batch.x, batch.edge_index)[0] - net(data.x, data.edge_index)[0]).abs().max() > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_everything_follows_its_vertex_or_edge(seed: int) -> None:
    data = graph(*random_graph(seed, num_nodes=60, num_edges=150))
    data.y, data.train_mask, data.label = torch.arange(60), torch.arange(60) % 2 == 0, [str(v) for v in range(60)]
    data.edge_attr, data.edge_weight = torch.arange(300).view(150, 2), torch.rand(150)
    data.num_nodes, data.name, data.scale = 60, "sixty", torch.tensor(2.0)
    for batch in ArcNeighborLoader(data, [2, 2], batch_size=4):
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.y, batch.n_id)
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.train_mask, data.train_mask[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        assert (batch.num_nodes, batch.name, batch.scale) == (batch.n_id.numel(), "sixty", 2)
        assert batch.label == [str(v) for v in batch.n_id.tolist()]
        assert batch.n_id.unique().numel() == batch.num_nodes
    assert data.num_nodes == 60
    assert "n_id" not in data


@pytest.mark.parametrize("seed", range(3))
def test_an_edge_comes_with_every_column_that_lists_it(seed: int) -> None:
    data = graph(*random_graph(seed, num_nodes=12, num_edges=60))  # many duplicates, in either orientation
    ends = [frozenset(column) for column in data.edge_index.t().tolist()]
    for batch in ArcNeighborLoader(data, [2, 1]):
        kept = {ends[i] for i in batch.e_id.tolist()}
        assert batch.e_id.tolist() == [i for i, pair in enumerate(ends) if pair in kept]


def test_choices_are_uniform_and_without_replacement() -> None:
    chosen = np.sort(_distinct(np.full(30_000, 5), 3, np.random.default_rng(0)), axis=1)
    sets, count = np.unique(chosen, axis=0, return_counts=True)
    assert sets.tolist() == [list(s) for s in itertools.combinations(range(5), 3)]
    assert abs(count - 3000).max() < 5 * math.sqrt(3000 * 0.9)


def test_isolated_vertices_and_graphs_without_edges_are_legal() -> None:
    data = graph(torch.tensor([[1], [2]]), 4)
    batch = only(ArcNeighborLoader(data, [3, 3], batch_size=2, input_nodes=torch.tensor([3, 0])))
    assert (batch.n_id.tolist(), batch.edge_index.shape, batch.batch_size) == ([3, 0], (2, 0), 2)
    net = model(3, 8, 2)
    torch.testing.assert_close(net(batch.x, batch.edge_index), net(data.x, data.edge_index)[[3, 0]])
    empty = graph(torch.empty(2, 0, dtype=torch.long), 3)
    assert [b.n_id.tolist() for b in ArcNeighborLoader(empty, [-1], batch_size=2)] == [[0, 1], [2]]
    assert len(ArcNeighborLoader(data, [1], input_nodes=torch.zeros(4, dtype=torch.bool))) == 0


# Epochs


@pytest.mark.parametrize("shuffle", [False, True])
def test_every_epoch_goes_through_every_input_once(shuffle: bool) -> None:
    mask = torch.arange(300) % 3 == 0
    loader = ArcNeighborLoader(scale_free(), [2, 2], batch_size=7, input_nodes=mask, shuffle=shuffle)
    epochs = [[batch.n_id[: batch.batch_size] for batch in loader] for _ in range(2)]
    for inputs in epochs:
        assert [len(part) for part in inputs] == [7] * 14 + [2]
        assert torch.equal(torch.cat(inputs).sort().values, mask.nonzero().view(-1))
    assert torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1])) != shuffle
    assert len(loader) == 15


def test_batches_depend_on_seed_and_epoch_and_not_on_workers_or_on_torch() -> None:
    def epoch(seed: int = 0, number: int = 0, **kwargs: Any) -> list[list[tuple[str, Any]]]:
        loader = ArcNeighborLoader(scale_free(), [2, 2], 100, shuffle=True, seed=seed, **kwargs)
        loader.epoch = number
        return [described(batch) for batch in loader]

    first = epoch()
    torch.manual_seed(17)
    assert epoch() == first
    assert epoch(num_workers=2) == first
    assert epoch(seed=1) != first
    assert epoch(number=1) != first
    loader = ArcNeighborLoader(scale_free(), [2, 2], 100, shuffle=True)
    assert [described(batch) for batch in loader] == first
    assert loader.epoch == 1
    assert [described(batch) for batch in loader] == epoch(number=1)


def test_the_same_input_gets_other_neighbors_in_another_epoch_batch_or_seed() -> None:
    def neighbors(seed: int = 0, epoch: int = 0, batch: int = 0) -> list[int]:
        inputs = torch.tensor([*range(1, 1 + batch), 0])
        loader = ArcNeighborLoader(graph(*star(1000)), [3], input_nodes=inputs, seed=seed)
        loader.epoch = epoch
        return list(loader)[-1].n_id.tolist()

    assert len({tuple(neighbors(*numbers)) for numbers in [(), (1, 0, 0), (0, 1, 0), (0, 0, 1)]}) == 4


def test_a_transform_sees_every_batch() -> None:
    for batch in ArcNeighborLoader(scale_free(), [3, 3], batch_size=50, transform=AddLineGraph()):
        read = EulerianLineGraph.from_data(batch)
        assert torch.equal(read.arcs, EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes).arcs)


def test_a_sampled_step_of_training_has_finite_gradients() -> None:
    net = GUMP(3, 8, 4).double()
    batch = next(iter(ArcNeighborLoader(scale_free(), [3, 2, 2], batch_size=10)))
    net(batch.x, batch.edge_index)[: batch.batch_size].square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().sum() > 0 for p in net.coin.parameters())
    assert all(p.grad.isfinite().all() for p in net.parameters())


# Refusals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_neighbors": []}, r"'num_neighbors' must be integers, for one hop or more, at least 1, or -1 for all \(got \[\]\)"),
        ({"num_neighbors": [2.5]}, r"must be integers, .* \(got \[2.5\]\)"),
        ({"num_neighbors": ["a"]}, r"must be integers, .* \(got \['a'\]\)"),
        ({"batch_size": 2.5}, r"'batch_size' must be an integer, at least 1 \(got 2.5\)"),
        ({"batch_size": None}, r"'batch_size' must be an integer, at least 1 \(got None\)"),
        ({"drop_last": True}, "'drop_last' must be false"),
        ({"data": Data(num_nodes=3)}, r"'data' must be a torch_geometric.data.Data with 'edge_index' \(got Data\(num_nodes=3\)\)"),
        ({"num_neighbors": [3, 0]}, r"got \[3, 0\]"),
        ({"num_neighbors": 2}, r"'num_neighbors' must be a list of one number for each hop \(got 2\); pass \[2\] for a single hop"),
        ({"batch_size": 0}, r"'batch_size' must be an integer, at least 1 \(got 0\)"),
        ({"seed": -1}, r"'seed' must be an integer, at least 0 \(got -1\)"),
        ({"input_nodes": torch.ones(3, dtype=torch.bool)}, r"as a mask, have one entry for each of 4 vertices \(got \[3\]\)"),
        ({"input_nodes": torch.tensor([0.0])}, r"a mask or a vector of integers \(got torch.float32 of shape \[1\]\)"),
        ({"input_nodes": torch.tensor([0, 4])}, r"must name vertices from 0 to 3 \(got 4\)"),
        ({"input_nodes": torch.tensor([-1])}, r"got -1"),
        ({"input_nodes": torch.tensor([2, 0, 2])}, r"must name every vertex once \(got 2 2 times\)"),
        ({"data": AddLineGraph()(graph(*path(4)))}, r"must not carry a line graph \(got one\); pass transform=AddLineGraph\(\)"),
    ],
)
def test_what_cannot_be_sampled_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ArcNeighborLoader(**({"data": graph(*path(4)), "num_neighbors": [2]} | settings))


def test_repr_names_the_settings() -> None:
    loader = ArcNeighborLoader(graph(*path(4)), (2, -1), 3, seed=5)
    assert repr(loader) == "ArcNeighborLoader(num_neighbors=[2, -1], batch_size=3, num_inputs=4, shuffle=False, seed=5)"


def test_pairs_that_are_asked_about_are_refused() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, edge_label_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(ValueError, match=r"'data' must not ask about pairs of vertices \(got 'edge_label_index'\)"):
        ArcNeighborLoader(data, [1], batch_size=1)
