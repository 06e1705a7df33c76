from itertools import pairwise

import pytest
import torch
from graphs import DEVICES, SYMMETRIC, random_graph, ring
from torch import Tensor

from gump.diagnostics.expected_jacobian import expected_jacobian
from gump.diagnostics.row_energy import row_energy
from gump.nn import GUMP


def operator_of(name: str) -> Tensor:
    edge_index, num_nodes = {**SYMMETRIC, "random": random_graph(0)}[name]
    torch.manual_seed(0)
    model = GUMP(3, 8, 2).double().eval()
    return model.propagation_matrix(torch.randn(num_nodes, 3).double(), edge_index).to_dense().detach()


def draw_weights(*widths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(a, b, generator=generator, dtype=torch.float64) / a**0.5 for a, b in pairwise(widths)]


@pytest.mark.parametrize("keep", [0.5, 0.8])
@pytest.mark.parametrize("name", ["star", "ring", "random"])
def test_proposition_4_holds_up_to_the_error_of_sampling(name: str, keep: float) -> None:
    operator, weights = operator_of(name), draw_weights(3, 4, 4, 2)
    found = expected_jacobian(operator, weights, 1, 2000, keep, torch.Generator().manual_seed(2))
    assert found.gate == keep**3
    error = found.mean - found.gate * found.product
    moved = found.standard_error > 1e-12
    assert moved.any()
    assert (error[~moved].abs() < 1e-12).all(), "where nothing is random there is nothing to be wrong"
    z = error[moved] / found.standard_error[moved]
    assert z.abs().max() < 5, "of a few hundred entries none is five standard errors off"
    assert 0.2 < z.square().mean() < 3, "and they are off by as much as sampling explains, entries being correlated"


def test_the_product_is_that_of_powers_and_weights() -> None:
    operator, weights = operator_of("grid"), draw_weights(3, 4, 2)
    product = expected_jacobian(operator, weights, 5, 2).product
    power = operator @ operator
    for source in range(operator.size(0)):
        assert torch.allclose(product[source], power[5, source] * (weights[0] @ weights[1]).t())


def test_a_sample_with_gates_of_relu_is_what_autograd_computes() -> None:
    operator, weights = operator_of("ring"), draw_weights(3, 4, 2)

    def forward(x: Tensor) -> Tensor:
        for weight in weights:
            x = (operator @ x @ weight).relu()
        return x[7]

    found = expected_jacobian(operator, weights, 7, 2, None, torch.Generator().manual_seed(3))
    again = torch.Generator().manual_seed(3)
    draws = [torch.randn(12, 3, generator=again, dtype=torch.float64) for _ in range(2)]
    slow = sum(torch.autograd.functional.jacobian(forward, draw).transpose(0, 1) for draw in draws) / 2
    assert torch.allclose(found.mean, slow)


def test_the_average_over_sources_is_the_row_energy() -> None:
    operator, weights = operator_of("star"), draw_weights(3, 4, 2)
    product = expected_jacobian(operator, weights, 2, 2).product
    expected = row_energy(operator, 2)[2, 2] * (weights[0] @ weights[1]).norm() ** 2
    assert torch.allclose(product.square().sum((1, 2)).mean(), expected)


def test_without_gates_there_is_no_deviation_and_with_relu_there_is_some() -> None:
    operator, weights = operator_of("ring"), draw_weights(4, 8, 8, 4)
    assert expected_jacobian(operator, weights, 0, 2, keep=1.0).deviation < 1e-14
    relu = expected_jacobian(operator, weights, 0, 500, None, torch.Generator().manual_seed(0))
    assert 0 < relu.gate < 1
    assert relu.deviation > 0.05, "gates of later layers follow the weights: the factorization is an approximation"


def test_what_makes_no_sense_is_refused() -> None:
    operator = torch.eye(ring(3)[1])
    with pytest.raises(ValueError, match="'weights' must hold a matrix"):
        expected_jacobian(operator, [], 0)
    with pytest.raises(ValueError, match=r"'keep' must be above 0 and at most 1 \(got 0\)"):
        expected_jacobian(operator, [torch.eye(2)], 0, keep=0)
    with pytest.raises(ValueError, match=r"'num_samples' must be at least 2"):
        expected_jacobian(operator, [torch.eye(2)], 0, num_samples=1)
    with pytest.raises(ValueError, match=r"'target' must be one of the 3 rows of 'operator' \(got 3\)"):
        expected_jacobian(operator, [torch.eye(2)], 3)
    with pytest.raises(ValueError, match=r"'operator' must be a square matrix \(got \[2, 3\]\)"):
        expected_jacobian(operator[:2], [torch.eye(2)], 0)
    with pytest.raises(ValueError, match=r"'operator' must be dense and real \(got torch.sparse_coo"):
        expected_jacobian(operator.to_sparse(), [torch.eye(2)], 0)
    with pytest.raises(ValueError, match=r"'weights' must be matrices of which each takes .* \(got \[\[2, 2\], \[3, 1\]\]\)"):
        expected_jacobian(operator, [torch.eye(2), torch.ones(3, 1)], 0)
    with pytest.raises(ValueError, match=r"device of 'operator', torch.float32 on cpu \(got torch.float64 on cpu\)"):
        expected_jacobian(operator, [torch.eye(2).double()], 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", [0.5, None])
def test_it_is_computed_where_the_operator_is(device: str, keep: float | None) -> None:
    operator, weights = operator_of("ring").to(device), [w.to(device) for w in draw_weights(3, 4, 2)]
    found = expected_jacobian(operator, weights, 0, 3, keep, torch.Generator().manual_seed(0))
    again = expected_jacobian(operator.cpu(), [w.cpu() for w in weights], 0, 3, keep, torch.Generator().manual_seed(0))
    assert found.mean.device == found.product.device == operator.device
    assert torch.allclose(found.mean.cpu(), again.mean)
