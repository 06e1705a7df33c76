import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gump.datasets import Dataset


def graphs() -> list[Data]:
    return [Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([i])) for i in range(3)]


def test_reads_like_a_list() -> None:
    dataset = Dataset("toy", graphs(), "multiclass", 3)
    assert len(dataset) == 3
    assert dataset[1].y.item() == 1
    assert [graph.y.item() for graph in dataset[1:]] == [1, 2]
    assert [graph.y.item() for graph in dataset] == [0, 1, 2]
    assert next(iter(DataLoader(dataset, batch_size=3))).num_graphs == 3
    assert (dataset.num_features, dataset.num_edge_features) == (3, 0)


def test_refuses_unknown_questions_and_no_graphs() -> None:
    with pytest.raises(ValueError, match=r"'task' must be one of .* \(got 'guess' and 'graph'\)"):
        Dataset("toy", graphs(), "guess", 3)
    with pytest.raises(ValueError, match=r"and 'level' of .* \(got 'binary' and 'edge'\)"):
        Dataset("toy", graphs(), "binary", 1, "edge")
    with pytest.raises(ValueError, match=r"'graphs' must have a graph at least \(got none for 'toy'\)"):
        Dataset("toy", [], "binary", 1)


def test_repr() -> None:
    assert repr(Dataset("toy", graphs(), "regression", 2)) == "Dataset('toy', 3 graphs, regression of graphs, num_targets=2)"
