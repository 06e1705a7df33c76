"""One law over every rewiring. A new one joins by being exported, with its defaults; MORE has other settings that the laws must hold for.

What stands beside a graph is put there by transforms called ``Add...``, and ``Cap...`` only thins it out; all others are rewirings.
"""

import copy
import inspect
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import DEVICES, SYMMETRIC, barbell, path, random_graph, ring
from simple_graphs import edge_set, random_connected, renumbered, simple_graph
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import is_undirected, to_networkx, to_undirected

from gump import transforms

MORE = {
    "DIGL": [{"self_loops": False}, {"alpha": 0.3, "eps": 0.15}],
    "FoSR": [{"num_iterations": 3}],
    "LASER": [{"num_snapshots": 2, "density": 0.1}],
    "ProxyAdd": [{"num_edges": 2, "normalization": "rw"}],
    "ProxyDel": [{"num_edges": 2, "normalization": "rw"}],
    "SDRF": [{"num_iterations": 3, "remove_edges": True, "bound": 0.0}, {"num_iterations": 3, "tau": float("inf")}],
}
WITHOUT_CHANCE = {"FoSR": {"initial_power_iterations": 300}, "SDRF": {"tau": float("inf")}}
"""Settings that take the random choice out of rewirings which have one by design."""

CLASSES = [getattr(transforms, name) for name in transforms.__all__ if not name.startswith(("Add", "Cap"))]
REWIRINGS = [cls(**more) for cls in CLASSES for more in [{}, *MORE.get(cls.__name__, [])]]
COUNTS = {"num_edges", "num_iterations"}
COUNTED = [cls for cls in CLASSES if COUNTS & set(inspect.signature(cls).parameters)]

every_rewiring = pytest.mark.parametrize("rewiring", REWIRINGS, ids=repr)
every_class = pytest.mark.parametrize("cls", CLASSES)
every_counted = pytest.mark.parametrize("cls", COUNTED)


def takes(cls, name):
    return name in inspect.signature(cls).parameters


def with_count(cls, count):
    return cls(**{name: count for name in COUNTS if takes(cls, name)})


def may_delete(rewiring):
    return isinstance(rewiring, transforms.DIGL | transforms.ProxyDel) or getattr(rewiring, "remove_edges", False)


def may_join_components(rewiring):
    return isinstance(rewiring, transforms.FoSR)


def decides_on_loops(rewiring):
    return isinstance(rewiring, transforms.DIGL)


def graph(edge_index, num_nodes):
    """Undirected, in no order, with attributes that tell every listed edge from every other."""
    edge_index = to_undirected(edge_index, num_nodes=num_nodes)
    edge_index = edge_index[:, torch.randperm(edge_index.size(1), generator=torch.Generator().manual_seed(0))]
    number = torch.arange(1, edge_index.size(1) + 1)
    return Data(
        x=torch.randn(num_nodes, 2, generator=torch.Generator().manual_seed(1)),
        y=torch.tensor([1]),
        edge_index=edge_index,
        edge_attr=torch.stack([number, -number], dim=1),
        edge_weight=number + 0.5,
        edge_flag=number > 2,
        edge_scale=torch.tensor(3.0),
    )


NO_EDGES = torch.empty(2, 0, dtype=torch.long)
GRAPHS = {name: graph(*drawn) for name, drawn in SYMMETRIC.items()} | {
    "path": graph(*path(6)),
    "loops and isolated": graph(*random_graph(1)),
    "two components": graph(torch.tensor([[0, 1, 4, 5], [1, 2, 5, 6]]), 9),
    "one edge": graph(torch.tensor([[0], [1]]), 2),
    "one loop": graph(torch.tensor([[0], [0]]), 1),
    "one vertex": graph(NO_EDGES, 1),
    "no edges": graph(NO_EDGES, 4),
    "no vertices": graph(NO_EDGES, 0),
}
FULL = ("clique", "one edge", "one loop", "one vertex", "no vertices")
"""Graphs to which no edge can be added."""


def listed(data, key="edge_weight"):
    return dict(zip(map(tuple, data.edge_index.t().tolist()), data[key].tolist(), strict=True))


def components(data):
    return {frozenset(vertices) for vertices in nx.connected_components(to_networkx(data, to_undirected=True))}


@every_rewiring
def test_a_rewired_graph_differs_in_its_edges_and_nowhere_else(rewiring):
    for name, data in GRAPHS.items():
        before = data.clone()
        rewired = rewiring(data)
        assert rewired is not data
        assert all(torch.equal(data[key], value) for key, value in before), f"{name}: the input was changed"
        assert set(rewired.keys()) == set(data.keys()), name
        for key in set(data.keys()) - {"edge_index", "edge_attr", "edge_weight", "edge_flag"}:
            assert torch.equal(rewired[key], data[key]), name
        assert rewired.num_nodes == data.num_nodes, name
        assert rewired.validate()


@every_rewiring
def test_edges_come_out_undirected_once_and_sorted(rewiring):
    for name, data in GRAPHS.items():
        rewired = rewiring(data)
        assert rewired.edge_index.dtype == torch.long, name
        assert is_undirected(rewired.edge_index, num_nodes=rewired.num_nodes), name
        assert rewired.is_coalesced(), name


@every_rewiring
def test_an_edge_of_the_input_keeps_its_attributes_and_an_added_one_has_none(rewiring):
    for name, data in GRAPHS.items():
        rewired = rewiring(data)
        for key, fill in (("edge_attr", [0, 0]), ("edge_weight", 1.0), ("edge_flag", False)):
            assert rewired[key].dtype == data[key].dtype, name
            old = listed(data, key)
            assert listed(rewired, key) == {edge: old.get(edge, fill) for edge in listed(rewired, key)}, name


@every_rewiring
def test_only_what_deletes_takes_edges_away_and_only_what_joins_leaves_a_component(rewiring):
    for name, data in GRAPHS.items():
        old, new = set(listed(data)), set(listed(rewiring(data)))
        if not may_delete(rewiring):
            assert old <= new, name
        if not may_join_components(rewiring):
            together = {vertex: number for number, component in enumerate(components(data)) for vertex in component}
            assert all(together[u] == together[v] for u, v in new), name
        if not decides_on_loops(rewiring):
            assert {(u, v) for u, v in old if u == v} == {(u, v) for u, v in new if u == v}, name


@every_rewiring
def test_a_bottleneck_does_not_stay_as_it_was(rewiring):
    assert edge_set(rewiring(GRAPHS["barbell"])) != edge_set(GRAPHS["barbell"])


@every_counted
def test_as_many_edges_change_as_were_asked_for_and_more_leave_the_first_as_they_were(cls):
    for name in ("path", "ring", "barbell", "grid", "two components"):
        changed = [edge_set(with_count(cls, count)(GRAPHS[name])) ^ edge_set(GRAPHS[name]) for count in range(4)]
        assert all(first <= second for first, second in pairwise(changed)), name
        sizes = [len(edges) for edges in changed]
        assert all(size <= count for count, size in enumerate(sizes)), name
        assert sizes == [0, 1, 2, 3] or may_delete(cls()) or name == "two components", name  # which have room for two


@every_rewiring
def test_where_nothing_is_left_to_add_nothing_is(rewiring):
    for name in FULL:
        rewired = edge_set(rewiring(GRAPHS[name]))
        assert {edge for edge in rewired if len(edge) == 2} <= edge_set(GRAPHS[name]), name
        if not may_delete(rewiring):
            assert rewired == edge_set(GRAPHS[name]), name


@every_class
def test_the_relation_tells_added_edges_from_those_of_the_input(cls):
    for name, data in GRAPHS.items():
        if not takes(cls, "relation"):
            assert set(listed(cls()(data))) <= set(listed(data)), "a rewiring that adds edges must be able to say which"
            continue
        rewired, plain = cls(relation=True)(data), cls()(data)
        assert torch.equal(rewired.edge_index, plain.edge_index), name
        assert set(rewired.keys()) == {*data.keys(), "edge_type"}, name
        assert rewired.edge_type.dtype == torch.long, name
        assert is_undirected(rewired.edge_index, rewired.edge_type, num_nodes=data.num_nodes), name
        kinds = listed(rewired, "edge_type")
        assert {edge for edge, kind in kinds.items() if kind == 0} == set(kinds) & set(listed(data)), name
        assert min(kinds.values(), default=0) >= 0, name


@every_rewiring
def test_a_result_repeats_whatever_came_before_and_leaves_random_states_alone(rewiring):
    other = copy.deepcopy(rewiring)
    alone = {name: rewiring(data).edge_index for name, data in GRAPHS.items()}
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()
    for name in reversed(GRAPHS):
        assert torch.equal(other(GRAPHS[name]).edge_index, alone[name]), name
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]


@every_rewiring
def test_the_order_in_which_edges_are_listed_does_not_matter(rewiring):
    for name, data in GRAPHS.items():
        order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(2))
        shuffled = data.clone()
        for key in ("edge_index", "edge_attr", "edge_weight", "edge_flag"):
            shuffled[key] = data[key].index_select(data.__cat_dim__(key, data[key]), order)
        assert listed(rewiring(shuffled)) == listed(rewiring(data)), name


@every_class
@pytest.mark.parametrize("seed", [3, 4, 6, 7])
def test_the_numbering_does_not_matter_where_nothing_is_equal(seed, cls):
    """Of random graphs some make no rewiring choose among equals; these are such."""
    rewiring, data = cls(**WITHOUT_CHANCE.get(cls.__name__, {}), **{n: 2 for n in COUNTS if takes(cls, n)}), random_connected(seed)
    rewired = rewiring(data)
    assert edge_set(rewired) != edge_set(data)
    for number in range(3):
        order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(number))
        assert edge_set(rewiring(renumbered(data, order))) == edge_set(renumbered(rewired, order))


@every_rewiring
def test_edges_listed_twice_count_once_and_keep_the_first_attributes(rewiring):
    data = GRAPHS["barbell"]
    twice = data.clone()
    for key in ("edge_index", "edge_attr", "edge_weight", "edge_flag"):
        other = data[key] if key in ("edge_index", "edge_flag") else data[key] + 100
        twice[key] = torch.cat([data[key], other], dim=data.__cat_dim__(key, data[key]))
    for key in ("edge_attr", "edge_weight"):
        assert listed(rewiring(twice), key) == listed(rewiring(data), key)


@every_rewiring
@pytest.mark.parametrize("device", DEVICES)
def test_the_number_of_vertices_and_the_device_stay_without_features(rewiring, device):
    data = simple_graph(torch.tensor([[0, 1, 0], [1, 2, 2]]), 7).to(device)
    rewired = rewiring(data)
    assert rewired.num_nodes == 7
    assert rewired.edge_index.device == data.edge_index.device


@every_rewiring
def test_rewired_graphs_form_a_batch(rewiring):
    rewired = [rewiring(data) for data in GRAPHS.values()]
    batch = next(iter(DataLoader(rewired, len(rewired))))
    assert batch.edge_attr.size(0) == batch.num_edges == sum(data.num_edges for data in rewired)


@every_rewiring
def test_what_is_no_undirected_graph_is_refused(rewiring):
    with pytest.raises(ValueError, match=r"'data' must list every edge in both orientations \(got 1 -> 2 without 2 -> 1\); apply"):
        rewiring(Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]), num_nodes=3))
    with pytest.raises(
        ValueError, match=r"'data' must be one graph \(got a batch of 2\); transform graphs before they are batched"
    ):
        rewiring(Batch.from_data_list([GRAPHS["path"], GRAPHS["ring"]]))
    with pytest.raises(ValueError, match=r"'data' must have 'edge_index' \(got Data\(x=\[3, 1\]\)\)"):
        rewiring(Data(x=torch.ones(3, 1)))
    for columns, came in ([[0, 3], [3, 0]], "0 to 3"), ([[0, -1], [-1, 0]], "-1 to 0"):
        with pytest.raises(ValueError, match=rf"'edge_index' must hold vertices below 3, their number \(got {came}\)"):
            rewiring(Data(edge_index=torch.tensor(columns), num_nodes=3))


@every_rewiring
@pytest.mark.parametrize("key", ["edge_attr", "edge_weight", "edge_type"])
def test_attributes_that_cannot_follow_their_edges_are_refused(rewiring, key):
    data = simple_graph(*ring(4))
    for value, came in (torch.ones(7, 1), r"shape \[7, 1\]"), (torch.tensor(1.0), r"shape \[\]"), ([0] * 8, r"\[0, 0, .*\]"):
        data[key] = value
        with pytest.raises(ValueError, match=rf"'{key}' must have one row for each of the 8 edges \(got {came}\)"):
            rewiring(data)


@every_class
def test_a_relation_that_is_there_already_is_refused_or_follows_its_edges(cls):
    data = transforms.FoSR(relation=True)(GRAPHS["path"])
    assert cls()(data).edge_type.numel() == cls()(data).num_edges
    if takes(cls, "relation"):
        with pytest.raises(ValueError, match="'data' must not have 'edge_type' with relation=True"):
            cls(relation=True)(data)


@every_class
def test_the_repr_names_every_setting(cls):
    assert repr(cls()).startswith(f"{cls.__name__}(")
    assert all(f"{name}=" in repr(cls()) for name in inspect.signature(cls).parameters)


@pytest.mark.parametrize("cls", [getattr(transforms, name) for name in transforms.__all__ if name.startswith("Add")])
def test_what_is_called_add_leaves_the_edges_alone(cls):
    needed = [p.name for p in inspect.signature(cls).parameters.values() if p.default is p.empty]
    for data in (GRAPHS["barbell"].clone(), simple_graph(*barbell(5))):
        data.edge_attr = torch.eye(2)[data.edge_index.sum(dim=0) % 2]  # labels, which AddEdgeType reads
        beside = cls(**dict.fromkeys(needed, 3))(data)
        assert torch.equal(beside.edge_index, data.edge_index)
        assert set(beside.keys()) > set(data.keys())


@pytest.mark.parametrize("transform", [*REWIRINGS, transforms.CapDegree(2)], ids=repr)
@pytest.mark.parametrize(
    ("before", "what"),
    [
        (transforms.AddLineGraph(), r"a line graph \(got 'arc_index'\)"),
        (transforms.AddHops(2), r"pairs with their distances \(got 'hop_index'\)"),
        (transforms.AddPatches(2, method="bfs"), r"patches \(got 'patch_index'\)"),
    ],
    ids=["line graph", "hops", "patches"],
)
def test_what_was_made_of_the_edges_is_not_left_behind(transform, before, what):
    with pytest.raises(ValueError, match=rf"'data' must not carry {what}, .*; apply {type(before).__name__} last"):
        transform(before(GRAPHS["path"]))


@pytest.mark.parametrize("transform", [*REWIRINGS, transforms.CapDegree(2)], ids=repr)
def test_pairs_that_are_asked_about_stay_as_they_are_though_there_are_as_many_as_edges(transform):
    torch.manual_seed(0)
    train, *_ = RandomLinkSplit(is_undirected=True)(random_connected(3, num_nodes=14))
    assert train.edge_label.size(0) == train.edge_index.size(1), "where they could be taken for attributes of edges"
    found = transform(train)
    assert torch.equal(found.edge_label, train.edge_label)
    assert torch.equal(found.edge_label_index, train.edge_label_index)
