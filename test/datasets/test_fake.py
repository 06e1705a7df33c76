import itertools

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import global_mean_pool
from torch_geometric.utils import coalesce, is_undirected

from gump.datasets import LEVELS, TASKS, Dataset, fake_dataset

QUESTIONS = [(level, task) for level, task in itertools.product(LEVELS, TASKS) if level != "link" or task == "binary"]


def rows(dataset: Dataset) -> tuple[Tensor, Tensor]:
    """A row of features and an answer for each thing that is asked about."""
    batch = Batch.from_data_list(list(dataset))
    x = batch.x.float()
    if dataset.level in ("graph", "source"):
        x = global_mean_pool(x, batch.batch)
    y = batch.y if dataset.task != "multiclass" else torch.nn.functional.one_hot(batch.y, dataset.num_targets)
    return x, y.float()


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize(("level", "task"), QUESTIONS)
def test_has_the_shapes_of_its_question(level: str, task: str, categorical: bool) -> None:
    dataset = fake_dataset(level, task, categorical=categorical, edge_features=True)
    assert (dataset.level, dataset.task) == (level, task)
    assert dataset.num_targets == (1 if task == "binary" else 3)
    assert len(dataset) == (1 if level in ("node", "link") else 32)
    for graph in dataset:
        answers = graph.num_nodes if level == "node" else 1
        assert is_undirected(graph.edge_index, graph.edge_attr)
        assert coalesce(graph.edge_index).size(1) == graph.num_edges
        assert not graph.has_self_loops()
        assert not graph.has_isolated_nodes()
        assert ("source_index" in graph) == (level == "source")
        if level == "link":
            assert "y" not in graph
        else:
            assert graph.y.shape == ((answers,) if task == "multiclass" else (answers, dataset.num_targets))
            assert graph.y.dtype == (torch.long if task == "multiclass" else torch.float)
        if categorical:
            assert len(dataset.x_sizes) == dataset.num_features
            assert len(dataset.edge_sizes) == dataset.num_edge_features
            assert (graph.x >= 0).all()
            assert (graph.x < torch.tensor(dataset.x_sizes)).all()
            assert (graph.edge_attr < torch.tensor(dataset.edge_sizes)).all()
        else:
            assert dataset.x_sizes == dataset.edge_sizes == ()
            assert graph.x.is_floating_point()


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize(("level", "task"), [q for q in QUESTIONS if q[0] != "link"])
def test_can_be_learned(level: str, task: str, categorical: bool) -> None:
    """A linear fit to the training part leaves far less of the test part unexplained than the mean does."""
    dataset = fake_dataset(level, task, num_graphs=100, categorical=categorical)
    x, y = rows(dataset)
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    train, test = dataset.split["train"], dataset.split["test"]
    weight = torch.linalg.lstsq(x[train], y[train]).solution
    error = (x[test] @ weight - y[test]).square().mean()
    assert error < 0.75 * (y[train].mean(dim=0) - y[test]).square().mean()


def test_links_prefer_equals() -> None:
    (graph,) = fake_dataset("link", "binary")
    kind = graph.x[:, :3].argmax(dim=1)
    same = kind[graph.edge_index[0]] == kind[graph.edge_index[1]]
    assert same.float().mean() > 0.45  # features are noisy; a third by chance


@pytest.mark.parametrize(("level", "task"), QUESTIONS)
def test_split_shares_everything_among_three(level: str, task: str) -> None:
    dataset = fake_dataset(level, task)
    if level == "link":
        assert dataset.split is None
    else:
        index = torch.cat(list(dataset.split.values()))
        assert index.sort().values.equal(torch.arange(32 * 8 if level == "node" else 32))


@pytest.mark.parametrize("task", ["binary", "multilabel", "regression"])
def test_labels_and_numbers_can_be_missing(task: str) -> None:
    y = torch.cat([graph.y for graph in fake_dataset(task=task, missing=0.3, num_graphs=200)])
    assert 0.2 < y.isnan().float().mean() < 0.4
    assert not torch.cat([graph.y for graph in fake_dataset(task=task)]).isnan().any()


def test_seed_decides_and_global_state_does_not() -> None:
    state = torch.get_rng_state()
    first = fake_dataset(seed=1)
    assert torch.get_rng_state().equal(state)
    torch.rand(1)
    assert all(a.x.equal(b.x) and a.edge_index.equal(b.edge_index) for a, b in zip(first, fake_dataset(seed=1), strict=True))
    assert not first[0].x.equal(fake_dataset(seed=2)[0].x)


def test_sizes() -> None:
    sizes = {graph.num_nodes for graph in fake_dataset(num_graphs=100, num_nodes=10)}
    assert sizes == {8, 9, 10, 11, 12}
    assert fake_dataset(num_targets=5).num_targets == 5
    assert fake_dataset("node", num_graphs=10, num_nodes=6)[0].num_nodes == 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "edge"}, r"'level' must be one of .* \(got 'edge' and 'multiclass'\)"),
        ({"task": "guess"}, r"'level' must be one of .* \(got 'graph' and 'guess'\)"),
        ({"num_graphs": 4}, r"'num_graphs' and 'num_nodes' must be at least 5 \(got 4 and 8\)"),
        ({"num_nodes": 2}, r"'num_graphs' and 'num_nodes' must be at least 5 \(got 32 and 2\)"),
        ({"num_targets": 1}, r"'num_targets' must be at least 2 for task 'multiclass', and 1 for 'binary' \(got 1\)"),
        ({"task": "binary", "num_targets": 2}, r"and 1 for 'binary' \(got 2\)"),
    ],
)
def test_refuses(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fake_dataset(**settings)
