from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.utils.parametrizations import orthogonal

from gump.nn import ArcLinear
from gump.nn.linear import is_relu
from gump.nn.unaltered import is_unaltered


class Doubled(torch.nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Named(torch.nn.Linear):
    pass


class Leaky(torch.nn.ReLU):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.leaky_relu(x)


def replaced() -> torch.nn.Linear:
    layer = torch.nn.Linear(2, 2)
    layer.forward = lambda x: x  # type: ignore[method-assign]
    return layer


def hooked() -> torch.nn.Linear:
    layer = torch.nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: None)
    return layer


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: torch.nn.Linear(2, 2), True),
        (lambda: ArcLinear(2, 2), True),
        (lambda: Named(2, 2), True),
        (lambda: orthogonal(torch.nn.Linear(2, 2)), True),
        (lambda: orthogonal(ArcLinear(2, 2)), True),
        (lambda: Doubled(2, 2), False),
        (lambda: torch.nn.Sequential(torch.nn.Linear(2, 2)), False),
        (replaced, False),
        (hooked, False),
    ],
)
def test_only_what_computes_as_its_class_does_is_unaltered(make: Callable[[], torch.nn.Module], expected: bool) -> None:
    assert is_unaltered(make(), torch.nn.Linear, ArcLinear) is expected


def test_another_class_is_another_thing() -> None:
    assert not is_unaltered(ArcLinear(2, 2), torch.nn.Linear)
    assert not is_unaltered(torch.nn.Linear(2, 2), ArcLinear)


def test_a_nonlinearity_that_is_made_of_a_relu_is_none() -> None:
    assert is_relu(torch.nn.ReLU())
    assert is_relu(torch.relu)
    assert not is_relu(Leaky())
    assert not is_relu(torch.tanh)
