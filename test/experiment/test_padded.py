import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.experiment.padded import Layout, PaddedStore


def graph(seed: int) -> Data:
    edge_index, num_nodes = [*SYMMETRIC.values(), random_graph(1), random_graph(2, 7, 5)][seed]
    x = torch.full((num_nodes, 1), float(seed)) + torch.arange(num_nodes).view(-1, 1) / 100
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    arcs = line_graph.to_edge_index()
    return Data(x=x, edge_index=arcs, y=torch.tensor([seed]), edge_weight=(100 * arcs[0] + arcs[1]).float())


GRAPHS = [graph(seed) for seed in range(7)]
INDEX = torch.tensor([[0, 5, 6], [3, 3, 1], [2, 4, 0]])


def names_of(batch_x: torch.Tensor, batch: torch.Tensor) -> list[tuple[int, float]]:
    """What identifies a vertex: its place in the batch and its features."""
    return [(int(b), round(float(x), 3)) for b, x in zip(batch, batch_x[:, 0], strict=True)]


@pytest.mark.parametrize("spare", [1.0, 1.7])
def test_every_replica_has_the_vertices_and_edges_of_its_graphs_and_nothing_else(spare: float) -> None:
    store = PaddedStore(GRAPHS)
    layout = store.layout(INDEX).larger(spare)
    padded = store.batch(INDEX, layout)
    for r, index in enumerate(INDEX.tolist()):
        mask = padded.mask[r]
        names = names_of(padded.x[r], padded.batch[r])
        expected = [(b, round(float(x), 3)) for b, g in enumerate(index) for x in GRAPHS[g].x[:, 0]]
        assert sorted(n for n, m in zip(names, mask.tolist(), strict=True) if m) == sorted(expected)
        source, target = padded.arcs[r]
        assert torch.equal(mask[source], mask[target])
        real = mask[source]
        ours = sorted((names[s], names[t]) for s, t in zip(source[real].tolist(), target[real].tolist(), strict=True))
        theirs = []
        for b, g in enumerate(index):
            x = [(b, round(float(v), 3)) for v in GRAPHS[g].x[:, 0]]
            theirs += [(x[s], x[t]) for s, t in GRAPHS[g].edge_index.t().tolist()]
        assert ours == sorted(theirs)
        assert padded.y[r].tolist() == index


def test_reverses_and_blocks_are_those_of_a_line_graph() -> None:
    store = PaddedStore(GRAPHS)
    padded = store.batch(INDEX, store.layout(INDEX))
    for r in range(3):
        arcs, reverse = padded.arcs[r], padded.reverse[r]
        assert torch.equal(reverse[reverse], torch.arange(reverse.numel()))
        assert torch.equal(arcs[:, reverse], arcs.flip(0))
        position = 0
        for degree, count in padded.block_sizes.items():
            sources = arcs[0, position : position + degree * count].view(count, degree)
            assert bool((sources == sources[:, :1]).all())
            position += degree * count
        assert position == arcs.size(1)


def test_what_edges_carry_follows_them() -> None:
    store = PaddedStore(GRAPHS)
    padded = store.batch(INDEX[1:2], store.layout(INDEX))
    weight, x = padded.edges["edge_weight"][0], padded.x[0, :, 0]
    real = padded.mask[0][padded.arcs[0, 0]]
    number = (100 * (x - x.floor())).round()  # features tell the number of a vertex
    source, target = padded.arcs[0]
    assert torch.equal(weight[real], (100 * number[source] + number[target])[real])


def test_padding_joins_only_itself_and_no_two_rows_of_it_are_the_same() -> None:
    store = PaddedStore(GRAPHS)
    padded = store.batch(INDEX, store.layout(INDEX, multiple=16))
    source, target = padded.arcs[0]
    pad = ~padded.mask[0][source]
    assert bool(pad.any())
    assert torch.equal(source[pad], target[pad])
    assert torch.equal(padded.reverse[0][pad], torch.arange(source.numel())[pad])
    assert bool((padded.x[0][~padded.mask[0]] == 0).all())


def test_layouts_grow_and_hold() -> None:
    small, large = Layout((0, 1, 3), (8, 0, 16)), Layout((0, 1, 3), (8, 8, 8))
    assert small.joined(large) == Layout((0, 1, 3), (8, 8, 16))
    assert small.joined(large).holds(small)
    assert not small.holds(large)
    assert small.larger(1.5).capacity == (16, 0, 24)
    assert small.block_sizes == {3: 16}
    assert small.num_nodes == 24


@pytest.mark.parametrize(
    ("columns", "got"),
    [
        ([[0, 0], [1, 1]], "2 columns, of which 1 differ, that make 2 arcs"),
        ([[0], [1]], "1 columns, of which 1 differ, that make 2 arcs"),
    ],
)
def test_edges_that_are_not_listed_once_in_either_direction_are_refused(columns: list[list[int]], got: str) -> None:
    graph = Data(x=torch.ones(2, 1), edge_index=torch.tensor(columns), y=torch.tensor([0]))
    with pytest.raises(ValueError, match=f"'--replicas' must be left out unless every edge .* .got {got}"):
        PaddedStore([graph])
