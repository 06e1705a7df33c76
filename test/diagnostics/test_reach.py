import pytest
import torch
from graphs import SYMMETRIC, path, random_graph, ring
from torch import Tensor

from gump import EulerianLineGraph
from gump.diagnostics.distances import hop_distances
from gump.diagnostics.reach import energy_by_distance, even_reach, reach, return_probability
from gump.nn import GUMP

GRAPHS = {**SYMMETRIC, "random": random_graph(1)}


def walk(name: str, coin: str = "bounded") -> tuple[Tensor, Tensor, Tensor]:
    edge_index, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    operator = GUMP(3, 8, 2, coin=coin).double().eval().propagation_matrix(torch.randn(num_nodes, 3).double(), edge_index)
    place = EulerianLineGraph.from_edge_index(edge_index, num_nodes).arcs[1]
    return operator.to_dense().detach(), hop_distances(edge_index, num_nodes), place


@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_what_counting_every_pair_gives(name: str) -> None:
    operator, distance, place = walk(name)
    size, depth = operator.size(0), 5
    power = torch.linalg.matrix_power(operator, depth)
    found = energy_by_distance(operator, distance, depth, place)[depth]
    slow = torch.zeros_like(found)
    for i in range(size):
        for s in range(size):
            if distance[place[i], place[s]] < float("inf"):
                slow[int(distance[place[i], place[s]])] += power[i, s] ** 2 / size
    assert torch.allclose(found, slow)
    assert torch.allclose(return_probability(operator, distance, depth, place)[depth], slow[0])
    assert torch.allclose(reach(operator, distance, depth, 2, place)[depth], slow[2:].sum())


@pytest.mark.parametrize("name", GRAPHS)
def test_a_unitary_walk_keeps_its_energy_and_moves_at_most_one_hop_a_step(name: str) -> None:
    operator, distance, place = walk(name)
    energy = energy_by_distance(operator, distance, 10, place)
    assert torch.allclose(energy.sum(1), torch.ones(11).double())
    for depth in range(min(10, energy.size(1))):
        assert (energy[depth, depth + 1 :] == 0).all()
    assert (energy[:, -1] == 0).all(), "nothing gets to another component"


def test_the_grover_walk_on_a_ring_runs_straight_around() -> None:
    edge_index, num_nodes = ring(8)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    operator = GUMP(3, 8, 2, coin="grover").propagation_matrix(torch.randn(8, 3), edge_index)
    distance = hop_distances(edge_index, num_nodes)
    assert reach(operator, distance, 8, 4, line_graph.arcs[1]).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert return_probability(operator, distance, 8, line_graph.arcs[1])[8] == 1


def test_vertices_are_their_own_place_and_lost_energy_is_nowhere() -> None:
    edge_index, num_nodes = path(3)
    step = torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    energy = energy_by_distance(step, hop_distances(edge_index, num_nodes), 2)
    assert torch.allclose(energy, torch.tensor([[1, 0, 0, 0], [0, 1 / 6, 0, 0], [0, 0, 1 / 48, 0]]))


@pytest.mark.parametrize("hops", [2, 3, 10])
def test_other_components_are_farther_than_any_number_of_hops(hops: int) -> None:
    distance = hop_distances(torch.tensor([[0, 2], [1, 3]]), num_nodes=4)
    assert reach(torch.full((4, 4), 0.5), distance, 1, hops).tolist() == [0, 0.5]


def test_an_even_spread_is_counted() -> None:
    edge_index, num_nodes = ring(6)
    assert even_reach(hop_distances(edge_index, num_nodes), 2) == pytest.approx(3 / 6)
    two = hop_distances(torch.cat([edge_index, edge_index + 6], dim=1), 12)
    assert even_reach(two, 2) == pytest.approx(3 / 6), "within the component"


def test_wrong_places_are_refused() -> None:
    operator, distance, place = walk("ring")
    with pytest.raises(ValueError, match=r"'place' must name the vertex of each of the 12 states \(got 11\)"):
        energy_by_distance(operator, distance, 1, place[1:])
    with pytest.raises(ValueError, match=r"'hops' must not be negative \(got -1\)"):
        reach(operator, distance, 1, -1, place)
