"""The propagation operator: a coin at every vertex, then the shift."""

import pytest
import torch
from graphs import SYMMETRIC, path, random_graph
from torch.autograd import gradcheck

from gump import EulerianLineGraph
from gump.linalg import polar_factor
from gump.nn import Propagation

GRAPHS = {
    **SYMMETRIC,
    "path": path(4),
    "random": random_graph(0),
    "denser": random_graph(1, num_nodes=6, num_edges=20),
    "small": random_graph(0, 5, 6),
}
PATHS = pytest.mark.parametrize("sparse", [False, True] if torch.backends.mkl.is_available() else [False])


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def setting(name):
    """A line graph, blocks without any structure, and states."""
    line_graph = EulerianLineGraph.from_edge_index(*GRAPHS[name])
    blocks = [normal(g.num_blocks, g.degree, g.degree, seed=g.degree) for g in line_graph.groups]
    return line_graph, blocks, normal(line_graph.num_arcs, 3)


def dense(line_graph, blocks):
    """Row (u, v) holds the block of v: its row is that of arc (v, u), its columns are the arcs (v, w)."""
    matrix = torch.zeros(line_graph.num_arcs, line_graph.num_arcs, dtype=torch.float64)
    arcs = line_graph.arcs.t().tolist()
    for group, members in zip(line_graph.groups, blocks, strict=True):
        for b, block in enumerate(members):
            out = range(group.first_arc + b * group.degree, group.first_arc + (b + 1) * group.degree)
            for i, arc in enumerate(out):
                for j, other in enumerate(out):
                    matrix[arcs.index(arcs[arc][::-1]), other] = block[i, j]
    return matrix


def test_on_a_path_the_middle_mixes_and_the_ends_reflect():
    line_graph = EulerianLineGraph.from_edge_index(*path(3))  # arcs (0, 1), (2, 1), (1, 0), (1, 2)
    blocks = [torch.tensor([[[5.0]], [[7.0]]]), torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])]
    expected = [[0, 0, 1, 2], [0, 0, 3, 4], [5, 0, 0, 0], [0, 7, 0, 0]]
    assert Propagation(blocks, line_graph).matrix().to_dense().tolist() == expected
    assert Propagation(blocks, line_graph)(torch.eye(4)).tolist() == expected


@PATHS
@pytest.mark.parametrize("name", GRAPHS)
def test_a_step_is_the_product_with_the_matrix(name, sparse):
    line_graph, blocks, h = setting(name)
    propagate = Propagation(blocks, line_graph, sparse)
    matrix = dense(line_graph, blocks)
    assert torch.equal(propagate.matrix().to_dense(), matrix)
    torch.testing.assert_close(propagate(h), matrix @ h)
    torch.testing.assert_close(propagate(h.t().contiguous().t()), matrix @ h)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_matrix_gathers_at_arc_uv_from_arcs_vw(name):
    line_graph, blocks, _ = setting(name)
    row, column = Propagation(blocks, line_graph).matrix().indices()
    assert row.numel() == line_graph.num_transitions
    assert torch.equal(line_graph.arcs[1, row], line_graph.arcs[0, column])


@PATHS
@pytest.mark.parametrize("name", ["path", "small", "star"])
def test_gradients_are_those_of_finite_differences(name, sparse):
    line_graph, blocks, h = setting(name)
    leaves = [t.requires_grad_() for t in (h, *blocks)]
    assert gradcheck(lambda h, *blocks: Propagation(list(blocks), line_graph, sparse)(h), leaves)


@PATHS
@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_of_many_steps_are_those_of_the_dense_product(name, sparse):
    line_graph, blocks, h = setting(name)
    leaves = [t.requires_grad_() for t in (h, *blocks)]
    propagate = Propagation(blocks, line_graph, sparse)
    ours = torch.autograd.grad(propagate(propagate(propagate(h))).sum(), leaves)
    theirs = torch.autograd.grad(torch.linalg.matrix_power(dense(line_graph, blocks), 3).mm(h).sum(), leaves)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@PATHS
@pytest.mark.parametrize("name", GRAPHS)
def test_orthogonal_blocks_preserve_the_norm(name, sparse):
    line_graph, blocks, h = setting(name)
    propagate = Propagation([polar_factor(b) for b in blocks], line_graph, sparse)
    matrix, out = propagate.matrix().to_dense(), h
    torch.testing.assert_close(matrix.t() @ matrix, torch.eye(line_graph.num_arcs, dtype=torch.float64))
    for _ in range(10):
        out = propagate(out)
    torch.testing.assert_close(out.norm(dim=0), h.norm(dim=0))


@PATHS
def test_a_graph_without_edges_stays_as_it_is(sparse):
    line_graph = EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    propagate = Propagation([], line_graph, sparse)
    assert propagate(torch.zeros(0, 4)).shape == (0, 4)
    assert propagate.matrix().to_dense().shape == (0, 0)


@PATHS
def test_under_autocast_half_precision_states_are_propagated_in_float32(sparse):
    line_graph, blocks, h = setting("random")
    with torch.autocast("cpu", torch.bfloat16):
        out = Propagation([b.float() for b in blocks], line_graph, sparse)(h.bfloat16())
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), dense(line_graph, blocks) @ h.bfloat16().double(), rtol=1e-5, atol=1e-5)
