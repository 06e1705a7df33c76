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


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (
            torch.tensor([1.0]),
            "multiclass",
            r"'y' must be whole numbers of shape \[R\], .* \(got float32 of shape \[1\] in the first graph of 'toy'\)",
        ),
        (torch.tensor([[1, 0]]), "multiclass", r"'y' must be whole numbers of shape \[R\], .* \(got int64 of shape \[1, 2\]"),
        (
            torch.tensor([True]),
            "multiclass",
            r"'y' must be whole numbers of shape \[R\], .* \(got bool of shape \[1\] .*\); call .long\(\).view\(-1\)",
        ),
        (
            torch.tensor([0.5]),
            "regression",
            r"'y' must have shape \[R, 2\], a row for each of R answers \(got float32 of shape \[1\]",
        ),
        (torch.tensor([[0.5]]), "multilabel", r"'y' must have shape \[R, 2\], .* \(got float32 of shape \[1, 1\]"),
    ],
)
def test_targets_of_another_shape_or_kind_are_refused(y: torch.Tensor, task: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset("toy", [Data(x=torch.ones(2, 3), y=y)], task, 2)


def test_repr() -> None:
    assert (
        repr(Dataset("toy", [Data(x=torch.ones(2, 3))], "regression", 2))
        == "Dataset('toy', 1 graphs, regression of graphs, num_targets=2)"
    )
