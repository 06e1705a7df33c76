"""Whether a graph has a bottleneck."""

import itertools
import math
import sys
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, Graph, barbell, clique, grid, path, ring, star

from gump import EulerianLineGraph
from gump.diagnostics.bottleneck import bottleneck
from gump.linalg.curvature import balanced_forman
from gump.nn import GUMP


def regular(degree: int, num_nodes: int, seed: int = 0) -> Graph:
    return torch.tensor(list(nx.random_regular_graph(degree, num_nodes, seed=seed).edges)).t(), num_nodes


def connected(seed: int, num_nodes: int = 40) -> Graph:
    graph = nx.connected_watts_strogatz_graph(num_nodes, 4, 0.3, seed=seed)
    graph.add_edges_from([(0, num_nodes), (num_nodes, num_nodes + 1)])  # a tail, for bridges
    return torch.tensor(list(graph.edges)).t(), num_nodes + 2


GRAPHS = SYMMETRIC | {"path": path(7), "cubic": regular(3, 10), "two parts": (torch.tensor([[0, 1, 4], [1, 2, 5]]), 7)}


def as_networkx(edge_index: torch.Tensor) -> nx.Graph:
    """The largest component; the first of them."""
    graph = nx.Graph(edge_index.t().tolist())
    return graph.subgraph(max(nx.connected_components(graph), key=len))


def least_conductance(graph: nx.Graph) -> float:
    """Over all cuts."""
    nodes = list(graph)
    sides = itertools.chain.from_iterable(itertools.combinations(nodes, k) for k in range(1, len(nodes)))
    return min(nx.conductance(graph, side) for side in sides)


def test_two_cliques_and_an_edge_by_hand() -> None:
    found = bottleneck(*barbell(5))
    assert (found.num_nodes, found.num_edges, found.num_components, found.component_nodes) == (10, 21, 1, 10)
    assert (found.diameter, found.diameter_exact, found.num_bridges) == (3, True, 1)
    assert (found.cut_edges, found.cut_nodes, found.cut.arcs, found.component_arcs) == (1, 5, 21, 42)
    assert found.conductance == pytest.approx(1 / 21)
    assert found.crossing_share == pytest.approx(3 / 21)
    assert found.resistance == pytest.approx(1 + 2 * 2 / 5)
    assert found.commute_time == pytest.approx(42 * found.resistance)
    assert found.min_curvature == pytest.approx(2 / 5 + 2 / 5 - 2)


@pytest.mark.parametrize("name", GRAPHS)
def test_numbers_are_those_of_slow_obvious_computations(name: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    graph, found = as_networkx(edge_index), bottleneck(edge_index, num_nodes)
    spectrum = np.linalg.eigvalsh(nx.normalized_laplacian_matrix(graph).toarray())
    curvature = balanced_forman(nx.to_numpy_array(graph))[nx.to_numpy_array(graph) > 0]
    resistance = nx.resistance_distance(graph)
    least = least_conductance(graph)
    assert found.diameter == nx.diameter(graph)
    assert found.spectral_gap == pytest.approx(spectrum[1])
    assert found.num_bridges == len(list(nx.bridges(graph)))
    assert found.resistance == pytest.approx(max(max(row.values()) for row in resistance.values()))
    assert resistance[found.pair[0]][found.pair[1]] == pytest.approx(found.resistance)
    assert found.commute_time == pytest.approx(2 * graph.number_of_edges() * found.resistance)
    assert (found.min_curvature, found.mean_curvature) == pytest.approx((curvature.min(), curvature.mean()))
    assert least - 1e-12 <= found.conductance <= math.sqrt(2 * found.spectral_gap) + 1e-12, "Cheeger"
    if name not in ("grid", "cubic"):  # where a repeated eigenvalue, or no eigenvector at all, knows the best cut
        assert found.conductance == pytest.approx(least)
    assert found.num_components == nx.number_connected_components(nx.Graph(edge_index.t().tolist())) + num_nodes - len(
        edge_index.unique()
    )


@pytest.mark.parametrize("seed", range(3))
def test_on_large_graphs_estimates_are_what_they_are_said_to_be(seed: int) -> None:
    edge_index, num_nodes = connected(seed)
    exact, found = bottleneck(edge_index, num_nodes), bottleneck(edge_index, num_nodes, exact=1)
    assert found.diameter_exact
    assert found.diameter == exact.diameter
    distances = dict(nx.all_pairs_shortest_path_length(as_networkx(edge_index)))
    assert distances[found.pair[0]][found.pair[1]] == found.diameter
    assert found.resistance == pytest.approx(nx.resistance_distance(as_networkx(edge_index), *found.pair), rel=1e-8)
    assert found.spectral_gap == pytest.approx(exact.spectral_gap, rel=1e-6)
    fields = ("num_bridges", "cut_edges", "cut_nodes", "curvature_edges")
    assert [getattr(found, field) for field in fields] == [getattr(exact, field) for field in fields]
    assert found.min_curvature == pytest.approx(exact.min_curvature)
    assert found.mean_curvature == pytest.approx(exact.mean_curvature), "of all edges, since there are fewer than are sampled"


def test_a_long_path_is_measured_although_it_mixes_too_slowly_for_an_iteration() -> None:
    found = bottleneck(*path(3000))
    assert (found.diameter, found.num_bridges, found.cut_nodes) == (2999, 2999, 1500)
    assert found.spectral_gap == pytest.approx(1 - math.cos(math.pi / 2999), rel=1e-3)
    assert found.resistance == pytest.approx(2999)
    assert found.curvature_edges == 1000


@pytest.mark.parametrize("name", GRAPHS)
def test_numbers_do_not_depend_on_how_vertices_are_numbered(name: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    label = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(1))
    before, after = bottleneck(edge_index, num_nodes), bottleneck(label[edge_index], num_nodes)
    tied = {"cut", "large_cut"} if name in ("grid", "cubic", "clique", "star", "ring") else set()
    for field, value in vars(replace(before, pair=(0, 0))).items():
        if field not in tied | {"pair"}:
            assert getattr(after, field) == pytest.approx(value, abs=1e-12), field


@pytest.mark.parametrize(("coin", "num_layers"), [("bounded", 1), ("bounded", 3), ("grover", 2)])
def test_the_rank_across_a_cut_is_at_most_the_number_of_layers_times_its_edges(coin: str, num_layers: int) -> None:
    edge_index, num_nodes = barbell(5)
    edge_index = torch.cat([edge_index, torch.tensor([[0], [9]])], dim=1)
    torch.manual_seed(0)
    operator = GUMP(3, 8, 1, coin=coin).double().propagation_matrix(torch.randn(num_nodes, 3).double(), edge_index).to_dense()
    low = EulerianLineGraph.from_edge_index(edge_index).arcs[0] < 5
    block = torch.linalg.matrix_power(operator, num_layers)[low][:, ~low]
    assert torch.linalg.matrix_rank(block, atol=1e-9) == 2 * num_layers
    assert bottleneck(edge_index).cut_edges == 2


def test_self_loops_and_repeated_edges_count_for_nothing() -> None:
    edge_index, num_nodes = grid(3, 3)
    noisy = torch.cat([edge_index, edge_index.flip(0), torch.tensor([[4], [4]])], dim=1)
    assert bottleneck(noisy, num_nodes) == bottleneck(edge_index, num_nodes)


def test_a_graph_without_edges_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'edge_index' must have an edge between two vertices \(got none on 3 vertices\)"):
        bottleneck(torch.tensor([[1], [1]]), 3)
    with pytest.raises(ValueError, match=r"\(got none on 1 vertex\)"):
        bottleneck(torch.tensor([[0], [0]]))


@pytest.mark.parametrize("name", ["ring", "path", "watts", "tree"])
def test_a_diameter_that_is_called_exact_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = {
        "ring": nx.cycle_graph(31),
        "path": nx.path_graph(40),
        "watts": nx.connected_watts_strogatz_graph(200, 4, 0.1, seed=0),
        "tree": nx.random_labeled_tree(150, seed=3),
    }[name]
    edge_index, known = torch.tensor(list(graph.edges)).t(), 0
    for searched in (0, 10**3, 10**4, 10**6):
        monkeypatch.setattr(sys.modules["gump.diagnostics.bottleneck"], "SEARCHED", searched)
        for seed in range(5):
            found = bottleneck(edge_index, exact=1, seed=seed)
            assert found.diameter <= nx.diameter(graph)
            assert found.diameter == nx.diameter(graph) or not found.diameter_exact
            known += found.diameter_exact
    assert known >= 5, "with enough searches it always is"
    assert found.diameter_exact


def test_a_few_searches_bound_the_diameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["gump.diagnostics.bottleneck"], "SEARCHED", 0)
    found = bottleneck(*ring(40), exact=1)
    assert (found.diameter, found.diameter_exact) == (20, False)


def test_a_star_and_a_clique_have_no_narrow_cut() -> None:
    assert bottleneck(*star(40)).conductance == pytest.approx(1)
    assert bottleneck(*clique(12)).conductance == pytest.approx(12 / 22)
    assert bottleneck(*ring(40)).conductance == pytest.approx(2 / 40)
