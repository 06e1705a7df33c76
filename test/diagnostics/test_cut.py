"""The narrowest place of a graph, and what gets through."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from graphs import Graph, barbell, clique, grid, path, ring

from gump import EulerianLineGraph
from gump.diagnostics.bottleneck import bottleneck
from gump.nn import GUMP


def of(graph: nx.Graph) -> Graph:
    return torch.tensor(list(graph.edges)).t(), graph.number_of_nodes()


def test_a_path_behind_a_clique_is_measured_by_what_the_clique_holds_by_hand() -> None:
    found = bottleneck(torch.cat([clique(5)[0], path(4)[0] + 4], dim=1))
    assert (found.diameter, found.cut.edges, found.cut.nodes, found.cut.arcs, found.component_arcs) == (4, 1, 3, 5, 26)
    assert found.conductance == pytest.approx(1 / 5)
    assert found.crossing_share == pytest.approx(4 / (3 * 21 / 5)), "three of the five vertices with their 21 arcs"
    longer = bottleneck(torch.cat([clique(5)[0], path(8)[0] + 4], dim=1))
    assert (longer.diameter, longer.cut.nodes, longer.cut.arcs) == (8, 7, 13)
    assert longer.cut.share_in(8) == pytest.approx(8 / 21), "all five, since there are no more"
    assert longer.crossing_share == pytest.approx(6 / 21), "of which the five at the end of the path hear six layers"


@pytest.mark.parametrize("size", [4, 10, 20])
def test_a_longer_bar_does_not_help(size: int) -> None:
    lengths = (0, 1, 2, 5, 20, 61, 200, 500)
    for make, expected in (
        (nx.barbell_graph, [3 / (size**2 - size + 1)] * len(lengths)),
        (nx.lollipop_graph, [(size + 1) / (size**2 - size + 1)] * len(lengths)),
    ):
        for length, share in zip(lengths, expected, strict=True):
            if make is nx.barbell_graph or length >= size:
                found = bottleneck(*of(make(size, length)))
                assert found.crossing_share == found.large_cut.share == pytest.approx(share), (make, length)


def test_nor_does_a_longer_bar_of_two_lanes_whatever_it_joins() -> None:
    def with_bar(length: int) -> Graph:
        graph = nx.disjoint_union(nx.disjoint_union(nx.complete_graph(12), nx.ladder_graph(length)), nx.complete_graph(9))
        left, right = 12, 12 + length
        graph.add_edges_from([(0, left), (1, right), (left + length - 1, 12 + 2 * length), (right + length - 1, 13 + 2 * length)])
        return of(graph)

    shares = [bottleneck(*with_bar(length)).crossing_share for length in (2, 4, 10, 40, 160)]
    assert max(shares) < 0.25
    assert all(after <= before + 1e-9 for before, after in pairwise(shares)), shares


@pytest.mark.parametrize("graph", [path(50), ring(51), ring(200), grid(2, 40), grid(12, 12), grid(5, 60)])
def test_where_there_is_but_distance_at_least_half_gets_across(graph: Graph) -> None:
    assert bottleneck(*graph).crossing_share >= 0.5


@pytest.mark.parametrize("length", [0, 2, 4])
def test_no_more_dimensions_get_from_behind_to_behind_than_the_share_says(length: int) -> None:
    """The rank of the block of a power of the operator between the two cliques, over what a clique holds."""
    edge_index, num_nodes = of(nx.barbell_graph(5, length))
    found = bottleneck(edge_index, num_nodes)
    torch.manual_seed(0)
    operator = GUMP(3, 8, 1).double().propagation_matrix(torch.randn(num_nodes, 3).double(), edge_index).to_dense()
    start = EulerianLineGraph.from_edge_index(edge_index).arcs[0]
    power = torch.linalg.matrix_power(operator, found.diameter)
    rank = int(torch.linalg.matrix_rank(power[start < 5][:, start >= num_nodes - 5], atol=1e-9))
    assert 0 < rank <= round(found.crossing_share * 21)


def test_small_parts_do_not_speak_for_the_graph() -> None:
    graph = nx.disjoint_union(nx.random_regular_graph(4, 200, seed=0), nx.complete_graph(6))
    graph.add_edge(0, 203)
    found = bottleneck(*of(graph))
    assert (found.cut.edges, found.cut.nodes) == (1, 6)
    assert found.crossing_share < 0.3
    assert found.large_cut.nodes >= 0.05 * 206
    assert found.large_cut.share > 0.9
    assert bottleneck(*barbell(5)).large_cut == bottleneck(*barbell(5)).cut


@pytest.mark.parametrize("seed", range(5))
def test_bridges_and_their_best_cut_are_those_of_networkx(seed: int) -> None:
    graph = nx.random_labeled_tree(60, seed=seed)
    graph.add_edges_from(np.random.default_rng(seed).integers(60, size=(12, 2)).tolist())
    graph.remove_edges_from(nx.selfloop_edges(graph))
    found, best = bottleneck(*of(graph)), np.inf
    for u, v in nx.bridges(graph):
        parts = graph.copy()
        parts.remove_edge(u, v)
        best = min(best, nx.conductance(graph, nx.node_connected_component(parts, u)))
    assert found.num_bridges == len(list(nx.bridges(graph)))
    assert found.conductance <= best + 1e-12


def test_a_deep_graph_takes_as_long_as_a_shallow_one() -> None:
    found = bottleneck(*path(30_000))
    assert (found.num_bridges, found.cut.nodes, found.diameter, found.diameter_exact) == (29_999, 15_000, 29_999, True)
