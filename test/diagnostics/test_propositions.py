from functools import partial

import pytest
import torch
from graphs import SYMMETRIC, Graph, path, random_graph
from torch import Tensor

from gump import EulerianLineGraph
from gump.diagnostics.propositions import assemble, equivariance_error, support_error, unitary_adjacency
from gump.linalg import polar_factor
from gump.nn import Coin

GRAPHS: dict[str, Graph] = {**SYMMETRIC, "path": path(5), **{f"random {seed}": random_graph(seed) for seed in range(3)}}
NEWTON_SCHULZ = partial(polar_factor, num_steps=10)


def scores(name: str, tied: bool = False) -> tuple[list[Tensor], EulerianLineGraph]:
    edge_index, num_nodes = GRAPHS[name]
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    torch.manual_seed(0)
    x = torch.ones(num_nodes, 4).double() if tied else torch.randn(num_nodes, 4).double()
    return [b.detach() for b in Coin(8).double().scores(x, line_graph)], line_graph


@pytest.mark.parametrize("name", GRAPHS)
def test_proposition_1_every_line_graph_has_a_unitary_adjacency_matrix(name: str) -> None:
    found = unitary_adjacency(EulerianLineGraph.from_edge_index(*GRAPHS[name]))
    assert found.unitarity < 1e-14
    assert (found.missing, found.extra) == (0, 0)


def test_a_graph_without_edges_has_the_empty_one() -> None:
    assert unitary_adjacency(EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 3)) == (0.0, 0, 0)


@pytest.mark.parametrize("name", GRAPHS)
def test_proposition_2_holds_on_blocks_of_full_rank(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for block in scores(name)[0]:
        assert torch.linalg.svdvals(block)[:, -1].min() > 1e-7
        assert equivariance_error(block, generator=generator).max() < 1e-8


def test_proposition_2_needs_its_assumption() -> None:
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(50, 4, 4, generator=generator).double()
    block[:, :, 1] = block[:, :, 2] = block[:, :, 0]
    block[:, 1] = block[:, 2] = block[:, 0]
    assert equivariance_error(block, generator=generator).median() > 0.1, "ties leave the polar factor undetermined"
    assert equivariance_error(block, NEWTON_SCHULZ, generator=generator).max() < 1e-12


@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_bounded_coin_follows_relabelings_on_tied_blocks_too(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    coin = Coin(8).double()
    for block in scores(name, tied=True)[0]:
        if block.size(-1) > 1:
            assert torch.linalg.svdvals(block)[:, -1].max() < 1e-12
        assert equivariance_error(block, coin.project, together=True, generator=generator).max() < 1e-12


def test_the_bounded_coin_does_not_follow_rows_and_columns_apart() -> None:
    block = torch.randn(20, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    assert equivariance_error(block, Coin(8).double().project, generator=torch.Generator().manual_seed(1)).max() > 0.1


@pytest.mark.parametrize("name", GRAPHS)
def test_proposition_3_projecting_the_whole_is_projecting_the_blocks(name: str) -> None:
    blocks, line_graph = scores(name)
    found = support_error(blocks, line_graph)
    assert found.outside < 1e-9
    assert found.difference < 1e-9
    assert found.dense_blocks == 0


def test_proposition_3_tells_another_projection_apart() -> None:
    blocks, line_graph = scores("clique")
    assert support_error(blocks, line_graph, partial(polar_factor, num_steps=1)).difference > 0.01


def test_newton_schulz_on_the_whole_matrix_adds_no_transition() -> None:
    blocks, line_graph = scores("grid")
    whole = assemble(blocks, line_graph)
    iterate = polar_factor(whole.unsqueeze(0), num_steps=5)[0]
    assert (iterate[whole == 0] == 0).all()


def test_assembling_puts_weights_where_arcs_meet() -> None:
    blocks, line_graph = scores("random 0")
    matrix = assemble(blocks, line_graph)
    source, target = line_graph.arcs
    for a in range(line_graph.num_arcs):
        for b in range(line_graph.num_arcs):
            assert (matrix[a, b] != 0) == (target[a] == source[b])


def test_no_arcs_are_refused() -> None:
    with pytest.raises(ValueError, match="'line_graph' must have an arc"):
        support_error([], EulerianLineGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 2))
