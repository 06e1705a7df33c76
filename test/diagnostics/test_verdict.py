"""What the numbers mean: known graphs are judged as everyone would."""

import sys

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
    "binary tree of 31": (of(nx.balanced_tree(2, 4)), "yes", False),
    "binary tree of 15": (of(nx.balanced_tree(2, 3)), "mild", False),
    "barbell with a bar of 20": (of(nx.barbell_graph(10, 20)), "yes", True),
    "barbell with a bar of 60": (of(nx.barbell_graph(10, 60)), "yes", True),
    "barbell with a bar of 2000": (of(nx.barbell_graph(10, 2000)), "yes", True),
    "clique with a long path": (of(nx.lollipop_graph(20, 300)), "yes", True),
    "molecule": (naphthalene(), "no", False),
    "ring 3": (ring(3), "no", False),
    "ring 6": (ring(6), "no", False),
    "ring 20": (ring(20), "no", False),
    "ring 22": (ring(22), "no", True),
    "ring 100": (ring(100), "no", True),
    "path 9": (path(9), "no", False),
    "path 10": (path(10), "no", True),
    "path 60": (path(60), "no", True),
    "path 5000": (path(5000), "no", True),
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
        "equally many vertices hold through in 1 layer"
    )
    assert verdict(bottleneck(*barbell(5))).text == (
        "a bottleneck: 5 of 10 vertices are joined to the rest by 1 edge, and in 3 layers, the longest distance, at most 14.3% of the dimensions "
        "that equally many vertices behind it hold on the denser side, in a walk on arcs, get across, whatever its coins; "
        "more layers or rewiring let more through"
    )
    assert (
        "no bottleneck but a long way: the farthest vertices are 20 hops apart, where a random graph of this size has about 5;"
        in (verdict(bottleneck(*ring(40))).text)
    )


def test_what_the_suggested_depth_lets_through_is_said() -> None:
    assert verdict(bottleneck(*path(5000))).text.endswith(
        "hold through in 4,999 layers, but no more than 2% in the suggested 100"
    ), "100 of the 4,999 arcs on either side"
    text = verdict(bottleneck(*of(nx.lollipop_graph(20, 300)))).text
    assert "in 301 layers, the longest distance, at most 5.5% of the dimensions" in text
    assert "; in the suggested 100 layers vertices that are farther apart hear nothing of each other" in text


def test_a_bound_from_above_is_not_rounded_down_to_nothing() -> None:
    cliques = nx.disjoint_union(nx.complete_graph(150), nx.complete_graph(150))
    cliques.add_edge(0, 299)
    assert ", the longest distance, at most 0.1% of the dimensions" in verdict(bottleneck(*of(cliques))).text


def test_small_parts_are_told_with_their_number_and_the_rest_is_judged() -> None:
    graph = nx.disjoint_union(nx.random_regular_graph(4, 300, seed=0), nx.complete_graph(8))
    graph.add_edge(0, 305)
    found = verdict(bottleneck(*of(graph)))
    assert found.narrow == "no"
    assert found.text.startswith(
        "2.6% of the vertices (8 of 308) hang on 1 edge; for the rest, no bottleneck: any two vertices are within "
    )


def test_of_several_parts_only_the_largest_is_spoken_of() -> None:
    found = verdict(bottleneck(torch.cat([clique(6)[0], path(3)[0] + 6], dim=1), 10))
    assert found.text.startswith("no bottleneck: any two vertices of the largest part are within 1 hop")
    assert found.text.endswith("This is the largest of 3 parts, between which nothing passes")
    assert found.reason.startswith("any two vertices in the largest part are neighbors")
    found = verdict(bottleneck(path(4)[0], 5))
    assert found.reason == "the longest distance in the largest part is 3 hops, so that every vertex of it hears every other"


def test_a_bound_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["gump.diagnostics.bottleneck"], "SEARCHED", 0)
    assert "in 6 layers, a distance that occurs, at most" in verdict(bottleneck(*of(nx.barbell_graph(6, 3)), exact=1)).text
    found = verdict(bottleneck(*ring(6), exact=1))
    assert "the farthest vertices are at least 3 hops apart" in found.text
    assert found.reason == (
        "the longest distance is at least 3 hops: with fewer layers some vertices do not hear each other, and some may need more"
    )


def test_gap_and_commute_time_are_put_in_words() -> None:
    assert verdict(bottleneck(*path(3))).walk == (
        "a random walk that rests half of the time forgets where it began in about 2 steps (2 / spectral gap), and one that never rests takes 8 "
        "from vertex 0 to vertex 2 and back (commute time); few edges and a long way make both long alike"
    )
    assert (
        "; on a random graph of this size with three edges at each vertex it would be about 35 and 1,000; "
        in verdict(bottleneck(*path(200))).walk
    )
    random = bottleneck(*of(nx.random_regular_graph(3, 500, seed=0)))
    assert 2 / random.spectral_gap == pytest.approx(35, rel=0.1)
    assert random.commute_time == pytest.approx(5 * 500, rel=0.2)


@pytest.mark.parametrize(
    ("graph", "steps"), [(path(2), "1 step"), (clique(3), "1 step"), (ring(4), "2 steps"), (path(40), "617 steps")]
)
def test_a_walk_forgets_at_the_rate_of_one_that_rests_half_of_the_time_since_others_may_be_periodic(
    graph: Graph, steps: str
) -> None:
    measured = bottleneck(*graph)
    assert f" in about {steps} (2 / spectral gap)" in verdict(measured).walk
    edge_index, num_nodes = graph
    step = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    step[tuple(edge_index)] = step[tuple(edge_index.flip(0))] = 1
    rests = (step / step.sum(1, keepdim=True) + torch.eye(num_nodes)) / 2
    slowest = torch.linalg.eigvals(rests).abs().sort().values[-2].item()
    assert 1 / (1 - slowest) == pytest.approx(2 / measured.spectral_gap), "the walk's own relaxation time"


def test_depth_is_the_diameter_within_reason() -> None:
    assert [verdict(bottleneck(*graph)).depth for graph in (ring(28), clique(5), path(400))] == [14, 2, 100]
    assert verdict(bottleneck(*ring(28))).reason == "the longest distance is 14 hops, so that every vertex hears every other"
    assert verdict(bottleneck(*clique(5))).reason == "any two vertices are neighbors; one layer more lets them answer"
    assert verdict(bottleneck(*path(400))).reason.endswith(
        "deeper models than 100 layers are untried; vertices farther apart do not hear each other"
    )


@pytest.mark.parametrize("graph", [path(6), path(501), ring(7), ring(300), grid(3, 3), grid(30, 30), star(5), star(900)])
def test_the_share_is_nearly_one_where_the_docstring_says_so(graph: Graph) -> None:
    assert verdict(bottleneck(*graph)).narrow == "no"
    assert bottleneck(*graph).large_cut.share > 0.97
