from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode

from gump.experiment import summed_in_parts
from gump.experiment.summed_in_parts import SummedInParts

LAYERS = {
    "linear": linear,
    "without a bias": lambda x, weight, bias: linear(x, weight),
    "matmul": lambda x, weight, bias: x @ weight.t() + bias,
}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes that were summed in parts, of eight rows each."""
    shapes: list[tuple[int, ...]] = []
    whole = summed_in_parts._sum_of_products

    def noted(x: Tensor, grad: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return whole(x, grad)

    monkeypatch.setattr(summed_in_parts, "ROWS", 8)
    monkeypatch.setattr(summed_in_parts, "_sum_of_products", noted)
    return shapes


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("num_rows", [16, 37, 64])
@pytest.mark.parametrize("in_dims", [(0, 0, 0), (None, 0, 0), (0, None, None), (1, 1, 0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_are_those_of_torch(
    layer: str, num_rows: int, in_dims: tuple[int | None, ...], dtype: torch.dtype, taken: list[tuple[int, ...]]
) -> None:
    torch.manual_seed(0)
    given = [
        torch.randn(size if dim is None else [*size[:dim], 2, *size[dim:]], dtype=dtype, requires_grad=True)
        for size, dim in zip(([num_rows, 5], [3, 5], [3]), in_dims, strict=True)
    ]
    along = torch.randn(2, num_rows, 3, dtype=dtype)

    def gradients() -> tuple[Tensor, ...]:
        out = torch.vmap(LAYERS[layer], in_dims)(*given)
        return out, *torch.autograd.grad((out * along).sum().real, given, allow_unused=True)

    expected = gradients()
    assert not taken
    with SummedInParts():
        found = gradients()
    assert taken[0] == (2, num_rows, 5)
    torch.testing.assert_close(found, expected)


class Products(TorchDispatchMode):
    """Notes the shapes that matrices are multiplied in."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.bmm.default:
            self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


def test_parts_are_multiplied_at_once_and_what_is_left_is_added(taken: list[Any]) -> None:
    x, weight = torch.randn(37, 5), torch.randn(5, 3, requires_grad=True)
    with SummedInParts():
        out = x @ weight
    with Products() as found:
        out.sum().backward()
    assert found.shapes == [(4, 5, 8)]


@pytest.mark.parametrize("frozen", [0, 1])
def test_what_needs_no_gradient_gets_none(frozen: int, taken: list[Any]) -> None:
    given = [torch.randn(20, 5), torch.randn(5, 3)]
    given[1 - frozen].requires_grad_()
    with SummedInParts():
        (given[0] @ given[1]).sum().backward()
    assert given[frozen].grad is None
    assert given[1 - frozen].grad is not None
    assert bool(taken) == (frozen == 0)


def test_derivatives_of_derivatives_and_many_at_a_time(taken: list[Any]) -> None:
    torch.manual_seed(0)
    x, weight = (
        torch.randn(20, 5, dtype=torch.float64, requires_grad=True),
        torch.randn(5, 3, dtype=torch.float64, requires_grad=True),
    )
    with SummedInParts():
        assert torch.autograd.gradgradcheck(torch.matmul, [x, weight])
        out = x @ weight
    along = torch.randn(4, 20, 3, dtype=torch.float64)
    (found,) = torch.autograd.grad(out, weight, along, is_grads_batched=True, retain_graph=True)
    torch.testing.assert_close(found, x.mT @ along)


def test_models_of_models_side_by_side(taken: list[Any]) -> None:
    x, weight = torch.randn(3, 2, 20, 5), torch.randn(3, 2, 5, 4, requires_grad=True)
    with SummedInParts():
        out = torch.vmap(torch.vmap(torch.matmul))(x, weight)
    out.sum().backward()
    assert taken[0] == (3, 2, 20, 5)
    torch.testing.assert_close(weight.grad, x.sum(2).unsqueeze(-1).expand_as(weight))


def test_few_rows_and_what_is_no_product_of_two_matrices_are_left_alone(taken: list[Any]) -> None:
    x, weight, bias = torch.randn(20, 20, 5), torch.randn(20, 5, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    with SummedInParts():
        parts = [torch.vmap(torch.matmul)(x[:, :15], weight), x @ weight, x[0] @ weight[0, :, 0], x @ weight[0]]
        named = linear(x[0], weight[0].t(), bias=bias)
        sum(part.sum() for part in parts).backward()
    torch.testing.assert_close(named, x[0] @ weight[0] + bias)
    assert not taken


def test_it_is_for_a_few_models_on_a_gpu() -> None:
    few, many = summed_in_parts.FEW, summed_in_parts.FEW + 1
    assert isinstance(summed_in_parts.parts_for(few, torch.device("cuda")), SummedInParts)
    assert not isinstance(summed_in_parts.parts_for(many, torch.device("cuda")), SummedInParts)
    assert not isinstance(summed_in_parts.parts_for(few, torch.device("cpu")), SummedInParts)
