"""The Eulerian line graph: arcs, reverses, blocks and transitions."""

import io
import itertools
import re
from dataclasses import fields

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import DEVICES, SYMMETRIC, clique, path, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.transforms import AddLineGraph

vertices = st.integers(0, 6)
edge_indices = st.lists(st.tuples(vertices, vertices), min_size=1, max_size=14).map(lambda edges: torch.tensor(edges).t())


def on_every_graph(test):
    """Runs a law on graphs with self-loops, duplicates and isolated vertices."""
    return settings(max_examples=40, deadline=None)(given(edge_indices)(test))


def pairs(edges):
    return [tuple(pair) for pair in edges.t().tolist()]


def equal(one, other):
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("arcs", "reverse", "listed"))


def test_a_path_of_three_vertices_is_what_one_draws():
    line_graph = EulerianLineGraph.from_edge_index(*path(3))
    assert pairs(line_graph.arcs) == [(0, 1), (2, 1), (1, 0), (1, 2)]
    assert line_graph.reverse.tolist() == [2, 3, 0, 1]
    assert line_graph.edge_arc.tolist() == [0, 3]
    assert line_graph.groups == ((1, 2, 0, 0), (2, 1, 2, 2))
    assert [group.arcs for group in line_graph.groups] == [slice(0, 2), slice(2, 4)]
    assert line_graph.block_vertices.tolist() == [0, 2, 1]
    assert line_graph.transitions().tolist() == [[2, 3, 0, 0, 1, 1], [0, 1, 2, 3, 2, 3]]
    assert repr(line_graph) == "EulerianLineGraph(num_nodes=3, num_arcs=4, num_transitions=6, max_degree=2)"


def test_a_self_loop_is_its_own_reverse_and_an_isolated_vertex_owns_no_arc():
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 1, 3, 0], [1, 3, 0, 0]]), num_nodes=5)
    assert pairs(line_graph.arcs) == [(1, 0), (1, 3), (3, 0), (3, 1), (0, 0), (0, 1), (0, 3)]
    assert line_graph.reverse.tolist() == [5, 3, 6, 1, 4, 0, 2]
    assert (line_graph.num_nodes, line_graph.num_blocks, line_graph.block_vertices.tolist()) == (5, 3, [1, 3, 0])


@pytest.mark.parametrize(("num_nodes", "expected"), [(None, 0), (0, 0), (3, 3)])
def test_a_graph_without_edges_is_legal(num_nodes, expected):
    line_graph = EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes)
    assert (line_graph.num_nodes, line_graph.num_arcs, line_graph.num_transitions, line_graph.max_degree) == (expected, 0, 0, 0)
    assert line_graph.transitions().shape == line_graph.to_edge_index().shape == (2, 0)
    assert line_graph.arc_attr(torch.empty(0, 3)).shape == (0, 3)
    for layout in line_graph.compressed(line_graph.max_degree):
        assert [part.tolist() for part in layout] == [[0], [], []]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_one_orientation_both_or_duplicates_give_the_same_structure(name):
    edge_index, num_nodes = SYMMETRIC[name]
    once, flipped = EulerianLineGraph.from_edge_index(edge_index, num_nodes), edge_index.flip(0)
    for other in (flipped, torch.cat([edge_index, flipped], dim=1), torch.cat([flipped, edge_index, edge_index], dim=1)):
        again = EulerianLineGraph.from_edge_index(other, num_nodes)
        assert equal(once, again)
        assert pairs(again.arcs[:, again.edge_arc]) == pairs(other)


@on_every_graph
def test_arcs_are_sorted_and_reverse_is_an_involution_that_only_fixes_self_loops(edge_index):
    line_graph = EulerianLineGraph.from_edge_index(edge_index)
    keys = list(zip(line_graph.arc_degree.tolist(), *line_graph.arcs.tolist(), strict=True))
    assert keys == sorted(set(keys))
    assert torch.equal(line_graph.arcs[:, line_graph.reverse], line_graph.arcs.flip(0))
    fixed = line_graph.reverse == torch.arange(line_graph.num_arcs)
    assert torch.equal(fixed, line_graph.arcs[0] == line_graph.arcs[1])
    assert torch.equal(line_graph.block_vertices[line_graph.arc_block], line_graph.arcs[0])


@on_every_graph
def test_transitions_are_those_of_networkx_and_as_many_as_squared_degrees(edge_index):
    line_graph = EulerianLineGraph.from_edge_index(edge_index)
    expected = nx.line_graph(nx.Graph(pairs(edge_index)).to_directed())
    arcs = pairs(line_graph.arcs)
    assert set(arcs) == set(expected.nodes)
    assert {(arcs[i], arcs[j]) for i, j in pairs(line_graph.transitions())} == set(expected.edges)
    assert line_graph.num_transitions == len(expected.edges) == int(line_graph.arcs[0].bincount().square().sum())


@on_every_graph
def test_rows_and_columns_describe_one_matrix_and_its_transpose(edge_index):
    line_graph = EulerianLineGraph.from_edge_index(edge_index)
    size, values = (line_graph.num_arcs,) * 2, 1.0 + torch.arange(line_graph.num_transitions)
    matrix = torch.zeros(size).index_put(tuple(line_graph.transitions()), values)
    for layout, expected in zip(line_graph.compressed(line_graph.max_degree), (matrix, matrix.t()), strict=True):
        row = torch.arange(size[0]).repeat_interleave(layout.pointer.diff())
        assert torch.equal(torch.zeros(size).index_put((row, layout.arc), values[layout.order]), expected)


@on_every_graph
@pytest.mark.parametrize("max_degree", [0, 1, 2, 3])
def test_compressed_transitions_leave_out_those_at_hubs(max_degree, edge_index):
    line_graph = EulerianLineGraph.from_edge_index(edge_index)
    size, values = (line_graph.num_arcs,) * 2, 1.0 + torch.arange(line_graph.num_transitions)
    gathers, gathered = line_graph.transitions()
    keep = line_graph.arc_degree[gathered] <= max_degree
    matrix = torch.zeros(size).index_put((gathers[keep], gathered[keep]), values[keep])
    for layout, expected in zip(line_graph.compressed(max_degree), (matrix, matrix.t()), strict=True):
        assert layout.arc.numel() == layout.order.numel() == int(keep.sum())
        row = torch.arange(size[0]).repeat_interleave(layout.pointer.diff())
        assert torch.equal(torch.zeros(size).index_put((row, layout.arc), values[layout.order]), expected)


@on_every_graph
def test_the_listed_arcs_read_the_graph_back(edge_index):
    directed = EulerianLineGraph.from_edge_index(edge_index, 7, directed=True)
    undirected = EulerianLineGraph.from_edge_index(edge_index, 7)
    assert pairs(directed.to_edge_index()) == sorted(set(pairs(edge_index)))
    assert pairs(undirected.to_edge_index()) == sorted({*pairs(edge_index), *pairs(edge_index.flip(0))})
    assert int(directed.listed.sum()) == len(set(pairs(edge_index)))
    assert int(undirected.listed.sum()) == undirected.num_arcs == directed.num_arcs
    assert equal(undirected, EulerianLineGraph.from_edge_index(undirected.to_edge_index(), 7))


@pytest.mark.parametrize("graph", [*SYMMETRIC.values(), random_graph(0), random_graph(1)])
def test_relabeling_the_vertices_relabels_the_transitions(graph):
    edge_index, num_nodes = graph
    permutation = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
    before, after = (EulerianLineGraph.from_edge_index(e, num_nodes) for e in (edge_index, permutation[edge_index]))
    walks = [torch.cat([g.arcs[:, g.transitions()[0]], g.arcs[1:, g.transitions()[1]]]) for g in (before, after)]
    assert sorted(pairs(permutation[walks[0]])) == sorted(pairs(walks[1]))


@pytest.mark.parametrize("dtype", [torch.float, torch.long])
@pytest.mark.parametrize(("reduce", "merged"), [("mean", 2), ("sum", 4), ("min", 1), ("max", 3)])
def test_attributes_of_duplicates_are_merged_and_an_unlisted_arc_takes_its_reverse(reduce, merged, dtype):
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 0, 1], [1, 1, 2]]), reduce=reduce)
    attr = line_graph.arc_attr(torch.tensor([1, 3, -5], dtype=dtype))
    assert dict(zip(pairs(line_graph.arcs), attr.tolist(), strict=True)) == {(0, 1): merged, (1, 0): merged, (1, 2): -5, (2, 1): -5}
    assert attr.dtype == dtype or reduce == "mean"


def test_attributes_keep_their_orientation_where_both_are_listed_and_their_gradient():
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 1, 1], [1, 0, 2]]))
    edge_attr = torch.tensor([[1.0, 10.0], [-1.0, 20.0], [3.0, 30.0]], requires_grad=True)
    attr = line_graph.arc_attr(edge_attr)
    expected = {(0, 1): [1, 10], (1, 0): [-1, 20], (1, 2): [3, 30], (2, 1): [3, 30]}
    assert dict(zip(pairs(line_graph.arcs), attr.tolist(), strict=True)) == expected
    assert torch.autograd.grad(attr.sum(), edge_attr)[0].tolist() == [[1, 1], [1, 1], [2, 2]]


@pytest.mark.parametrize("device", DEVICES)
def test_it_lives_where_its_input_lives_and_moves_on_demand(device):
    here = EulerianLineGraph.from_edge_index(clique(4)[0].to(device))
    tensors = [here.transitions(), here.block_vertices, *itertools.chain(*here.compressed(here.max_degree)), here.to_edge_index()]
    assert {t.device.type for t in tensors} == {here.device.type} == {device}
    assert here.to("cpu").device.type == "cpu"
    assert equal(here.to("cpu"), EulerianLineGraph.from_edge_index(clique(4)[0]))


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        (torch.zeros(3, 2, dtype=torch.long), r"'edge_index' must have shape \[2, num_edges\] \(got \[3, 2\]\)"),
        (torch.zeros(2, 1), r"'edge_index' must hold integers of type torch.long \(got torch.float32\)$"),
        (torch.zeros(2, 1).int(), r"'edge_index' must hold integers of type torch.long \(got torch.int32\); call .long\(\)"),
        ([[0], [1]], r"'edge_index' must be a tensor \(got list\); pass torch.as_tensor\(edge_index\)"),
        (np.zeros((2, 1)), r"'edge_index' must be a tensor \(got ndarray\)"),
        (torch.tensor([[0], [3]]), r"'edge_index' must name vertices from 0 to num_nodes - 1 = 2 \(got 3\)"),
        (torch.tensor([[0], [-1]]), r"'edge_index' must name vertices from 0 to num_nodes - 1 = 2 \(got -1\)"),
        (path(3)[0], r"'edge_attr' must have one row for each of the 2 edges \(got 3\)"),
    ],
)
def test_wrong_edges_and_wrong_attributes_are_refused(edge_index, message):
    with pytest.raises(ValueError, match=message):
        EulerianLineGraph.from_edge_index(edge_index, num_nodes=3).arc_attr(torch.zeros(3, 1))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_vertex_knows_the_arcs_that_begin_and_that_end_there(seed: int, directed: bool) -> None:
    line_graph = EulerianLineGraph.from_edge_index(*random_graph(seed), directed=directed)
    pointer, outgoing, incoming = line_graph.incidence
    for v in range(line_graph.num_nodes):
        own = slice(int(pointer[v]), int(pointer[v + 1]))
        assert outgoing[own].tolist() == (line_graph.arcs[0] == v).nonzero().flatten().tolist()
        assert sorted(incoming[own].tolist()) == (line_graph.arcs[1] == v).nonzero().flatten().tolist()
        assert int(line_graph.num_incoming[v]) == int(((line_graph.arcs[1] == v) & line_graph.listed).sum())
    assert int(pointer[-1]) == line_graph.num_arcs


@pytest.mark.parametrize("num_nodes", [2.0, -1, "3", torch.tensor(5.7)])
def test_a_number_of_vertices_that_is_none_is_refused(num_nodes: object) -> None:
    with pytest.raises(
        ValueError, match=rf"'num_nodes' must be an integer that is not negative \(got {re.escape(repr(num_nodes))}\)"
    ):
        EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes)


def test_numbers_may_come_from_numpy() -> None:
    assert EulerianLineGraph.from_edge_index(path(3)[0], np.int64(4)).num_nodes == 4


def test_a_way_to_merge_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"'reduce' must be one of 'mean', 'sum', .* \(got 'foo'\)"):
        EulerianLineGraph.from_edge_index(path(3)[0], reduce="foo")
    edge_attr = torch.ones(2, 1)
    for reduce in ("mean", "sum", "add", "mul", "min", "max", "any"):
        assert EulerianLineGraph.from_edge_index(path(3)[0], reduce=reduce).arc_attr(edge_attr).shape == (4, 1)


def test_what_is_built_in_inference_mode_can_be_trained_with() -> None:
    with torch.inference_mode():
        built = EulerianLineGraph.from_edge_index(clique(4)[0].clone())
        moved = built.to("cpu")
        assert not built.to("meta").arcs.is_inference()
    for line_graph in (built, moved):
        tensors = [line_graph.arcs, line_graph.reverse, line_graph.edge_arc, line_graph.listed, line_graph.arc_degree]
        assert not any(t.is_inference() for t in tensors)
        x = torch.ones(line_graph.num_arcs, requires_grad=True)
        assert torch.autograd.grad(x[line_graph.reverse].square().sum(), x)[0].tolist() == [2.0] * line_graph.num_arcs


def test_a_file_keeps_what_it_was_built_of_and_is_read_without_running_code() -> None:
    line_graph = EulerianLineGraph.from_edge_index(*random_graph(0), directed=True)
    line_graph.compressed(9)
    file = io.BytesIO()
    torch.save(line_graph, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert vars(loaded).keys() == {field.name for field in fields(EulerianLineGraph)} < vars(line_graph).keys()
    for name, value in vars(loaded).items():
        own = getattr(line_graph, name)
        assert torch.equal(value, own) if isinstance(own, torch.Tensor) else value == own


def test_what_is_derived_while_a_model_is_exported_is_not_kept() -> None:
    line_graph = EulerianLineGraph.from_edge_index(*random_graph(0))

    class Degrees(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * line_graph.arc_degree

    x = torch.ones(line_graph.num_arcs)
    program = torch.export.export(Degrees(), (x,)).module()
    assert "arc_degree" not in vars(line_graph)
    assert torch.equal(program(2 * x), 2.0 * line_graph.arc_degree)
    assert line_graph.arc_degree is line_graph.arc_degree


def test_it_goes_through_the_trees_of_torch():
    line_graph = EulerianLineGraph.from_edge_index(path(3)[0])
    x = torch.rand(4, 3, 2)
    found = torch.vmap(lambda x, line_graph: x[line_graph.arcs[0]], in_dims=(0, None))(x, line_graph)
    assert found.equal(x[:, line_graph.arcs[0]])


def test_a_graph_that_says_itself_of_which_parts_it_consists_keeps_its_line_graph() -> None:
    data = Data(edge_index=torch.tensor([[0, 2, 3], [1, 3, 4]]), num_nodes=5, batch=torch.tensor([0, 0, 1, 1, 1]))
    found = EulerianLineGraph.from_data(AddLineGraph()(data))
    expected = EulerianLineGraph.from_edge_index(data.edge_index, 5)
    assert torch.equal(found.arcs, expected.arcs)
    assert torch.equal(found.reverse, expected.reverse)
    assert torch.equal(found.edge_arc, expected.edge_arc)


def test_vertices_whose_pairs_cannot_be_numbered_are_refused():
    with pytest.raises(
        ValueError, match=r"'num_nodes' must be at most 3,037,000,499 \(got 4,000,000,001\); number the vertices that"
    ):
        EulerianLineGraph.from_edge_index(torch.tensor([[0], [4_000_000_000]]))
