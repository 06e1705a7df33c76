import pytest
import torch
from graphs import SYMMETRIC, path, random_graph

from gump import EulerianLineGraph
from gump.datasets import transfer_task
from gump.diagnostics import origin_shares
from gump.nn import GUMP

GRAPHS = {**SYMMETRIC, "random": random_graph(1)}


def read_at(task: str, num_nodes: int, depth: int) -> torch.Tensor:
    [graph] = transfer_task(task, num_nodes, num_graphs=1)
    line_graph = EulerianLineGraph.from_edge_index(graph.edge_index, num_nodes)
    operator = GUMP(5, 8, 1, base=None, coin="grover").double().eval().propagation_matrix(graph.x.double(), graph.edge_index)
    return origin_shares(operator.detach(), line_graph, 0, depth)[:, int(graph.target_index)]


@pytest.mark.parametrize("num_nodes", [6, 8, 12, 28])
def test_behind_a_path_the_grover_walk_leaves_little_of_a_signal_at_each_vertex_of_a_clique(num_nodes: int) -> None:
    clique, steps = num_nodes // 2, num_nodes // 2 + 1
    shares = read_at("CliquePath", num_nodes, steps)
    assert shares[steps] == pytest.approx(4 / (clique**2 * (clique - 1)))
    assert (shares[:steps] == 0).all(), "nothing arrives before its time"


@pytest.mark.parametrize("num_nodes", [8, 16, 28])
def test_around_a_ring_all_that_is_read_comes_from_the_opposite_vertex(num_nodes: int) -> None:
    assert read_at("Ring", num_nodes, num_nodes // 2)[-1] == pytest.approx(1)


@pytest.mark.parametrize("coin", ["bounded", "newton_schulz"])
@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_what_a_power_of_the_matrix_gives(name: str, coin: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    operator = GUMP(3, 8, 2, coin=coin).double().eval().propagation_matrix(torch.randn(num_nodes, 3).double(), edge_index)
    line_graph, dense = EulerianLineGraph.from_edge_index(edge_index, num_nodes), operator.to_dense().detach()
    source, target = line_graph.arcs.tolist()
    vertex = source[0]
    row = torch.linalg.matrix_power(dense, 4)[[a for a, v in enumerate(target) if v == vertex]].mean(0).square()
    slow = [sum(float(row[a]) for a in range(len(source)) if u in (source[a], target[a])) for u in range(num_nodes)]
    for given in (operator.detach(), dense):
        found = origin_shares(given, line_graph, vertex, 4)
        assert torch.allclose(found[4], torch.tensor(slow).double() / row.sum())
    assert torch.equal(
        found[0] > 0,
        torch.isin(
            torch.arange(num_nodes), torch.tensor([u for u, v in zip(source, target, strict=True) if v == vertex] + [vertex])
        ),
    )


def test_in_a_directed_graph_the_arcs_that_were_in_the_input_are_read() -> None:
    edge_index = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
    line_graph = EulerianLineGraph.from_edge_index(edge_index, 4, directed=True)
    operator = GUMP(1, 2, 1, directed=True).eval().propagation_matrix(torch.ones(4, 1), edge_index).detach()
    assert origin_shares(operator, line_graph, 0, 0).tolist() == [[1, 0, 1, 0]]
    line_graph = EulerianLineGraph.from_edge_index(edge_index[:, 3:], 4, directed=True)
    with pytest.raises(ValueError, match=r"'vertex' must have an edge that ends there \(got 2, which has none\)"):
        origin_shares(torch.eye(2), line_graph, 2, 0)


def test_what_it_cannot_read_is_refused() -> None:
    edge_index, _ = path(3)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, 4)
    with pytest.raises(ValueError, match=r"'line_graph' must have the 3 arcs of 'operator' \(got 4\)"):
        origin_shares(torch.eye(3), line_graph, 0, 1)
    with pytest.raises(ValueError, match=r"'vertex' must be from 0 to 3 \(got 4\)"):
        origin_shares(torch.eye(4), line_graph, 4, 1)
    with pytest.raises(ValueError, match=r"'vertex' must have an edge that ends there \(got 3, which has none\)"):
        origin_shares(torch.eye(4), line_graph, 3, 1)
    with pytest.raises(ValueError, match=r"'depth' must not be negative \(got -1\)"):
        origin_shares(torch.eye(4), line_graph, 0, -1)
