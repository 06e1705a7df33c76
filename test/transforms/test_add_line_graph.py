"""The line graph put on a graph once, and read back from a batch."""

import pytest
import torch
from graphs import clique, path, random_graph, star
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gump import EulerianLineGraph
from gump.transforms import AddLineGraph


def graph(edge_index, num_nodes):
    edge_attr = torch.randn(edge_index.size(1), 2, generator=torch.Generator().manual_seed(num_nodes), dtype=torch.float64)
    return Data(x=torch.ones(num_nodes, 1), edge_index=edge_index, edge_attr=edge_attr)


def graphs():
    """Different sizes, no edges, isolated vertices, self-loops, duplicates with attributes of their own."""
    no_edges = torch.empty(2, 0, dtype=torch.long)
    duplicates = torch.tensor([[0, 0, 1, 2, 2], [1, 1, 0, 0, 2]])
    isolated = torch.tensor([[1, 3], [3, 4]])
    return [
        graph(*path(3)),
        graph(no_edges, 2),
        graph(duplicates, 3),
        graph(isolated, 6),
        graph(*clique(4)),
        graph(*random_graph(3)),
    ]


def described(line_graph, edge_attr):
    """Every arc with its reverse, whether it was listed, and its attributes."""
    arcs = [tuple(arc) for arc in line_graph.arcs.t().tolist()]
    rows = zip(arcs, line_graph.reverse.tolist(), line_graph.listed.tolist(), line_graph.arc_attr(edge_attr).tolist(), strict=True)
    return {arc: (arcs[reverse], listed, attr) for arc, reverse, listed, attr in rows}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 4, 6])
def test_a_batch_reads_as_the_line_graph_of_its_union(batch_size, directed):
    data_list = [AddLineGraph(directed)(data) for data in graphs()]
    for batch in DataLoader(data_list, batch_size):
        read = EulerianLineGraph.from_data(batch)
        built = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes, directed)
        assert described(read, batch.edge_attr) == described(built, batch.edge_attr)
        assert torch.equal(read.arcs, built.arcs)
        assert read.block_sizes == built.block_sizes
        assert read.num_nodes == built.num_nodes


@pytest.mark.parametrize("index", range(6))
def test_a_single_graph_needs_no_batch_and_survives_one(index):
    data = graphs()[index]
    transformed = AddLineGraph()(data)
    built = described(EulerianLineGraph.from_edge_index(data.edge_index, data.num_nodes), data.edge_attr)
    assert described(EulerianLineGraph.from_data(transformed), data.edge_attr) == built
    unbatched = Batch.from_data_list([AddLineGraph()(other) for other in graphs()])[index]
    assert described(EulerianLineGraph.from_data(unbatched), data.edge_attr) == built


def test_directed_lists_only_the_arcs_of_the_input():
    data = graph(*star(3))
    listed = {directed: int(EulerianLineGraph.from_data(AddLineGraph(directed)(data)).listed.sum()) for directed in (False, True)}
    assert listed == {False: 6, True: 3}
    assert torch.equal(EulerianLineGraph.from_data(AddLineGraph(directed=True)(data)).to_edge_index(), data.edge_index)


def test_duplicates_are_merged_as_the_reader_asks():
    data = AddLineGraph()(Data(edge_index=torch.tensor([[0, 0], [1, 1]]), num_nodes=2))
    merged = [EulerianLineGraph.from_data(data, reduce).arc_attr(torch.tensor([1.0, 3.0])).tolist() for reduce in ("mean", "max")]
    assert merged == [[2, 2], [3, 3]]


def test_the_input_is_left_alone():
    data = graphs()[2]
    before = data.clone().to_dict()
    transformed = AddLineGraph()(data).to_dict()
    assert set(data.to_dict()) == {"x", "edge_index", "edge_attr"}
    assert set(transformed) == {"x", "edge_index", "edge_attr", "arc_index", "arc_reverse", "edge_arc", "arc_directed"}
    for key, value in before.items():
        assert torch.equal(data[key], value)
        assert torch.equal(transformed[key], value)


def test_a_subclass_of_data_stays_what_it_is():
    class Molecule(Data):
        pass

    assert type(AddLineGraph()(Molecule(edge_index=path(3)[0], num_nodes=3))) is Molecule


def test_a_graph_without_the_transform_is_refused():
    with pytest.raises(ValueError, match=r"'data' must carry a line graph \(got none\); apply gump.transforms.AddLineGraph"):
        EulerianLineGraph.from_data(graphs()[0])


def test_repr_names_the_setting():
    assert repr(AddLineGraph()) == "AddLineGraph(directed=False)"
    assert repr(AddLineGraph(directed=True)) == "AddLineGraph(directed=True)"


def test_a_line_graph_of_other_edges_is_refused() -> None:
    data = AddLineGraph()(Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4))
    data.edge_index = data.edge_index[:, :2]
    with pytest.raises(ValueError, match="'data' must carry the line graph of its own edges"):
        EulerianLineGraph.from_data(data)


def test_arcs_that_a_transform_took_for_vertices_or_edges_are_refused() -> None:
    data = AddLineGraph()(Data(x=torch.randn(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]])))
    mixed_up = [data.subgraph(torch.tensor([1, 0])), data.clone(), data.clone()]
    mixed_up[1].arc_reverse = torch.tensor([0, 1])
    mixed_up[2].arc_index = data.arc_index[:1]
    path = AddLineGraph()(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
    order = torch.tensor([2, 0, 3, 1])  # in which the two arcs of the middle are apart
    place = order.argsort()
    path.arc_index, path.arc_reverse, path.edge_arc = path.arc_index[:, order], place[path.arc_reverse[order]], place[path.edge_arc]
    for wrong in [*mixed_up, path]:
        with pytest.raises(ValueError, match="'data' must carry the line graph of its own edges"):
            EulerianLineGraph.from_data(wrong)
    data.edge_index = None
    with pytest.raises(ValueError, match=r"'data' must have its edges as 'edge_index' \(got none\)"):
        EulerianLineGraph.from_data(data)


def test_in_a_batch_too() -> None:
    batch = Batch.from_data_list([AddLineGraph()(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)) for _ in range(2)])
    batch.edge_index = batch.edge_index[:, :3]
    with pytest.raises(ValueError, match="'data' must carry the line graph of its own edges"):
        EulerianLineGraph.from_data(batch)


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_line_graph_of_edges_that_are_gone_is_refused(both_ways: bool) -> None:
    edge_index = torch.tensor([[0, 1], [1, 2]])
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1) if both_ways else edge_index
    data = AddLineGraph()(Data(edge_index=edge_index, num_nodes=3))
    mask = edge_index.sum(0) == 1  # only the first edge
    with pytest.raises(ValueError, match="line graph"):
        EulerianLineGraph.from_data(data.edge_subgraph(mask))


@pytest.mark.parametrize("first", [False, True])
def test_a_batch_of_directed_and_undirected_graphs_is_refused(first: bool) -> None:
    data_list = [AddLineGraph(first)(graphs()[0]), AddLineGraph(not first)(graphs()[4])]
    batch = next(iter(DataLoader(data_list, batch_size=2)))
    with pytest.raises(
        ValueError, match=r"'data' must have line graphs of one kind \(got some with directed=True and some with False\)"
    ):
        EulerianLineGraph.from_data(batch)


@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_of_a_batch_is_as_directed_as_before(directed: bool) -> None:
    batch = Batch.from_data_list([AddLineGraph(directed)(data) for data in graphs()])
    assert all(EulerianLineGraph.from_data(batch[i]).directed == directed for i in range(6))


def test_what_was_made_in_inference_mode_can_be_trained_with() -> None:
    with torch.inference_mode():
        data = AddLineGraph()(graphs()[4])
        read = EulerianLineGraph.from_data(data)
    for line_graph in (read, EulerianLineGraph.from_data(data)):
        x = torch.ones(line_graph.num_arcs, requires_grad=True)
        (grad,) = torch.autograd.grad(x[line_graph.reverse][line_graph.edge_arc].square().sum(), x)
        assert grad.sum() == 2 * line_graph.edge_arc.numel()
