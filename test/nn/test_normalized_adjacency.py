import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from gump.nn.normalized_adjacency import normalized_adjacency, propagate, symmetric_adjacency

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)} | {"empty": (torch.empty(2, 0).long(), 3)}


def dense(index: torch.Tensor, weight: torch.Tensor, num_nodes: int) -> torch.Tensor:
    """Duplicate edges add up."""
    return to_dense_adj(index, edge_attr=weight, max_num_nodes=num_nodes)[0]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("self_loops", [False, True])
def test_it_is_the_matrix_of_pyg(name: str, weighted: bool, self_loops: bool) -> None:
    edge_index, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    weight = torch.rand(edge_index.size(1)).double() if weighted else None
    if weighted:  # PyG keeps any of several self-loops, so that they should be alike
        weight = torch.where(edge_index[0] == edge_index[1], 0.7, weight)
    result = normalized_adjacency(edge_index, weight, num_nodes, torch.double, self_loops)
    expected = gcn_norm(edge_index, weight, num_nodes, add_self_loops=self_loops, dtype=torch.double)
    torch.testing.assert_close(dense(*result, num_nodes), dense(*expected, num_nodes))


def test_a_negative_degree_has_no_root() -> None:
    edge_index, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([1.0, 1.0, -3.0, -3.0])
    expected = gcn_norm(edge_index, weight, 3)[1]
    assert expected.isnan().any()
    torch.testing.assert_close(normalized_adjacency(edge_index, weight, 3, torch.float)[1], expected, equal_nan=True)


def test_by_hand() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    index, weight = normalized_adjacency(edge_index, torch.tensor([3.0, 3.0, 1.0, 1.0, 8.0]), 3, torch.double)
    degree = torch.tensor([4.0, 5.0, 9.0]).double()
    adjacency = torch.tensor([[1.0, 3.0, 0.0], [3.0, 1.0, 1.0], [0.0, 1.0, 8.0]]).double()
    torch.testing.assert_close(dense(index, weight, 3), adjacency / (degree[:, None] * degree[None, :]).sqrt())


def test_several_self_loops_count_with_their_mean() -> None:
    edge_index = torch.tensor([[0, 0, 0, 1], [0, 0, 1, 0]])
    index, weight = normalized_adjacency(edge_index, torch.tensor([2.0, 4.0, 1.0, 1.0]), 2, torch.double)
    torch.testing.assert_close(dense(index, weight, 2)[0, 0], torch.tensor(3 / 4).double())


def test_gradients_with_respect_to_weights_are_finite_also_at_isolated_vertices() -> None:
    edge_index, num_nodes = random_graph(0)
    weight = torch.rand(edge_index.size(1), dtype=torch.double, requires_grad=True)
    for self_loops in (False, True):
        normalized_adjacency(edge_index, weight, num_nodes, torch.double, self_loops)[1].square().sum().backward()
    assert weight.grad is not None
    assert weight.grad.isfinite().all()
    assert weight.grad.abs().max() > 0


@pytest.mark.parametrize("name", GRAPHS)
def test_propagating_is_a_product_with_the_transposed_matrix(name: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    x, weight = torch.randn(num_nodes, 4).double(), torch.rand(edge_index.size(1)).double()
    for given in (weight, None):
        matrix = dense(edge_index, torch.ones_like(weight) if given is None else given, num_nodes).t()
        torch.testing.assert_close(propagate(x, edge_index, given), matrix.to(x.dtype) @ x)
    if edge_index.numel():
        inputs = x.requires_grad_(), weight.requires_grad_()
        assert torch.autograd.gradcheck(lambda h, w: propagate(h, edge_index, w), inputs)


def test_the_symmetric_matrix_is_that_without_self_loops_in_the_precision_of_the_features() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    for x in (torch.ones(3, 2), torch.ones(3, 2, dtype=torch.complex128)):
        index, weight = symmetric_adjacency(x, edge_index, None)
        assert weight.dtype == x.real.dtype
        torch.testing.assert_close(dense(index, weight, 3), torch.tensor([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).to(weight) / 2**0.5)
    with pytest.raises(ValueError, match="'edge_index' must have every edge in both directions"):
        symmetric_adjacency(torch.ones(3, 2), edge_index[:, 1:], None)
