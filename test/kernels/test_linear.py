import pytest
import torch

import gump.kernels.linear
from gump.kernels import LAUNCHED
from gump.kernels.linear import holds, linear
from gump.nn.linear import linear as layer_with_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def case(num_rows: int, num_in: int, num_out: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = (num_rows, num_in), (num_out, num_in), (num_out,)
    x, weight, bias = (torch.randn(shape, device=DEVICE, requires_grad=True) for shape in shapes)
    return x, weight, bias, torch.rand(num_rows, device=DEVICE) < 0.6


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 5, 33), (200, 64, 64), (40, 128, 64), (30, 64, 200)])
def test_one_pass_equals_torch_and_so_do_its_gradients(shape: tuple[int, int, int], masked: bool, relu: bool) -> None:
    x, weight, bias, mask = case(*shape)
    mask = mask if masked else torch.ones_like(mask)
    expected = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    expected = (expected.relu() if relu else expected) * mask.unsqueeze(-1)
    out = linear(x, weight, bias, mask if masked else None, relu)
    torch.testing.assert_close(out.double(), expected, atol=2e-5, rtol=2e-5)
    along = torch.randn_like(out)
    ours = torch.autograd.grad((out * along).sum(), [x, weight, bias])
    theirs = torch.autograd.grad((expected * along).sum(), [x, weight, bias])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("shape", [(300, 16, 16), (1100, 128, 128)])
@pytest.mark.parametrize("wanted", ["rows and weights", "weights alone"])
def test_gradients_of_many_rows_in_several_programs_of_several_tiles(
    shape: tuple[int, int, int], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gump.kernels.linear, "PROGRAMS", 1)
    launches, grids = gump.kernels.linear._launches, []
    monkeypatch.setattr(
        gump.kernels.linear, "_launches", lambda *args, **sizes: grids.append(launches(*args, **sizes)) or grids[-1]
    )
    x, weight, bias, mask = (torch.stack([t, t.flip(0)]).detach() for t in case(*shape))
    given = [x.requires_grad_(wanted != "weights alone"), weight.requires_grad_(), bias.requires_grad_()]
    out = torch.vmap(lambda *t: linear(*t, relu=True))(*given, mask)
    along = torch.randn_like(out)
    expected = (torch.baddbmm(bias.double().unsqueeze(1), x.double(), weight.double().mT)).relu() * mask.unsqueeze(-1)
    leaves = [t for t in given if t.requires_grad]
    ours, theirs = (torch.autograd.grad((y * along).sum(), leaves) for y in (out, expected))
    (num_programs, num_replicas), sizes = grids[-1]
    assert num_programs > 1
    assert num_replicas == 2
    assert sizes["CHUNK"] > sizes["ROWS"]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)


def test_without_a_bias() -> None:
    x, weight, _, _ = case(10, 4, 3)
    out = linear(x, weight)
    torch.testing.assert_close(out, x @ weight.t(), atol=1e-5, rtol=1e-5)
    out.sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(0).expand(3, -1), atol=1e-5, rtol=1e-5)


def test_what_padding_holds_makes_no_difference() -> None:
    x, weight, bias, mask = case(300, 8, 8)
    dirty = torch.where(mask.unsqueeze(-1), x, torch.nan).detach().requires_grad_()
    out = linear(dirty, weight, bias, mask, relu=True)
    assert bool((out[~mask] == 0).all())
    out.sum().backward()
    assert bool(weight.grad.isfinite().all())
    assert bool((dirty.grad[~mask] == 0).all())


def test_replicas_side_by_side_equal_each_alone() -> None:
    x, weight, bias, mask = (t.detach() for t in case(50, 6, 7))
    xs, weights = torch.stack([x, -x, 2 * x]), torch.stack([weight, weight + 1, -weight]).requires_grad_()
    masks = torch.stack([mask, ~mask, mask])
    out = torch.vmap(lambda x, w, m: linear(x, w, bias, m, True))(xs, weights, masks)
    out.square().sum().backward()
    for r in range(3):
        own = weights[r].detach().requires_grad_()
        alone = linear(xs[r], own, bias, masks[r], True)
        alone.square().sum().backward()
        torch.testing.assert_close(out[r], alone)
        torch.testing.assert_close(weights.grad[r], own.grad)


def test_large_layers_are_left_to_torch() -> None:
    device = torch.device("cpu")  # what the largest devices have
    assert holds(64, 64, device)
    assert holds(128, 128, device)
    assert holds(64, 256, device)
    assert not holds(512, 16, device)
    assert not holds(136, 136, device), "a program would take 256 by 256 of it"


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
@pytest.mark.parametrize("widths", [(16, 16), (64, 64), (100, 128), (128, 128), (64, 256), (256, 64), (136, 136), (16, 900)])
def test_layers_of_all_widths_run_whether_a_kernel_holds_them_or_not(widths: tuple[int, int]) -> None:
    layer, x = torch.nn.Linear(*widths, device=DEVICE), torch.randn(50, widths[0], device=DEVICE)
    torch.testing.assert_close(layer_with_kernel(layer, x, act=torch.relu), layer(x).relu(), atol=1e-4, rtol=1e-4)
    layer_with_kernel(layer, x).square().mean().backward()
    assert layer.weight.grad.abs().max() > 0


def test_a_kernel_that_ran_can_be_named() -> None:
    LAUNCHED.clear()
    linear(torch.ones(2, 3, device=DEVICE), torch.ones(4, 3, device=DEVICE))
    assert {"linear"} == LAUNCHED
