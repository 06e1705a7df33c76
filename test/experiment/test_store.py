import pytest
import torch
from graphs import random_graph
from torch import Tensor
from torch_geometric.data import Batch, Data

from gump import EulerianLineGraph
from gump.experiment.store import GraphStore, TransformedStore
from gump.transforms import AddLineGraph


def graph(seed: int, num_nodes: int) -> Data:
    edge_index, num_nodes = random_graph(seed, num_nodes, 2 * num_nodes)
    data = Data(x=torch.randn(num_nodes, 3), edge_index=edge_index, edge_attr=torch.randn(edge_index.size(1), 2))
    data.y, data.source_index, data.distance = torch.tensor([seed]), torch.tensor([seed % num_nodes]), seed
    return AddLineGraph()(data)


GRAPHS = [graph(seed, 4 + seed) for seed in range(6)]


@pytest.mark.parametrize("index", [[0], [3, 1, 4], [5, 5, 0], list(range(6))])
@pytest.mark.parametrize("store", [GraphStore, TransformedStore])
def test_a_batch_equals_what_pyg_collates(store: type[GraphStore | TransformedStore], index: list[int]) -> None:
    batch, expected = store(GRAPHS).batch(torch.tensor(index)), Batch.from_data_list([GRAPHS[i] for i in index])
    assert len(store(GRAPHS)) == len(GRAPHS)
    assert set(batch.keys()) - {"num_nodes"} == set(expected.keys())
    for key, value in expected:
        assert torch.equal(batch[key], value), key
    assert (batch.num_nodes, batch.num_graphs) == (expected.num_nodes, expected.num_graphs)


def test_line_graphs_of_a_batch_are_those_that_pyg_collates() -> None:
    ours = EulerianLineGraph.from_data(GraphStore(GRAPHS).batch(torch.tensor([2, 0])))
    theirs = EulerianLineGraph.from_data(Batch.from_data_list([GRAPHS[2], GRAPHS[0]]))
    assert torch.equal(ours.arcs, theirs.arcs)
    assert torch.equal(ours.reverse, theirs.reverse)


def test_graphs_without_edges_and_with_one_vertex_are_kept() -> None:
    lonely = Data(x=torch.ones(1, 3), edge_index=torch.empty(2, 0, dtype=torch.long))
    edge = Data(x=torch.zeros(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]))
    batch = GraphStore([lonely, edge]).batch(torch.tensor([0, 1, 0]))
    assert batch.batch.tolist() == [0, 1, 1, 2]
    assert batch.edge_index.tolist() == [[1, 2], [2, 1]]


def test_an_attribute_that_counts_something_else_than_vertices_is_refused() -> None:
    class Odd(Data):
        def __inc__(self, key: str, value: Tensor, *args: object) -> int:
            return 7 if key == "odd_index" else super().__inc__(key, value, *args)

    with pytest.raises(ValueError, match="'odd_index' must be shifted by the number of vertices or not at all"):
        GraphStore([Odd(x=torch.ones(2, 1), odd_index=torch.tensor([0]))])
    with pytest.raises(ValueError, match="'graphs' must not be empty"):
        GraphStore([])
