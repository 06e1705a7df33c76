from pathlib import Path

import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, Graph, barbell, clique, grid, path, random_graph, ring, star

from gump.datasets import load_tu
from gump.diagnostics.row_energy import row_energy, spectral_row_energy
from gump.nn import GUMP

GRAPHS: dict[str, Graph] = {**SYMMETRIC, **{f"random {seed}": random_graph(seed) for seed in range(3)}}
LOLLIPOP = torch.tensor([[0, 1, 2, 2, 3, 4, 5, 3], [1, 2, 0, 3, 4, 5, 6, 7]]), 8
NOT_BIPARTITE = {"clique": clique(5), "ring": ring(7), "barbell": barbell(4), "triangle": clique(3), "lollipop": LOLLIPOP}


def normalized(graph: Graph, self_loops: bool = False) -> torch.Tensor:
    adjacency = torch.zeros(graph[1], graph[1], dtype=torch.float64)
    adjacency[graph[0][0], graph[0][1]] = adjacency[graph[0][1], graph[0][0]] = 1
    if self_loops:
        adjacency.fill_diagonal_(1)
    scale = adjacency.sum(1).rsqrt()
    return scale[:, None] * adjacency * scale


@pytest.mark.parametrize("coin", ["bounded", "polar", "grover"])
@pytest.mark.parametrize("name", GRAPHS)
def test_theorem_1_holds_at_every_depth_to_a_hundred(name: str, coin: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    operator = GUMP(3, 8, 2, coin=coin).double().eval().propagation_matrix(torch.randn(num_nodes, 3).double(), edge_index)
    energy = row_energy(operator.detach(), 100)
    assert energy.shape == (101, operator.size(0))
    assert (operator.size(0) * energy - 1).abs().max() < 1e-6


def test_theorem_1_holds_on_a_molecule(data_root: Path) -> None:
    graph = load_tu("NCI1", data_root)[0]
    torch.manual_seed(0)
    operator = GUMP(graph.num_features, 64, 2).double().eval().propagation_matrix(graph.x.double(), graph.edge_index)
    assert (operator.size(0) * row_energy(operator.detach(), 100) - 1).abs().max() < 1e-6


def test_newton_schulz_loses_energy_where_features_are_tied() -> None:
    edge_index, num_nodes = clique(5)
    torch.manual_seed(0)
    model = GUMP(3, 8, 2, coin="newton_schulz").double().eval()
    operator = model.propagation_matrix(torch.ones(num_nodes, 3).double(), edge_index).detach()
    assert operator.size(0) * row_energy(operator, 1)[1].mean() == pytest.approx(1 / 4, abs=1e-4)


@pytest.mark.parametrize("complex_numbers", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_is_the_norm_of_rows_of_matrix_powers(sparse: bool, complex_numbers: bool) -> None:
    torch.manual_seed(0)
    operator = torch.randn(6, 6, dtype=torch.complex128 if complex_numbers else torch.float64) / 2
    found = row_energy(operator.to_sparse() if sparse else operator, 4, targets=torch.tensor([4, 1]))
    for depth in range(5):
        power = torch.linalg.matrix_power(operator, depth)
        slow = torch.stack([sum(power[i, s].abs() ** 2 for s in range(6)) / 6 for i in (4, 1)])
        assert torch.allclose(found[depth], slow)


@pytest.mark.parametrize("name", NOT_BIPARTITE)
def test_theorem_2_decomposes_the_energy_and_bounds_it(name: str) -> None:
    graph = NOT_BIPARTITE[name]
    spectral, slow = spectral_row_energy(*graph, depth=30), row_energy(normalized(graph), 30)
    assert torch.allclose(spectral.energy, slow, rtol=0, atol=1e-13)
    assert (spectral.lower <= slow + 1e-14).all()
    assert (slow <= spectral.upper + 1e-14).all()
    degree = normalized(graph).gt(0).sum(1).double()
    assert torch.allclose(spectral.stationary, degree / degree.sum() / graph[1])
    assert torch.allclose(slow[-1], spectral.stationary, rtol=0, atol=spectral.rate**60 + 1e-14)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_with_self_loops_it_is_the_matrix_of_gcn(name: str) -> None:
    graph = SYMMETRIC[name]
    spectral = spectral_row_energy(*graph, depth=20, self_loops=True)
    assert torch.allclose(spectral.energy, row_energy(normalized(graph, self_loops=True), 20), rtol=0, atol=1e-13)
    assert 0 < spectral.rate < 1 or name == "clique"


def test_the_rate_is_the_second_modulus() -> None:
    graph = ring(7)
    matrix = nx.to_numpy_array(nx.cycle_graph(7)) / 2
    slow = torch.linalg.eigvalsh(torch.from_numpy(matrix)).abs().sort()[0]
    assert spectral_row_energy(*graph, depth=1).rate == pytest.approx(slow[-2].item())


@pytest.mark.parametrize("name", NOT_BIPARTITE)
def test_bounds_are_those_of_the_leading_eigenvectors(name: str) -> None:
    graph, depth = NOT_BIPARTITE[name], 4
    values, vectors = torch.linalg.eigh(normalized(graph))
    spectral = spectral_row_energy(*graph, depth=depth)
    for i in range(graph[1]):
        leading = sum(vectors[i, j] ** 2 for j in range(graph[1] - 1) if (values[j].abs() - spectral.rate).abs() < 1e-12)
        bounds = (spectral.lower[depth, i], spectral.upper[depth, i])
        for bound, factor in zip(bounds, (leading, 1), strict=True):
            assert bound == pytest.approx(float(spectral.stationary[i] + factor * spectral.rate ** (2 * depth) / graph[1]))


def test_bounds_are_not_both_trivial() -> None:
    spectral = spectral_row_energy(*barbell(4), depth=10)
    assert (spectral.lower > spectral.stationary * 1.01).any()
    assert (spectral.upper[10] < spectral.upper[0]).all()


def test_graphs_that_the_theorem_excludes_are_refused_with_the_reason() -> None:
    for bipartite in (ring(6), star(4), path(3), grid(3, 3)):
        with pytest.raises(ValueError, match=r"must not be bipartite .* pass self_loops=True"):
            spectral_row_energy(*bipartite, depth=3)
    edges = clique(3)[0]
    with pytest.raises(ValueError, match=r"must be connected \(got 2 components\)"):
        spectral_row_energy(torch.cat([edges, edges + 3], dim=1), 6, depth=3)
    with pytest.raises(ValueError, match=r"must be connected \(got 3 components\)"):
        spectral_row_energy(torch.tensor([[0], [1]]), 4, depth=3, self_loops=True)
    with pytest.raises(ValueError, match="'edge_index' must have an edge"):
        spectral_row_energy(torch.empty(2, 0, dtype=torch.long), 3, depth=3)
    with pytest.raises(ValueError, match=r"'depth' must not be negative \(got -1\)"):
        spectral_row_energy(*ring(5), depth=-1)
    with pytest.raises(ValueError, match=r"'operator' must be a square matrix \(got \[2, 3\]\)"):
        row_energy(torch.ones(2, 3), 1)
    with pytest.raises(ValueError, match=r"'operator' must hold floating-point or complex numbers \(got torch.int64\)"):
        row_energy(torch.ones(2, 2).long(), 1)
    with pytest.raises(ValueError, match=r"'targets' must name rows from 0 to 1 \(got -1 to 0\)"):
        row_energy(torch.ones(2, 2), 1, targets=torch.tensor([0, -1]))
    with pytest.raises(ValueError, match=r"'targets' must be a list of rows of type torch.long \(got \[1\] of torch.float32\)"):
        row_energy(torch.ones(2, 2), 1, targets=torch.tensor([0.0]))
    with pytest.raises(ValueError, match="'edge_index' must"):
        spectral_row_energy(clique(4)[0], 3, depth=1)
