"""A second derivative is an error wherever it would be wrong, and gradients that only could be differentiated again are not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from graphs import random_graph, star
from torch import Tensor
from torch.func import functional_call, grad, jacrev, vmap
from torch.utils.checkpoint import checkpoint

from gump import EulerianLineGraph
from gump.kernels.once_differentiable import once_differentiable
from gump.linalg import Tiles, low_rank_polar, polar_factor
from gump.linalg.perturbed_polar import perturbed_polar
from gump.nn import GUMP, Propagation
from gump.nn.pair_score import pair_scores

ONCE = r"can be differentiated once \(got a second derivative\)"


class Cube(torch.autograd.Function):
    """Has a derivative that would be wrong if it were taken again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, unused: Tensor | None) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return 3 * ctx.saved_tensors[0].detach().square() * grad, None


def cube(x: Tensor) -> Tensor:
    out: Tensor = Cube.apply(x, None)
    return out


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def hub_coins(x: Tensor) -> Tensor:
    return low_rank_polar(x, x.flip(0), Tiles.of({5: 1}), beta=0.9).dense()[0]


def scores(keep: bool) -> Callable[[Tensor], Tensor]:
    return lambda x: pair_scores(x, x, normal(2), 0.01, [(1, 2), (3, 1)], keep)[1]


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "cube": (cube, normal(3)),
    "exact": (lambda x: polar_factor(x, check_finite=False), normal(2, 3, 3)),
    "bounds": (lambda x: polar_factor(x, bounds=(0.01, 9.0), check_finite=False), normal(2, 4, 4)),
    "steps": (lambda x: polar_factor(x, num_steps=3, check_finite=False), normal(2, 3, 3)),
    "perturbed": (lambda x: perturbed_polar([x], [torch.eye(3).double()], 0.9)[0], normal(2, 3, 3)),
    "hubs": (hub_coins, normal(5, 2)),
    "pairs": (scores(keep=True), normal(5, 2)),
    "pairs in chunks": (scores(keep=False), normal(5, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_second_derivative_of_a_sum_is_refused_and_not_zero(name: str) -> None:
    function, x = FUNCTIONS[name]
    weight = normal(*function(x).shape)

    def loss(x: Tensor) -> Tensor:
        return (function(x) * weight).sum() + x.square().sum()

    with pytest.raises(RuntimeError, match=ONCE):
        torch.autograd.functional.hessian(loss, x)
    with pytest.raises(RuntimeError, match=ONCE):
        jacrev(grad(loss))(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_penalty_is_refused(name: str) -> None:
    function, x = FUNCTIONS[name][0], FUNCTIONS[name][1].clone().requires_grad_()
    (first,) = torch.autograd.grad(function(x).pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=ONCE):
        torch.autograd.grad(first.square().sum(), x, retain_graph=True)
    with pytest.raises(RuntimeError, match=ONCE):
        first.square().sum().backward()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_derivatives_are_the_same_however_they_are_asked_for(name: str) -> None:
    function, x = FUNCTIONS[name][0], FUNCTIONS[name][1].clone().requires_grad_()
    (plain,) = torch.autograd.grad(function(x).pow(3).sum(), x)
    (kept,) = torch.autograd.grad(function(x).pow(3).sum(), x, create_graph=True)
    assert torch.equal(plain, kept)
    torch.testing.assert_close(grad(lambda x: function(x).pow(3).sum())(x.detach()), plain)
    assert plain.abs().max() > 1e-3


def test_what_does_not_depend_on_it_may_be_differentiated_again() -> None:
    x, y = normal(3).requires_grad_(), normal(3).requires_grad_()
    first = torch.autograd.grad(cube(x).sum() + y.pow(3).sum(), (x, y), create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first[1].sum(), y)[0], 6 * y)


def test_it_works_over_replicas_and_through_checkpoints() -> None:
    x = normal(4, 3)
    torch.testing.assert_close(vmap(grad(lambda row: cube(row).sum()))(x), 3 * x.square())
    with pytest.raises(RuntimeError, match=ONCE):
        vmap(grad(lambda row: grad(lambda r: cube(r).sum())(row).sum()))(x)
    x.requires_grad_()
    out = checkpoint(cube, x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x, create_graph=True)[0], 3 * x.square())


@pytest.mark.parametrize("sparse", [True, False])
def test_mixed_derivatives_of_states_and_coins_are_not_zero(sparse: bool) -> None:
    line_graph = EulerianLineGraph.from_edge_index(*star(3))
    blocks = [normal(g.num_blocks, g.degree, g.degree).requires_grad_() for g in line_graph.groups]
    h = normal(line_graph.num_arcs, 2).requires_grad_()
    out = Propagation(blocks, line_graph, sparse=sparse)(h)
    (first,) = torch.autograd.grad((out * normal(*out.shape)).sum(), h, create_graph=True)
    if sparse:
        with pytest.raises(RuntimeError, match=ONCE):
            torch.autograd.grad(first.sum(), blocks)
    else:
        assert all(g.abs().max() > 0.1 for g in torch.autograd.grad(first.sum(), blocks))


@pytest.mark.parametrize(
    "settings", [{"norm": None, "base_norm": None}, {}, {"conv": "gin"}, {"conv": "graph"}, {"conv": "gcnii"}, {"max_block": 2}]
)
def test_a_model_has_no_hessian_and_says_so(settings: dict[str, Any]) -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    model = GUMP(3, 4, 2, **settings).double()
    with pytest.raises(RuntimeError, match=ONCE):
        torch.autograd.functional.hessian(lambda x: model(x, edge_index).sum(), normal(num_nodes, 3))
    parameters = dict(model.named_parameters())
    (first,) = torch.autograd.grad(
        functional_call(model, parameters, (normal(num_nodes, 3), edge_index)).square().sum(),
        parameters["coin.lin_source.weight"],
        create_graph=True,
    )
    assert first.abs().max() > 1e-6
    with pytest.raises(RuntimeError, match=ONCE):
        torch.autograd.grad(first.sum(), parameters["convs.0.lin.weight"])
