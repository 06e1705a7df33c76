from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, Graph, barbell, clique, path, random_graph, star
from torch_geometric.data import Data

from gump.experiment import explore
from gump.experiment.explore import HIDDEN_CHANNELS, MAX_TRANSITIONS, Found, exploration, find_graph, layout, neighborhood
from gump.linalg import unitarity_error
from gump.line_graph import EulerianLineGraph
from gump.nn import GUMP
from gump.nn.coin import MAX_BLOCK, SCORE_RANK


def found(graph: Graph, num_features: int | None = 3) -> Found:
    edge_index, num_nodes = graph
    x = None if num_features is None else torch.randn(num_nodes, num_features, generator=torch.Generator().manual_seed(1))
    return Found(Data(x=x, edge_index=edge_index, num_nodes=num_nodes), "drawn")


def line_graph_of(content: dict[str, Any]) -> EulerianLineGraph:
    return EulerianLineGraph.from_edge_index(torch.from_numpy(content["arcs"]), len(content["label"]))


@pytest.mark.parametrize("drawn", [barbell(4), star(MAX_BLOCK + 1), star(199)])
@pytest.mark.parametrize("key", ["bounded", "newton_schulz"])
def test_walks_are_those_of_a_fresh_model(key: str, drawn: Graph) -> None:
    graph = found(drawn)
    content = exploration(graph, seed=5, max_vertices=200)
    torch.manual_seed(5)
    model = GUMP(3, HIDDEN_CHANNELS, num_layers=1, coin=key).double()
    expected = model.propagation_matrix(graph.data.x.double(), graph.data.edge_index).to_dense()
    row, column = line_graph_of(content).transitions()
    operator = torch.zeros_like(expected).index_put((row, column), torch.from_numpy(content[key]))
    torch.testing.assert_close(operator, expected, rtol=0, atol=1e-14)


def test_the_default_walk_is_unitary_where_the_published_one_is_not() -> None:
    content = exploration(found(star(4), None), seed=0, max_vertices=50)  # the leaves cannot be told apart
    center = [torch.from_numpy(content[key][-16:]).view(4, 4) for key in ("newton_schulz", "bounded")]
    errors = [float(unitarity_error(coin)) for coin in center]
    assert errors[0] == pytest.approx(0.75**0.5, abs=1e-6), "a block of rank one"
    assert errors[1] < 1e-14


def test_the_default_walk_is_unitary_at_a_hub() -> None:
    content = exploration(found(star(199)), seed=0, max_vertices=200)
    assert content["bounded"].size == content["newton_schulz"].size == 199 + 199**2
    assert float(unitarity_error(torch.from_numpy(content["bounded"][-(199**2) :]).view(199, 199))) < 1e-14
    assert (content["max_block"], content["score_rank"]) == (MAX_BLOCK, SCORE_RANK)


def test_the_adjacency_is_normalized_with_self_loops() -> None:
    content = exploration(found(path(3)), seed=0, max_vertices=50)
    matrix = np.zeros((3, 3))
    np.add.at(matrix, tuple(content["adjacency_index"]), content["adjacency_weight"])
    with_loops = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    scale = np.diag(np.array([2, 3, 2]) ** -0.5)
    np.testing.assert_allclose(matrix, scale @ with_loops @ scale, atol=1e-15)


def test_the_seed_decides_and_global_state_stays() -> None:
    graph = found(barbell(4))
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    first, again, other = (exploration(graph, seed=seed, max_vertices=50)["bounded"] for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (found(path(4)), "the graph's own, 3 numbers for each vertex"),
        (found(path(4), 1), "the graph's own, 1 number for each vertex"),
        (found(path(4), None), "one-hot degrees, since the graph has none of its own"),
        (
            Found(Data(x=torch.tensor([[0, 2], [1, 0], [1, 1], [0, 0]]), edge_index=path(4)[0]), "drawn"),
            "the graph's own 2 categories, embedded by random vectors",
        ),
    ],
)
def test_features_are_said_in_words(graph: Found, words: str) -> None:
    assert exploration(graph, seed=0, max_vertices=50)["features"] == words


@pytest.mark.parametrize("edges", [[], [[0, 1]]])
def test_vertices_without_edges_and_graphs_without_any_are_legal(edges: list[list[int]]) -> None:
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    content = exploration(Found(Data(edge_index=edge_index, num_nodes=3), "drawn"), seed=0, max_vertices=50)
    assert content["position"].shape == (3, 2)
    assert np.isfinite(content["position"]).all()
    assert content["bounded"].size == 2 * len(edges)


def test_the_first_source_has_a_coin_to_look_at_and_a_long_way_to_go() -> None:
    fork = torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 3, 4, 5, 6]])
    assert exploration(Found(Data(edge_index=fork, num_nodes=7), "drawn"), seed=0, max_vertices=50)["start"] == 4
    assert exploration(found(path(5)), seed=0, max_vertices=50)["start"] == 1


def test_a_path_is_laid_out_as_a_line() -> None:
    edges, num_nodes = path(6)
    places = layout(edges, num_nodes)
    hops = np.abs(np.arange(6)[:, None] - np.arange(6))
    lengths = np.linalg.norm(places[:, None] - places, axis=-1)
    np.testing.assert_allclose(lengths, hops, atol=0.05)
    assert np.ptp(places[:, 0]) == pytest.approx(5, abs=0.05), "along its longest direction"


@pytest.mark.parametrize("graph", [*SYMMETRIC.values(), star(17), random_graph(0, 40, 80)])
def test_no_vertex_is_drawn_over_another(graph: Graph) -> None:
    edges, num_nodes = graph
    places = layout(EulerianLineGraph.from_edge_index(edges, num_nodes).arcs, num_nodes)
    lengths = np.linalg.norm(places[:, None] - places, axis=-1) + 9 * np.eye(num_nodes)
    assert lengths.min() > 0.7
    np.testing.assert_array_equal(places, layout(EulerianLineGraph.from_edge_index(edges, num_nodes).arcs, num_nodes))


def test_components_are_laid_out_beside_each_other() -> None:
    edges, num_nodes = barbell(3)
    both = torch.cat([edges, edges + num_nodes], dim=1)
    arcs = EulerianLineGraph.from_edge_index(both, 2 * num_nodes + 1).arcs
    places = layout(arcs, 2 * num_nodes + 1)
    parts = [places[:num_nodes], places[num_nodes:-1], places[-1:]]
    for i, a in enumerate(parts):
        for b in parts[:i]:
            assert (a.max(axis=0) < b.min(axis=0)).any() or (b.max(axis=0) < a.min(axis=0)).any(), "their boxes are apart"


def test_a_neighborhood_keeps_numbers_and_features_and_loses_what_is_far() -> None:
    graph = found(path(9))
    near = neighborhood(graph, vertex=4, hops=2)
    assert near.title == "drawn, 2 hops around vertex 4"
    assert near.data.label.tolist() == [2, 3, 4, 5, 6]
    assert torch.equal(near.data.x, graph.data.x[2:7])
    assert neighborhood(graph, vertex=0, hops=1).data.edge_index.tolist() == [[0, 1], [1, 0]]
    assert exploration(near, seed=0, max_vertices=5)["label"].tolist() == [2, 3, 4, 5, 6]


def test_a_graph_is_found_by_name_or_in_a_file(tmp_path: Path) -> None:
    ring = find_graph("Ring-20", 2)
    assert (ring.title, ring.data.num_nodes) == ("Ring-20, graph 2", 20)
    file = tmp_path / "own.txt"
    file.write_text("0 1\n1 2\n")
    own = find_graph(str(file))
    assert (own.title, own.data.num_nodes, own.data.x) == (str(file), 3, None)


def test_a_molecule_is_found_by_its_smiles() -> None:
    pytest.importorskip("rdkit")
    ethanol = find_graph("smiles:CCO")
    assert (ethanol.title, ethanol.data.num_nodes) == ("smiles:CCO", 3)
    assert exploration(ethanol, seed=0, max_vertices=50)["features"] == "the graph's own 9 categories, embedded by random vectors"


def test_a_graph_of_a_benchmark_is_found(data_root: Path) -> None:
    mutag = find_graph("MUTAG", 7)
    assert (mutag.title, mutag.data.num_nodes) == ("MUTAG, graph 7", 20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_graph("mutg"), "'graph' must be a file, .*mutg"),
        (lambda: find_graph("Ring-20", 5), r"'--index' must be from 0 to 4 for Ring-20 \(got 5\)"),
        (lambda: find_graph("Ring-20", -1), r"'--index' must be from 0 to 4 for Ring-20 \(got -1\)"),
        (lambda: neighborhood(found(path(3)), 3, 1), r"'--around' must be a vertex from 0 to 2 of drawn \(got 3\)"),
        (
            lambda: exploration(found(path(9)), 0, 8),
            r"at most 8 vertices to be drawn \(got 9 in drawn\); .*, such as --around 0 --hops 1, or raise --max-vertices",
        ),
        (lambda: exploration(found((path(1)[0], 9)), 0, 8), "; leave out vertices without edges, or raise --max-vertices"),
        (
            lambda: exploration(neighborhood(found(path(9)), 4, 3), 0, 5),
            r"got 7 in drawn, 3 hops around vertex 4\); take fewer --hops, or another vertex after --around, or raise --max-vertices",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_page_that_would_be_too_heavy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_TRANSITIONS >= 200 * 30**2, "a graph of 200 vertices may be rather dense"
    monkeypatch.setattr(explore, "MAX_TRANSITIONS", 19)
    with pytest.raises(
        ValueError, match=r"squared degrees that sum to at most 19 \(got 34 in drawn\).*such as --around 0 --hops 1"
    ):
        exploration(found(barbell(3)), seed=0, max_vertices=50)


def test_a_clique_is_not_told_to_take_a_neighborhood_which_is_the_clique_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "MAX_TRANSITIONS", 19)
    message = "; even vertex 0, which has the fewest neighbors, 4, has too many of them; take a graph with fewer edges"
    with pytest.raises(ValueError, match=message):
        exploration(found(clique(5)), seed=0, max_vertices=50)
    monkeypatch.setattr(explore, "MAX_TRANSITIONS", 100)
    with pytest.raises(ValueError, match=f"at most 4 vertices .*{message}, or raise --max-vertices"):
        exploration(found(clique(5)), seed=0, max_vertices=4)


def test_repeated_edges_and_self_loops_are_legal() -> None:
    content = exploration(found(random_graph(3)), seed=0, max_vertices=50)
    walk = line_graph_of(content)
    assert np.array_equal(content["arcs"], walk.arcs.numpy())
    assert np.array_equal(content["reverse"], walk.reverse.numpy())
