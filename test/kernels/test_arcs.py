import pytest
import torch
from graphs import SYMMETRIC, random_graph, star

from gump import EulerianLineGraph
from gump.kernels import LAUNCHED
from gump.kernels.arcs import collect, spread

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = {**SYMMETRIC, "random": random_graph(0), "hub": star(11), "larger": star(17), "largest": star(64)}


def line_graph_of(name: str) -> tuple[EulerianLineGraph, tuple[tuple[int, int], ...]]:
    edge_index, num_nodes = GRAPHS[name]
    line_graph = EulerianLineGraph.from_edge_index(edge_index.to(DEVICE), num_nodes)
    return line_graph, tuple(line_graph.block_sizes.items())


def rows(num: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(num, width, generator=torch.Generator().manual_seed(seed)).to(DEVICE).requires_grad_()


@pytest.mark.parametrize("width", [1, 5, 64, 100])
@pytest.mark.parametrize("name", GRAPHS)
def test_arcs_get_the_sum_of_what_their_ends_have(name: str, width: int) -> None:
    line_graph, sizes = line_graph_of(name)
    (source, target), num_nodes = line_graph.arcs, line_graph.num_nodes
    x, y = rows(num_nodes, width, 0), rows(num_nodes, width, 1)
    for first, second in ((x, y), (x, None), (None, y)):
        expected = sum(t[i] for t, i in ((first, source), (second, target)) if t is not None)
        out = spread(first, second, line_graph.arcs, line_graph.reverse, sizes)
        torch.testing.assert_close(out, expected)
        along, given = torch.randn_like(out), [t for t in (first, second) if t is not None]
        for a, b in zip(torch.autograd.grad(out, given, along), torch.autograd.grad(expected, given, along), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_vertices_get_the_sum_of_the_arcs_that_end_there(name: str) -> None:
    line_graph, sizes = line_graph_of(name)
    h = rows(line_graph.num_arcs, 6, 2)
    expected = h.new_zeros(line_graph.num_nodes, 6).index_add(0, line_graph.arcs[1], h)
    out = collect(h, line_graph.arcs, line_graph.reverse, sizes, line_graph.num_nodes)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    along = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, h, along)[0], torch.autograd.grad(expected, h, along)[0])


def test_what_padding_holds_makes_no_difference() -> None:
    arcs = torch.tensor([[0, 1, 2, 2], [1, 0, 2, 2]], device=DEVICE)  # an edge, and a vertex of padding with two arcs
    reverse, sizes = torch.tensor([1, 0, 2, 3], device=DEVICE), ((1, 2), (2, 1))
    mask = torch.tensor([True, True, False, False], device=DEVICE)
    x = torch.tensor([[1.0], [2.0], [torch.nan]], device=DEVICE, requires_grad=True)
    out = spread(x, x, arcs, reverse, sizes, mask)
    assert out.flatten().tolist() == [3, 3, 0, 0]
    out.sum().backward()
    assert x.grad.flatten().tolist() == [2, 2, 0]
    h = torch.tensor([[1.0], [2.0], [torch.nan], [torch.nan]], device=DEVICE, requires_grad=True)
    out = collect(h, arcs, reverse, sizes, 3, mask)
    assert out.flatten().tolist() == [2, 1, 0]
    out.sum().backward()
    assert h.grad.flatten().tolist() == [1, 1, 0, 0]


def test_replicas_side_by_side_equal_each_alone() -> None:
    line_graph, sizes = line_graph_of("random")
    x = torch.stack([rows(line_graph.num_nodes, 3, r) for r in range(3)]).detach().requires_grad_()

    def run(x: torch.Tensor) -> torch.Tensor:
        h = spread(x, None, line_graph.arcs, line_graph.reverse, sizes)
        return collect(h, line_graph.arcs, line_graph.reverse, sizes, line_graph.num_nodes)

    out = torch.vmap(run)(x)
    out.square().sum().backward()
    for r in range(3):
        own = x[r].detach().requires_grad_()
        alone = run(own)
        alone.square().sum().backward()
        torch.testing.assert_close(out[r], alone)
        torch.testing.assert_close(x.grad[r], own.grad)


def test_kernels_that_ran_can_be_named() -> None:
    line_graph, sizes = line_graph_of("ring")
    LAUNCHED.clear()
    x = rows(line_graph.num_nodes, 2, 0)
    collect(
        spread(x, x, line_graph.arcs, line_graph.reverse, sizes), line_graph.arcs, line_graph.reverse, sizes, line_graph.num_nodes
    )
    assert {"spread", "collect"} == LAUNCHED
