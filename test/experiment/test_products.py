from typing import Any

import pytest
import torch
from torch import Tensor

from gump.experiment import products
from gump.experiment.products import SummedInParts

LAYERS = {
    "linear": torch.nn.functional.linear,
    "without a bias": lambda x, weight, bias: torch.nn.functional.linear(x, weight),
    "matmul": lambda x, weight, bias: x @ weight.t() + bias,
}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes that were summed in parts."""
    shapes: list[tuple[int, ...]] = []
    whole = products._sum_of_products

    def noted(x: Tensor, grad: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return whole(x, grad)

    monkeypatch.setattr(products, "ROWS", 8)
    monkeypatch.setattr(products, "_sum_of_products", noted)
    return shapes


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("num_rows", [16, 37, 64])
@pytest.mark.parametrize("shared", ["nothing", "rows", "weights"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_are_those_of_torch(
    layer: str, num_rows: int, shared: str, dtype: torch.dtype, taken: list[tuple[int, ...]]
) -> None:
    torch.manual_seed(0)
    sizes = (num_rows, 5), (3, 5), (3,)
    x, weight, bias = (torch.randn(2, *size, dtype=dtype, requires_grad=True) for size in sizes)
    in_dims = {"nothing": (0, 0, 0), "rows": (None, 0, 0), "weights": (0, None, None)}[shared]
    given = [t if dim == 0 else t[0] for t, dim in zip((x, weight, bias), in_dims, strict=True)]
    along = torch.randn(2, num_rows, 3, dtype=dtype)

    def gradients() -> tuple[Tensor, ...]:
        out = torch.vmap(LAYERS[layer], in_dims)(*given)
        return out, *torch.autograd.grad((out * along).sum().real, [x, weight, bias], allow_unused=True)

    expected = gradients()
    assert not taken
    with SummedInParts():
        found = gradients()
    assert taken[0] == (2, num_rows, 5)
    torch.testing.assert_close(found, expected)


def test_few_rows_and_what_is_no_product_with_a_matrix_are_left_alone(taken: list[Any]) -> None:
    x, weight = torch.randn(4, 15, 5, requires_grad=True), torch.randn(4, 5, 3, requires_grad=True)
    with SummedInParts():
        (torch.vmap(torch.matmul)(x, weight).sum() + (x @ weight).sum() + (x[0] @ weight[0, :, 0]).sum()).backward()
    assert not taken
