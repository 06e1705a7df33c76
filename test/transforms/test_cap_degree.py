"""Fewer edges at hubs."""

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, clique, random_graph, star
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.nn import GUMP
from gump.transforms import CapDegree


def graph(edge_index: torch.Tensor, num_nodes: int) -> Data:
    return Data(edge_index=edge_index, num_nodes=num_nodes, edge_attr=torch.arange(edge_index.size(1)))


def scale_free() -> Data:
    return graph(torch.tensor(list(nx.barabasi_albert_graph(200, 3, seed=0).edges)).t(), 200)


def line_graph(data: Data) -> EulerianLineGraph:
    return EulerianLineGraph.from_edge_index(data.edge_index, data.num_nodes)


def edges(data: Data) -> set[frozenset[int]]:
    return {frozenset(column) for column in data.edge_index.t().tolist()}


GRAPHS = [*SYMMETRIC.values(), *(random_graph(seed, 20, 60) for seed in range(3)), (torch.empty(2, 0, dtype=torch.long), 3)]


@pytest.mark.parametrize("max_degree", [1, 2, 5, 100])
@pytest.mark.parametrize("index", range(len(GRAPHS)))
def test_no_vertex_has_more_neighbors_and_edges_between_small_ones_stay(index: int, max_degree: int) -> None:
    data = graph(*GRAPHS[index])
    capped = CapDegree(max_degree)(data)
    assert line_graph(capped).max_degree <= max_degree
    assert capped.num_nodes == data.num_nodes
    degree = line_graph(data).arcs[0].bincount(minlength=data.num_nodes)
    small = {edge for edge in edges(data) if max(int(degree[v]) for v in edge) <= max_degree}
    assert small <= edges(capped) <= edges(data)


def test_a_star_keeps_as_many_leaves_and_a_pair_beside_it_stays() -> None:
    edge_index, num_nodes = star(10)
    data = graph(torch.cat([edge_index, torch.tensor([[11], [12]])], dim=1), num_nodes + 2)
    capped = CapDegree(4)(data)
    assert capped.edge_index.size(1) == 5
    assert frozenset({11, 12}) in edges(capped)


@pytest.mark.parametrize("max_degree", [2, 4])
def test_an_edge_stays_if_it_is_among_the_first_of_both_ends(max_degree: int) -> None:
    """In whatever order: that of a smaller cap begins that of a larger one, so that caps are nested."""
    data = scale_free()
    fewer, more = (edges(CapDegree(m)(data)) for m in (max_degree, 2 * max_degree))
    assert fewer < more


def test_an_edge_goes_or_stays_with_all_its_columns_and_attributes() -> None:
    data = graph(*random_graph(0, 12, 80))
    capped = CapDegree(3)(data)
    columns = data.edge_index.t().tolist()
    assert capped.edge_attr.tolist() == [i for i, column in enumerate(columns) if frozenset(column) in edges(capped)]
    assert torch.equal(capped.edge_index, data.edge_index[:, capped.edge_attr])
    assert 0 < capped.edge_index.size(1) < 80


def test_the_choice_depends_on_the_seed_and_not_on_the_order_of_columns() -> None:
    data = scale_free()
    shuffled = graph(data.edge_index[:, torch.randperm(data.num_edges)].flip(0), 200)
    assert edges(CapDegree(4)(data)) == edges(CapDegree(4)(shuffled))
    assert edges(CapDegree(4)(data)) != edges(CapDegree(4, seed=1)(data))


def test_every_edge_of_a_clique_has_the_same_chance_and_the_first_in_order_stays() -> None:
    data = graph(*clique(4))
    kept = torch.zeros(6)
    for seed in range(600):
        capped = CapDegree(1, seed)(data)
        assert capped.edge_attr.numel() in (1, 2)
        kept[capped.edge_attr] += 1
    mean = kept.mean()
    assert (kept - mean).abs().max() < 5 * mean.sqrt()


def test_coins_of_what_is_left_are_orthogonal() -> None:
    capped = CapDegree(4)(scale_free())
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)).double()
    matrix = GUMP(3, 8, 2).double().eval().propagation_matrix(x, capped.edge_index).to_dense()
    assert (matrix.t() @ matrix - torch.eye(matrix.size(0))).abs().max() < 1e-10


def test_the_input_is_left_alone() -> None:
    data = graph(*star(5))
    CapDegree(2)(data)
    assert (data.edge_index.size(1), data.edge_attr.size(0)) == (5, 5)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'max_degree' must be at least 1 \(got 0\)"):
        CapDegree(0)


def test_repr_names_the_settings() -> None:
    assert repr(CapDegree(8)) == "CapDegree(max_degree=8, seed=0)"
