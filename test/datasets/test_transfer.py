import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import is_undirected

from gump.datasets import TRANSFER_TASKS, load_transfer, transfer_task

SIZES = [4, 6, 8, 10, 28]


def edges(data: Data) -> set[tuple[int, ...]]:
    return {(u, v) for u, v in data.edge_index.t().tolist() if u < v}


def test_ring_by_hand() -> None:
    data = transfer_task("Ring", 4, num_classes=3)[1]
    assert edges(data) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert data.x.tolist() == [[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 1, 1]]
    assert (data.y.item(), data.source_index.item(), data.target_index.item(), data.distance) == (1, 0, 2, 2)


def test_crossed_ring_by_hand() -> None:
    data = transfer_task("CrossedRing", 8)[0]
    assert edges(data) - edges(transfer_task("Ring", 8)[0]) == {(1, 6), (2, 5), (2, 7), (3, 6)}


def test_clique_path_by_hand() -> None:
    data = transfer_task("CliquePath", 6)[0]
    assert edges(data) == {(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5)}
    assert (data.target_index.item(), data.distance) == (5, 4)


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("name", TRANSFER_TASKS)
def test_distance_is_the_number_of_hops(name: str, num_nodes: int) -> None:
    data = transfer_task(name, num_nodes)[0]
    graph = nx.Graph(data.edge_index.t().tolist())
    assert data.num_nodes == graph.number_of_nodes() == num_nodes
    assert data.distance == nx.shortest_path_length(graph, data.source_index.item(), data.target_index.item())


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("name", TRANSFER_TASKS)
def test_edges_are_listed_once_in_each_orientation(name: str, num_nodes: int) -> None:
    data = transfer_task(name, num_nodes)[0]
    assert is_undirected(data.edge_index)
    assert data.edge_index.unique(dim=1).size(1) == data.num_edges
    assert not data.has_self_loops()


@pytest.mark.parametrize("name", TRANSFER_TASKS)
def test_published_graphs_differ_only_in_the_label(name: str) -> None:
    graphs = transfer_task(name, 8, num_graphs=10)
    assert [data.y.item() for data in graphs] == [0, 1, 2, 3, 4] * 2
    for data in graphs:
        rest = data.x.clone()
        rest[data.target_index] = 1
        assert data.x[data.target_index].argmax() == data.y
        assert rest[0].eq(0).all()
        assert rest[1:].eq(1).all()


def test_random_features_leave_source_and_target_alone() -> None:
    plain, random = transfer_task("Ring", 8, num_graphs=10), transfer_task("Ring", 8, num_graphs=10, random_features=True)
    for a, b in zip(plain, random, strict=True):
        assert a.x[[0, 4]].equal(b.x[[0, 4]])
    assert len({tuple(data.x[1].tolist()) for data in random}) == 10


def test_seed_decides_and_global_state_does_not() -> None:
    def draw(seed: int) -> torch.Tensor:
        return torch.stack([data.x for data in transfer_task("Ring", 8, random_features=True, seed=seed)])

    state = torch.get_rng_state()
    first = draw(1)
    assert torch.get_rng_state().equal(state)
    torch.rand(1)
    assert draw(1).equal(first)
    assert not draw(2).equal(first)


def test_batch_shifts_source_and_target() -> None:
    batch = Batch.from_data_list(transfer_task("Ring", 6, num_classes=3))
    assert batch.source_index.tolist() == [0, 6, 12]
    assert batch.x[batch.target_index].equal(torch.eye(3))
    assert batch.distance.tolist() == [3, 3, 3]


def test_graphs_share_no_memory() -> None:
    first, second = transfer_task("Ring", 6, num_graphs=2)
    first.edge_index.zero_()
    assert second.edge_index.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ring", 8), r"'name' must be one of 'Ring', 'CrossedRing', 'CliquePath' \(got 'ring'\)"),
        (("Ring", 7), r"'num_nodes' must be even and at least 4 \(got 7\)"),
        (("Ring", 2), r"'num_nodes' must be even and at least 4 \(got 2\)"),
        (("Ring", 8, 1), r"'num_classes' must be at least 2 \(got 1\)"),
        (("Ring", 8, 5, 0), r"'num_graphs' must be at least 1 \(got 0\)"),
    ],
)
def test_refuses(arguments: tuple[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transfer_task(*arguments)


def test_published_split_is_the_same_graphs_three_times() -> None:
    dataset = load_transfer("CrossedRing", 10)
    assert repr(dataset) == "Dataset('CrossedRing-10', 5 graphs, multiclass of sources, num_targets=5)"
    assert all(index.tolist() == [0, 1, 2, 3, 4] for index in dataset.split.values())
    assert dataset.split.keys() == {"train", "val", "test"}
    assert all(a.x.equal(b.x) for a, b in zip(dataset, transfer_task("CrossedRing", 10), strict=True))


def test_random_split_shares_no_graph() -> None:
    dataset = load_transfer("Ring", 6, random_features=True)
    assert [len(dataset.split[part]) for part in ("train", "val", "test")] == [1000, 200, 200]
    assert torch.cat(list(dataset.split.values())).unique().numel() == len(dataset) == 1400
    assert len({graph.x.numpy().tobytes() for graph in dataset}) == 1400
    y = torch.cat([graph.y for graph in dataset])
    for index in dataset.split.values():
        assert y[index].bincount().unique().numel() == 1  # every class equally often


def test_random_split_of_other_sizes() -> None:
    dataset = load_transfer("Ring", 6, num_graphs=10, random_features=True, seed=3)
    assert [len(dataset.split[part]) for part in ("train", "val", "test")] == [8, 1, 1]
    assert dataset[0].x.equal(transfer_task("Ring", 6, num_graphs=1, random_features=True, seed=3)[0].x)
    with pytest.raises(ValueError, match=r"'num_graphs' must be at least 7 to be split with random features \(got 6\)"):
        load_transfer("Ring", 6, num_graphs=6, random_features=True)
    with pytest.raises(ValueError, match="'name' must be one of"):
        load_transfer("ring", 6)
