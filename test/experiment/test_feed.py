from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.datasets import fake_dataset
from gump.datasets.dataset import Dataset
from gump.experiment.feed import GraphFeed, LinkFeed, NodeFeed, join_single
from gump.experiment.protocol import Links, Official, Split
from gump.experiment.store import GraphStore

CPU = torch.device("cpu")


def shuffle(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(num_graphs: int) -> GraphStore:
    """Graphs that carry their number."""
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return GraphStore([Data(x=torch.full((3, 1), i), edge_index=ring, y=torch.tensor([i])) for i in range(num_graphs)])


def graph_feed(num_train: int, batch_size: int, **kwargs: Any) -> GraphFeed:
    parts = torch.arange(num_train + 5).split([num_train, 2, 3])
    return GraphFeed(numbered(num_train + 5), Split(*parts), batch_size, **kwargs)


@pytest.mark.parametrize(
    ("num_train", "batch_size", "sizes"),
    [(8, 4, [4, 4]), (9, 4, [4, 5]), (10, 4, [4, 4, 2]), (3, 1, [1, 1, 1]), (1, 4, [1]), (3, 64, [3]), (4, 3, [4])],
)
def test_every_graph_comes_once_and_a_last_batch_of_one_joins(num_train: int, batch_size: int, sizes: list[int]) -> None:
    batches = list(graph_feed(num_train, batch_size).train_batches(shuffle()))
    assert [batch.num_graphs for batch in batches] == sizes
    assert torch.cat([batch.y for batch in batches]).sort().values.tolist() == list(range(num_train))


def test_batches_of_several_replicas_join_as_those_of_one_do() -> None:
    order = torch.arange(10).view(2, 5)
    assert [chunk.tolist() for chunk in join_single(order.split(2, dim=1), 2)] == [[[0, 1], [5, 6]], [[2, 3, 4], [7, 8, 9]]]


def test_the_order_is_that_of_the_generator() -> None:
    feed = graph_feed(20, 20)
    orders = [next(feed.train_batches(shuffle(seed))).y.tolist() for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_an_epoch_may_go_through_the_training_set_several_times_in_new_orders() -> None:
    first, second = graph_feed(6, 6, repeats=2).train_batches(shuffle())
    assert sorted(first.y.tolist()) == sorted(second.y.tolist()) == list(range(6))
    assert first.y.tolist() != second.y.tolist()


def test_processes_share_every_training_batch_and_none_is_left_without() -> None:
    whole = [batch.y.tolist() for batch in graph_feed(9, 4).train_batches(shuffle())]
    shards = [[batch.y.tolist() for batch in graph_feed(9, 4, shard=(rank, 2)).train_batches(shuffle())] for rank in (0, 1)]
    assert [sorted(a + b) for a, b in zip(*shards, strict=True)] == [sorted(batch) for batch in whole]
    assert min(len(batch) for shard in shards for batch in shard) >= 1
    assert [len(list(graph_feed(1, 4, shard=(rank, 2)).train_batches(shuffle()))) for rank in (0, 1)] == [0, 0]


def test_evaluation_goes_through_a_part_in_order() -> None:
    feed = graph_feed(4, 2, evaluated_at_once=2)
    assert [batch.y.tolist() for batch in feed.batches("test")] == [[6, 7], [8]]
    assert feed.test_index.tolist() == [6, 7, 8]


def test_answers_at_a_source_are_read_there() -> None:
    data = fake_dataset("source", num_graphs=10)
    for graph in data:
        graph.source_index = torch.tensor([2])
    feed = GraphFeed(GraphStore(data.graphs), Official().split(data, 0), 4, "source")
    for batch in feed.train_batches(shuffle()):
        assert batch.answer_index.tolist() == (batch.ptr[:-1] + 2).tolist()
        assert batch.answer_index.numel() == batch.y.numel()


def test_vertices_of_each_part_are_asked_about_on_the_whole_graph() -> None:
    data = fake_dataset("node")
    split = Official().split(data, 0)
    feed = NodeFeed(data[0], split, CPU)
    [train] = feed.train_batches(shuffle())
    for part, batch in [("train", train), *((part, next(iter(feed.batches(part)))) for part in ("val", "test"))]:
        index = getattr(split, part)
        assert batch.answer_index.equal(index)
        assert batch.y.equal(data[0].y[index])
        assert batch.edge_index.equal(data[0].edge_index)
    assert data[0].y.numel() == data[0].num_nodes


def codes(pairs: Tensor) -> set[tuple[int, int]]:
    """Pairs without their order."""
    return {(min(u, v), max(u, v)) for u, v in pairs.t().tolist()}


def link_feed(seed: int = 0, index: int = 0, line_graph: bool = False) -> tuple[Dataset, LinkFeed]:
    data = fake_dataset("link", num_graphs=12, seed=seed)
    return data, LinkFeed(data, Links().split(data, index), 7, line_graph, CPU)


@pytest.mark.parametrize("index", range(3))
def test_no_link_that_is_asked_about_is_a_message_in_either_direction(index: int) -> None:
    data, feed = link_feed(index=index)
    batches = {"train": next(feed.train_batches(shuffle())), **{part: next(iter(feed.batches(part))) for part in ("val", "test")}}
    asked = {part: codes(batch.edge_label_index[:, batch.y == 1]) for part, batch in batches.items()}
    message = codes(feed.data.edge_index)
    assert all(codes(batch.edge_index) == message for batch in batches.values())
    sets = [message, *asked.values()]
    assert sum(map(len, sets)) == len(set.union(*sets))  # they share none
    assert set.union(*sets) == codes(data[0].edge_index)
    assert min(map(len, sets)) > 0
    arcs = feed.data.edge_index.t().tolist()
    assert all([v, u] in arcs for u, v in arcs)
    assert len(arcs) == 2 * len(message)


def test_the_line_graph_is_that_of_the_messages() -> None:
    _, feed = link_feed(line_graph=True)
    line_graph = EulerianLineGraph.from_data(next(feed.train_batches(shuffle())))
    assert codes(line_graph.arcs) == codes(feed.data.edge_index)


@pytest.mark.parametrize("index", range(3))
def test_negatives_are_never_links_and_as_many_as_links(index: int) -> None:
    data, feed = link_feed(index=index)
    links = codes(data[0].edge_index)
    for batch in (next(feed.train_batches(shuffle(index))), next(iter(feed.batches("val"))), next(iter(feed.batches("test")))):
        negative = batch.edge_label_index[:, batch.y == 0]
        assert negative.size(1) == int(batch.y.sum())
        assert not codes(negative) & links
        assert len(codes(negative)) == negative.size(1)
        assert bool((negative[0] != negative[1]).all())


def test_no_pair_is_asked_about_in_two_parts() -> None:
    _, feed = link_feed()
    val, test = (codes(next(iter(feed.batches(part))).edge_label_index) for part in ("val", "test"))
    drawn = set.union(*(codes(next(feed.train_batches(shuffle(seed))).edge_label_index) for seed in range(100)))
    assert not val & test
    assert not drawn & (val | test)


def test_negatives_are_new_for_every_epoch_and_fixed_for_evaluation() -> None:
    _, feed = link_feed()
    draws = [codes(next(feed.train_batches(shuffle(seed))).edge_label_index) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    assert codes(next(iter(feed.batches("val"))).edge_label_index) == codes(
        next(iter(link_feed()[1].batches("val"))).edge_label_index
    )


def test_every_pair_that_the_test_asks_about_has_a_number_of_its_own() -> None:
    data = fake_dataset("link", num_nodes=60)
    feed = LinkFeed(data, Links().split(data, 0), 0, False, CPU)
    (asked,) = feed.batches("test")
    n, numbers = data[0].num_nodes, feed.test_index
    assert torch.stack([numbers // n, numbers % n]).equal(asked.edge_label_index)
    assert numbers.numel() == asked.y.numel() == numbers.unique().numel()
    assert (asked.edge_label_index[0] < asked.edge_label_index[1]).all()


def test_negatives_of_a_small_graph_are_drawn_evenly() -> None:
    n = 8
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    data = Dataset("ring", [Data(x=torch.ones(n, 1), edge_index=ring)], "binary", 1, "link")
    feed = LinkFeed(data, Split(torch.tensor([0, 1, 2, 3]), torch.tensor([4]), torch.tensor([5])), 0, False, CPU)
    asked = set.union(*(codes(batch.edge_label_index) for part in ("val", "test") for batch in feed.batches(part)))
    free = {(u, v) for u in range(n) for v in range(u + 1, n) if (v - u) % n not in (1, n - 1)} - asked
    counts = dict.fromkeys(free, 0)
    for seed in range(1000):
        for pair in codes(feed._no_links(4, shuffle(seed))):
            counts[pair] += 1
    assert len(counts) == 18
    assert sum(counts.values()) == 4000
    assert min(counts.values()) > 170  # of 222, with a standard deviation of about 13
    assert max(counts.values()) < 275


def test_a_graph_too_dense_for_negatives_is_refused() -> None:
    n = 6
    clique = torch.combinations(torch.arange(n)).t()[:, :-2]
    data = Dataset("dense", [Data(x=torch.ones(n, 1), edge_index=clique)], "binary", 1, "link")
    with pytest.raises(ValueError, match=r"the graph is too dense to draw 2 pairs that are no links \(it has 2 left\)"):
        LinkFeed(data, Split(torch.arange(2), torch.arange(2, 4), torch.arange(4, 6)), 0, False, CPU)


def test_an_epoch_may_go_several_times_through_vertices_and_links_with_new_pairs_each_time() -> None:
    data = fake_dataset("node")
    index = torch.arange(6)
    vertices = NodeFeed(data[0], Split(index[:2], index[2:4], index[4:]), CPU, repeats=3)
    assert [batch.y.tolist() for batch in vertices.train_batches(torch.Generator())] == [data[0].y[:2].tolist()] * 3
    data = fake_dataset("link", num_graphs=12)
    links = LinkFeed(data, Links().split(data, 0), 7, False, CPU, repeats=2)
    first, second = links.train_batches(torch.Generator().manual_seed(0))
    half = first.y.numel() // 2
    assert torch.equal(first.edge_label_index[:, :half], second.edge_label_index[:, :half])
    assert not torch.equal(first.edge_label_index[:, half:], second.edge_label_index[:, half:])
