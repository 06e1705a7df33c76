import pytest
import torch
from graphs import SYMMETRIC, random_graph, star

from gump import EulerianLineGraph
from gump.kernels import LAUNCHED
from gump.kernels.neighbor_sum import MANY, neighbor_sum

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = {
    **SYMMETRIC,
    "random": random_graph(0),  # with self-loops and isolated vertices
    "many": random_graph(1, 60, 400),
    "hub": star(MANY + 1),
    "larger hub": star(150),
    "no edges": (torch.empty(2, 0, dtype=torch.long), 3),
    "nothing": (torch.empty(2, 0, dtype=torch.long), 0),
}


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def line_graph_of(name: str) -> tuple[EulerianLineGraph, tuple[tuple[int, int], ...]]:
    edge_index, num_nodes = GRAPHS[name]
    line_graph = EulerianLineGraph.from_edge_index(edge_index.to(DEVICE), num_nodes)
    return line_graph, tuple(line_graph.block_sizes.items())


def by_hand(x: torch.Tensor, arcs: torch.Tensor, scale: torch.Tensor | None, own: torch.Tensor | None) -> torch.Tensor:
    matrix = x.new_zeros(len(x), len(x)).index_put(tuple(arcs), x.new_ones(()), accumulate=True)
    matrix = matrix if own is None else matrix + own.to(x).diag()
    return (matrix if scale is None else scale.to(x).diag() @ matrix @ scale.to(x).diag()) @ x


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("width", [1, 5, 64, 100])
@pytest.mark.parametrize("name", GRAPHS)
def test_vertices_get_what_a_dense_matrix_gives_them_and_so_do_gradients(name: str, width: int, scaled: bool, own: bool) -> None:
    line_graph, sizes = line_graph_of(name)
    x = normal(line_graph.num_nodes, width).requires_grad_()
    scale = normal(line_graph.num_nodes, seed=1) if scaled else None
    diagonal = normal(line_graph.num_nodes, seed=2) if own else None
    out = neighbor_sum(x, line_graph.arcs, sizes, scale, diagonal)
    expected = by_hand(x.double(), line_graph.arcs, scale, diagonal)
    torch.testing.assert_close(out.double(), expected, atol=2e-5, rtol=2e-5)
    along = normal(*out.shape, seed=3)
    (ours,), (theirs,) = torch.autograd.grad(out, x, along), torch.autograd.grad(expected, x, along.double())
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=2e-5)


def test_one_number_that_is_none_spoils_its_neighbors_alone() -> None:
    line_graph, sizes = line_graph_of("grid")
    x = normal(9, 3)
    x[0] = torch.nan
    spoiled = neighbor_sum(x, line_graph.arcs, sizes).isnan().any(1)
    assert spoiled.nonzero().flatten().tolist() == [1, 3]


def test_padding_with_loops_of_its_own_gets_its_own() -> None:
    arcs = torch.tensor([[0, 1, 2, 2], [1, 0, 2, 2]], device=DEVICE)  # an edge, and a vertex of padding with two arcs
    x = torch.tensor([[1.0], [2.0], [5.0]], device=DEVICE)
    assert neighbor_sum(x, arcs, ((1, 2), (2, 1))).flatten().tolist() == [2, 1, 10]


@pytest.mark.parametrize("shared", [False, True])
def test_replicas_side_by_side_equal_each_alone(shared: bool) -> None:
    line_graph, sizes = line_graph_of("random")
    label = torch.stack([torch.randperm(line_graph.num_nodes, generator=torch.Generator().manual_seed(r)) for r in range(3)])
    arcs = line_graph.arcs.expand(3, -1, -1) if shared else label.to(DEVICE)[:, line_graph.arcs]
    x, scale, own = normal(3, line_graph.num_nodes, 5).requires_grad_(), normal(line_graph.num_nodes, seed=1), normal(3, 1, seed=2)

    def run(x: torch.Tensor, arcs: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        return neighbor_sum(x, arcs, sizes, scale, own.expand(line_graph.num_nodes))

    out = torch.vmap(run)(x, arcs, own)
    out.pow(3).sum().backward()
    for r in range(3):
        alone = x[r].detach().requires_grad_()
        expected = by_hand(alone, arcs[r], scale, own[r].expand(line_graph.num_nodes))
        expected.pow(3).sum().backward()
        torch.testing.assert_close(out[r], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(x.grad[r], alone.grad, atol=1e-3, rtol=1e-4)


def test_it_can_be_differentiated_twice_and_under_the_transforms_of_torch() -> None:
    line_graph, sizes = line_graph_of("random")
    x = normal(line_graph.num_nodes, 2).requires_grad_()
    hessians = [
        torch.autograd.functional.hessian(lambda x, f=f: f(x).pow(3).sum(), x)
        for f in (lambda x: neighbor_sum(x, line_graph.arcs, sizes), lambda x: by_hand(x, line_graph.arcs, None, None))
    ]
    torch.testing.assert_close(*hessians, atol=1e-3, rtol=1e-4)
    jacobian = torch.func.jacrev(lambda x: neighbor_sum(x, line_graph.arcs, sizes)[:, 0])(x.detach())[..., 0]
    matrix = by_hand(torch.eye(line_graph.num_nodes, device=DEVICE), line_graph.arcs, None, None)
    assert torch.equal(jacobian, matrix)


def test_a_gradient_may_be_a_view_with_any_strides() -> None:
    line_graph, sizes = line_graph_of("grid")
    x = normal(9, 4).requires_grad_()
    (ours,) = torch.autograd.grad(neighbor_sum(x, line_graph.arcs, sizes).sum(), x)
    degree = line_graph.arcs[0].bincount(minlength=9)
    torch.testing.assert_close(ours, degree.float().unsqueeze(1).expand(-1, 4))


def test_kernels_that_ran_can_be_named() -> None:
    line_graph, sizes = line_graph_of("ring")
    LAUNCHED.clear()
    neighbor_sum(normal(6, 2), line_graph.arcs, sizes)
    assert {"neighbor_sum"} == LAUNCHED
