"""What every rewiring keeps: the rest of the graph."""

import warnings

import numpy as np
import pytest
import torch
from graphs import DEVICES, barbell, clique, path, random_graph, ring, star
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import contains_self_loops, is_undirected, to_undirected

from gump.line_graph import EulerianLineGraph
from gump.transforms import AddLineGraph
from gump.transforms.adjacency import to_adjacency, with_adjacency
from gump.transforms.digl import DIGL
from gump.transforms.fosr import FoSR
from gump.transforms.gtr import GTR
from gump.transforms.sdrf import SDRF

ADDING = [FoSR(num_iterations=3), GTR(num_edges=3), SDRF(num_iterations=3)]
REMOVING = [DIGL(), DIGL(self_loops=False), SDRF(num_iterations=3, remove_edges=True, bound=0.0)]
REWIRINGS = ADDING + REMOVING
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def graph(edge_index, num_nodes):
    """Undirected, with attributes that tell every listed edge from every other."""
    edge_index = to_undirected(edge_index, num_nodes=num_nodes)
    edge_index = edge_index[:, torch.randperm(edge_index.size(1), generator=torch.Generator().manual_seed(0))]
    number = torch.arange(1, edge_index.size(1) + 1)
    return Data(
        x=torch.randn(num_nodes, 2, generator=torch.Generator().manual_seed(1)),
        y=torch.tensor([1]),
        edge_index=edge_index,
        edge_attr=torch.stack([number, -number], dim=1),
        edge_weight=number + 0.5,
    )


GRAPHS = {
    "path": graph(*path(6)),
    "ring": graph(*ring(6)),
    "star": graph(*star(4)),
    "barbell": graph(*barbell(4)),
    "loops and isolated": graph(*random_graph(1)),
    "two components": graph(torch.tensor([[0, 1, 4, 5], [1, 2, 5, 6]]), 9),
    "one vertex": graph(NO_EDGES, 1),
    "one edge": graph(torch.tensor([[0], [1]]), 2),
    "no edges": graph(NO_EDGES, 4),
    "clique": graph(*clique(5)),
}


def listed(data, key):
    return dict(zip(map(tuple, data.edge_index.t().tolist()), data[key].tolist(), strict=True))


@pytest.mark.parametrize("rewiring", REWIRINGS, ids=repr)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_rewired_graph_differs_in_its_edges_and_nowhere_else(name, rewiring):
    data = GRAPHS[name]
    before = data.clone()
    rewired = rewiring(data)
    for key, value in before:
        assert torch.equal(data[key], value), "the input was changed"
    assert set(rewired.keys()) == set(data.keys())
    assert rewired.num_nodes == data.num_nodes
    assert torch.equal(rewired.x, data.x)
    assert torch.equal(rewired.y, data.y)
    assert rewired.edge_index.dtype == torch.long
    assert is_undirected(rewired.edge_index, num_nodes=data.num_nodes)
    assert rewired.is_coalesced()
    rewired.validate()
    for key, fill in (("edge_attr", [0, 0]), ("edge_weight", 1.0)):
        assert rewired[key].dtype == data[key].dtype
        old, new = listed(data, key), listed(rewired, key)
        assert {edge: value for edge, value in new.items() if edge in old} == {e: v for e, v in old.items() if e in new}
        assert all(value == fill for edge, value in new.items() if edge not in old)
    if rewiring in ADDING:
        assert set(listed(data, "edge_weight")) <= set(listed(rewired, "edge_weight"))
        assert contains_self_loops(rewired.edge_index) == contains_self_loops(data.edge_index)


@pytest.mark.parametrize("rewiring", ADDING, ids=repr)
@pytest.mark.parametrize("name", ["path", "ring", "barbell"])
def test_as_many_edges_come_as_were_asked_for(name, rewiring):
    assert rewiring(GRAPHS[name]).num_edges == GRAPHS[name].num_edges + 2 * 3


@pytest.mark.parametrize("rewiring", ADDING, ids=repr)
def test_where_nothing_is_left_to_add_the_graph_stays(rewiring):
    for name in ("clique", "one vertex", "one edge"):
        assert listed(rewiring(GRAPHS[name]), "edge_attr") == listed(GRAPHS[name], "edge_attr")


@pytest.mark.parametrize("rewiring", ADDING, ids=repr)
def test_asked_for_nothing_it_does_nothing(rewiring):
    none = type(rewiring)(0)
    for data in GRAPHS.values():
        assert listed(none(data), "edge_attr") == listed(data, "edge_attr")


@pytest.mark.parametrize("rewiring", [DIGL, FoSR, GTR, SDRF])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_relation_tells_added_edges_from_those_of_the_input(name, rewiring):
    rewired = rewiring(relation=True)(GRAPHS[name])
    old = listed(GRAPHS[name], "edge_attr")
    assert rewired.edge_type.dtype == torch.long
    assert listed(rewired, "edge_type") == {edge: int(edge not in old) for edge in listed(rewired, "edge_attr")}


@pytest.mark.parametrize("rewiring", REWIRINGS, ids=repr)
def test_a_graph_does_not_depend_on_those_before_it(rewiring):
    alone = {name: rewiring(data).edge_index for name, data in GRAPHS.items()}
    for name in reversed(GRAPHS):
        assert torch.equal(rewiring(GRAPHS[name]).edge_index, alone[name])


@pytest.mark.parametrize("rewiring", REWIRINGS, ids=repr)
def test_edges_listed_twice_count_once_and_keep_the_first_attributes(rewiring):
    data = GRAPHS["barbell"].clone()
    twice = data.clone()
    for key in ("edge_index", "edge_attr", "edge_weight"):
        other = data[key] if key == "edge_index" else data[key] + 100
        twice[key] = torch.cat([data[key], other], dim=data.__cat_dim__(key, data[key]))
    assert listed(rewiring(twice), "edge_attr") == listed(rewiring(data), "edge_attr")


@pytest.mark.parametrize("rewiring", REWIRINGS, ids=repr)
def test_edges_in_one_orientation_are_refused(rewiring):
    data = Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]), num_nodes=3)
    with pytest.raises(ValueError, match=r"'data' must list every edge in both orientations \(got 1 -> 2 without 2 -> 1\); apply"):
        rewiring(data)


def test_a_relation_that_is_there_already_is_refused():
    data = FoSR(relation=True)(GRAPHS["path"])
    with pytest.raises(ValueError, match="'data' must not have 'edge_type' with relation=True"):
        GTR(relation=True)(data)
    assert GTR()(data).edge_type.numel() == GTR()(data).num_edges


@pytest.mark.parametrize("rewiring", REWIRINGS, ids=repr)
def test_batches_form_and_line_graphs_of_the_old_edges_are_refused(rewiring):
    rewired = [rewiring(data) for data in GRAPHS.values()]
    batch = next(iter(DataLoader(rewired, len(rewired))))
    assert batch.edge_attr.size(0) == batch.num_edges == sum(data.num_edges for data in rewired)
    with pytest.raises(ValueError, match="'data' must carry the line graph of its own edges"):
        EulerianLineGraph.from_data(rewiring(AddLineGraph()(GRAPHS["path"])))


@pytest.mark.parametrize("rewiring", REWIRINGS, ids=repr)
@pytest.mark.parametrize("device", DEVICES)
def test_the_number_of_vertices_and_the_device_stay_without_features(rewiring, device):
    data = Data(edge_index=to_undirected(torch.tensor([[0, 1, 0], [1, 2, 2]])), num_nodes=7).to(device)
    rewired = rewiring(data)
    assert rewired.num_nodes == 7
    assert rewired.edge_index.device == data.edge_index.device


def test_a_vertex_that_loses_its_last_edge_stays():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]))
    with warnings.catch_warnings(action="ignore"):  # PyG guesses how many there are
        assert with_adjacency(data, np.zeros((2, 2), dtype=bool)).num_nodes == 2


def test_a_matrix_there_and_back():
    data = GRAPHS["loops and isolated"]
    same = with_adjacency(data.clone(), to_adjacency(data))
    assert listed(same, "edge_attr") == listed(data, "edge_attr")
    assert not to_adjacency(data).diagonal().any()
