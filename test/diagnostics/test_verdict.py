"""What the numbers mean: known graphs are judged as everyone would."""

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, Graph, barbell, clique, grid, path, ring, star

from gump.diagnostics.bottleneck import bottleneck
from gump.diagnostics.verdict import verdict


def of(graph: nx.Graph) -> Graph:
    return torch.tensor(list(graph.edges)).t(), graph.number_of_nodes()


def clique_path(num_nodes: int) -> Graph:
    """A clique, and a path of equally many vertices that begins at one of them."""
    return of(nx.lollipop_graph(num_nodes, num_nodes))


def naphthalene() -> Graph:
    """Two rings of six that share an edge."""
    return torch.tensor([[0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 4]]), 10


JUDGED = {
    "barbell 4": (barbell(4), "yes", False),
    "barbell 30": (barbell(30), "yes", False),
    "clique with a path, 4 and 4": (clique_path(4), "mild", False),
    "clique with a path, 6 and 6": (clique_path(6), "yes", False),
    "clique with a path, 10 and 10": (clique_path(10), "yes", True),
    "clique with a path, 50 and 50": (clique_path(50), "yes", True),
    "binary tree of 63": (of(nx.balanced_tree(2, 5)), "yes", False),
    "binary tree of 31": (of(nx.balanced_tree(2, 4)), "mild", False),
    "molecule": (naphthalene(), "no", False),
    "ring 3": (ring(3), "no", False),
    "ring 6": (ring(6), "no", False),
    "ring 20": (ring(20), "no", False),
    "ring 22": (ring(22), "no", True),
    "ring 100": (ring(100), "no", True),
    "path 9": (path(9), "no", False),
    "path 10": (path(10), "no", True),
    "path 60": (path(60), "no", True),
    "edge": (path(2), "no", False),
    "clique 3": (clique(3), "no", False),
    "clique 7": (clique(7), "no", False),
    "clique 40": (clique(40), "no", False),
    "star": (star(300), "no", False),
    "grid 8": (grid(8, 8), "no", False),
    "grid 9": (grid(9, 9), "no", True),
    "grid 20": (grid(20, 20), "no", True),
    "expander 3": (of(nx.random_regular_graph(3, 200, seed=1)), "no", False),
    "expander 8": (of(nx.random_regular_graph(8, 500, seed=1)), "no", False),
    "large expander": (of(nx.random_regular_graph(4, 1500, seed=1)), "no", False),
}


@pytest.mark.parametrize("name", JUDGED)
def test_known_graphs_are_judged_as_everyone_would(name: str) -> None:
    graph, narrow, far = JUDGED[name]
    found = verdict(bottleneck(*graph))
    assert (found.narrow, found.far) == (narrow, far)


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_random_regular_graphs_is_as_the_docstring_says(seed: int) -> None:
    assert bottleneck(*of(nx.random_regular_graph(3 + seed, 100, seed=seed))).crossing_share > 0.9


@pytest.mark.parametrize("size", [4, 6, 9, 20])
def test_so_are_those_of_cliques_alone_with_another_and_with_a_path(size: int) -> None:
    behind = size**2 - size + 1
    assert bottleneck(*barbell(size)).crossing_share == pytest.approx(3 / behind)
    assert bottleneck(*clique_path(size)).crossing_share == pytest.approx((size + 1) / behind)
    assert bottleneck(*clique(size)).crossing_share == pytest.approx((size + size % 2) / (2 * size - 2))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_verdict_does_not_depend_on_how_vertices_are_numbered(name: str) -> None:
    edge_index, num_nodes = SYMMETRIC[name]
    expected = verdict(bottleneck(edge_index, num_nodes))
    for seed in range(5):
        label = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed))
        found = verdict(bottleneck(label[edge_index], num_nodes))
        assert (found.narrow, found.far, found.depth) == (expected.narrow, expected.far, expected.depth)


def test_words_by_hand() -> None:
    assert verdict(bottleneck(*clique(6))).text == (
        "no bottleneck: any two vertices are within 1 hop, and the narrowest cut found (9 edges, 3 of 6 vertices behind it) lets up to 60% of what "
        "equally many vertices hold through in as many layers"
    )
    assert verdict(bottleneck(*barbell(5))).text == (
        "a bottleneck: 5 of 10 vertices are joined to the rest by 1 edge, and in 3 layers, the longest distance, at most 14.3% of the dimensions "
        "that equally many vertices of the denser side hold in a walk on arcs get across, whatever its coins; "
        "more layers or rewiring let more through"
    )
    assert (
        "no bottleneck but a long way: the farthest vertices are 20 hops apart, where a random graph of this size has about 5;"
        in (verdict(bottleneck(*ring(40))).text)
    )
    assert verdict(bottleneck(path(3)[0], 5)).text.endswith("This is the largest of 3 parts, between which nothing passes")
    assert "the farthest vertices found are 3 hops apart" in verdict(bottleneck(*ring(6), exact=1)).text


def test_depth_is_the_diameter_within_reason() -> None:
    assert [verdict(bottleneck(*graph)).depth for graph in (ring(28), clique(5), path(400))] == [14, 2, 100]
    assert verdict(bottleneck(*ring(28))).reason == "the longest distance is 14 hops, so that every vertex hears every other"
    assert verdict(bottleneck(*clique(5))).reason == "any two vertices are neighbors; one layer more lets them answer"
    assert "deeper models than 100 layers are untried" in verdict(bottleneck(*path(400))).reason
