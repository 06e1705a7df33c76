import pytest
import torch

from gump.linalg import grover, unitarity_error


@pytest.mark.parametrize("degree", [1, 2, 3, 7])
def test_it_is_orthogonal_symmetric_and_treats_all_arcs_alike(degree: int) -> None:
    coin = grover(degree, torch.empty(0, dtype=torch.float64))
    order = torch.randperm(degree, generator=torch.Generator().manual_seed(0))
    assert unitarity_error(coin) < 1e-14
    assert torch.equal(coin, coin.t())
    assert torch.equal(coin[order][:, order], coin)
    assert coin.sum(0).tolist() == pytest.approx([1.0] * degree)
