import pytest
import torch
from graphs import SYMMETRIC, clique

from gump import EulerianLineGraph
from gump.diagnostics.accumulation import blocks_of_condition, energy_kept, fit_decay, predicted_energy, step_loss
from gump.diagnostics.propositions import assemble
from gump.linalg import polar_factor, unitarity_error


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_blocks_have_the_condition_that_was_asked_for() -> None:
    values = torch.linalg.svdvals(blocks_of_condition(5, 4, 1000.0, generator()))
    assert torch.allclose(values, torch.tensor([1, 0.1, 0.01, 0.001]).double().expand(5, 4))


def test_energy_is_that_of_matrix_powers() -> None:
    operator = torch.randn(7, 7, generator=generator()).double() / 3
    energy = energy_kept(operator, 6)
    for depth in range(7):
        assert torch.allclose(energy[depth], torch.linalg.matrix_power(operator, depth).norm() ** 2 / 7)


def test_probes_have_the_same_mean() -> None:
    operator = torch.randn(50, 50, generator=generator()).double() / 50**0.5
    exact, probed = energy_kept(operator, 3), energy_kept(operator.to_sparse(), 3, 5000, generator(1))
    assert probed[0] == 1
    assert torch.allclose(probed, exact, rtol=0.02)


def test_so_they_have_with_complex_numbers() -> None:
    phases = torch.diag(torch.polar(torch.ones(6).double(), torch.linspace(0, 3, 6).double()))
    assert torch.allclose(energy_kept(phases, 3, 7, generator()), torch.ones(4).double()), "a unitary operator keeps all energy"
    operator = torch.randn(50, 50, generator=generator(), dtype=torch.complex128) / 50**0.5
    assert torch.allclose(energy_kept(operator, 3, 5000, generator(1)), energy_kept(operator, 3), rtol=0.02)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_loss_and_residual_are_those_of_the_whole_operator(name: str) -> None:
    line_graph = EulerianLineGraph.from_edge_index(*SYMMETRIC[name])
    blocks = [polar_factor(blocks_of_condition(g.num_blocks, g.degree, 1e3, generator()), num_steps=5) for g in line_graph.groups]
    operator, found = assemble(blocks, line_graph), step_loss(blocks)
    assert found.residual == pytest.approx(unitarity_error(operator).item())
    assert found.loss == pytest.approx(1 - energy_kept(operator, 1)[1].item())
    assert found.residual**2 <= found.loss + 1e-12
    assert found.loss <= found.residual


def test_energy_falls_with_condition_and_rises_with_steps() -> None:
    line_graph = EulerianLineGraph.from_edge_index(*clique(6))

    def left(condition: float, num_steps: int) -> float:
        blocks = polar_factor(blocks_of_condition(6, 5, condition, generator()), num_steps=num_steps)
        return float(energy_kept(assemble([blocks], line_graph), 20)[20])

    assert left(1e1, 10) > 1 - 1e-9
    assert left(1e3, 10) < 0.5
    assert left(1e5, 10) < left(1e3, 10) < left(1e3, 12) < left(1e3, 20)
    assert left(1e3, 20) > 1 - 1e-9


def test_the_law_starts_at_the_loss_and_becomes_exponential() -> None:
    loss, depth = torch.tensor(0.1, dtype=torch.float64), torch.arange(20).double()
    for shape in (0.5, 2.0, 100.0):
        law = predicted_energy(loss, depth, shape)
        assert torch.allclose(law[:2], torch.tensor([1, 0.9]).double())
        assert (law >= 0.9**depth - 1e-12).all(), "a tail only keeps more"
    assert torch.allclose(predicted_energy(loss, depth, 1e6), 0.9**depth, rtol=1e-4)


def test_a_law_that_holds_is_found_again() -> None:
    depth = torch.arange(60).double()
    energy = torch.stack([predicted_energy(torch.tensor(loss).double(), depth, 1.7) for loss in (0.05, 0.2, 0.5)])
    fit = fit_decay(energy)
    assert fit.shape == pytest.approx(1.7, rel=1e-3)
    assert fit.error < 1e-3
    assert fit.exponential_error > 0.5
    assert not fit.at_bound


def test_where_no_shape_is_better_the_law_is_exponential_and_a_bound_is_told() -> None:
    depth = torch.arange(60).double()
    fit = fit_decay(0.9 ** depth.unsqueeze(0))
    assert (fit.shape, fit.at_bound) == (float("inf"), True)
    assert fit.error == fit.exponential_error < 1e-12
    assert torch.allclose(predicted_energy(torch.tensor(0.1, dtype=torch.float64), depth, fit.shape), 0.9**depth)
    slow = predicted_energy(torch.tensor(0.05).double(), depth, 1e-4).unsqueeze(0)
    fit = fit_decay(slow)
    assert fit.shape == pytest.approx(0.01, rel=1e-2)
    assert fit.at_bound


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'blocks' must hold a block \(got none\)"):
        step_loss([])
    for num_probes in (0, -1):
        with pytest.raises(ValueError, match=rf"'num_probes' must be at least 1 \(got {num_probes}\)"):
            energy_kept(torch.eye(2), 1, num_probes)


def test_nothing_to_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="'energy' must hold an operator that loses energy"):
        fit_decay(torch.ones(2, 10))
