"""Norms, alone and with padding."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call, stack_module_state

from gump.nn.norm import NORMS, BatchNorm, LayerNorm, NoNorm, make_norm, normalized


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def batch_norm(seed=0, channels=3, momentum=0.1):
    """A norm in double precision whose parameters and running statistics show where they are used."""
    norm = BatchNorm(channels, momentum=momentum).double()
    values = [normal(channels, seed=10 * seed + i) for i in range(4)]
    norm.load_state_dict(
        dict(zip(("weight", "bias", "running_mean", "running_var"), (*values[:3], values[3].square()), strict=True))
    )
    return norm


def torch_norm(norm):
    """Torch's norm with the same parameters and statistics."""
    theirs = torch.nn.BatchNorm1d(norm.channels, norm.eps, norm.momentum).double()
    theirs.load_state_dict({**theirs.state_dict(), **norm.state_dict()})
    return theirs.train(norm.training)


def assert_same_statistics(norm, other):
    torch.testing.assert_close(norm.running_mean, other.running_mean)
    torch.testing.assert_close(norm.running_var, other.running_var)


def padded(num_rows=7, num_padding=4):
    """Rows, a mask, and both with padding in between."""
    mask = torch.zeros(num_rows + num_padding, dtype=torch.bool)
    mask[torch.randperm(num_rows + num_padding, generator=torch.Generator().manual_seed(0))[:num_rows]] = True
    x = 100 * normal(num_rows + num_padding, 3, seed=2)
    x[mask] = 5 + 2 * normal(num_rows, 3, seed=1)
    return x[mask].clone(), x, mask


def test_two_rows_are_as_far_above_their_mean_as_below():
    norm = BatchNorm(2, eps=0.0)
    x = torch.tensor([[1.0, 10.0], [3.0, 50.0], [7.0, 7.0]])
    assert norm(x, torch.tensor([True, True, False]))[:2].tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    torch.testing.assert_close(norm.running_mean, 0.1 * torch.tensor([2.0, 30.0]))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * torch.tensor([2.0, 800.0]))


@pytest.mark.parametrize("full_mask", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_where_all_rows_count_it_is_that_of_torch(training, full_mask):
    norm = batch_norm().train(training)
    theirs = torch_norm(norm)
    x = 5 + normal(8, 3)
    for _ in range(3):
        torch.testing.assert_close(norm(x, torch.ones(8, dtype=torch.bool) if full_mask else None), theirs(x))
        assert_same_statistics(norm, theirs)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_padding_makes_no_difference_to_the_rows(training, relu):
    rows, x, mask = padded()
    norm, alone = batch_norm().train(training), batch_norm().train(training)
    x.requires_grad_()
    rows.requires_grad_()
    out, expected = norm(x, mask, relu)[mask], alone(rows, relu=relu)
    torch.testing.assert_close(out, expected)
    assert_same_statistics(norm, alone)
    weight = normal(*rows.shape, seed=3)
    grads = torch.autograd.grad((out * weight).sum(), [x, *norm.parameters()])
    expected_grads = torch.autograd.grad((expected * weight).sum(), [rows, *alone.parameters()])
    assert (grads[0][~mask] == 0).all()
    for a, b in zip((grads[0][mask], *grads[1:]), expected_grads, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_relu_sets_to_zero_what_is_negative_and_is_differentiated_so(training, masked):
    _, x, mask = padded()
    norm = batch_norm(momentum=0.0).train(training)  # with statistics that stay, all calls are one function
    given = mask if masked else None
    assert (norm(x, given) < 0).any()
    assert torch.equal(norm(x, given, relu=True), norm(x, given).relu())
    assert gradcheck(lambda x: norm(x, given, relu=True), x.requires_grad_())


@pytest.mark.parametrize("num_rows", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_a_single_row_is_normalized_by_the_running_statistics_and_leaves_them(num_rows, masked):
    norm, still = batch_norm(), batch_norm().eval()
    x = normal(5 if masked else num_rows, 3, seed=2)
    mask = torch.arange(5) < num_rows if masked else None
    counts = slice(None) if mask is None else mask  # what comes of the other rows is not said
    torch.testing.assert_close(norm(x, mask)[counts], still(x)[counts])
    assert torch.equal(norm.running_mean, still.running_mean)
    assert torch.equal(norm.running_var, still.running_var)


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("training", [False, True])
def test_replicas_side_by_side_equal_separate_modules(training):
    norms = [batch_norm(seed).train(training) for seed in range(3)]
    x, mask = normal(3, 9, 3, seed=5), normal(3, 9, seed=6) > 0
    mask[1] = torch.arange(9) == 4  # a single row
    parameters, buffers = stack_module_state(norms)

    def run(parameters, buffers, x, mask):
        return functional_call(norms[0], (parameters, buffers), (x, mask), {"relu": True})

    out = torch.vmap(run)(parameters, buffers, x, mask)
    out.square().sum().backward()
    for r, norm in enumerate(norms):
        alone = norm(x[r], mask[r], relu=True)
        alone.square().sum().backward()
        torch.testing.assert_close(out[r], alone)
        for name, parameter in norm.named_parameters():
            torch.testing.assert_close(parameters[name].grad[r], parameter.grad)
        for name, buffer in norm.named_buffers():
            torch.testing.assert_close(buffers[name][r], buffer)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", [*NORMS, None])
def test_every_norm_is_equivariant_to_the_order_of_rows(name, masked):
    norm = make_norm(name, 3).double()
    _, x, mask = padded()
    order = torch.randperm(x.size(0), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(norm(x[order], mask[order] if masked else None), norm(x, mask if masked else None)[order])


@pytest.mark.parametrize("act", [torch.nn.ReLU(), torch.nn.ReLU(inplace=True), torch.nn.GELU(), torch.nn.LeakyReLU()])
@pytest.mark.parametrize("name", [*NORMS, None])
def test_normalized_is_the_act_of_the_norm(name, act):
    norm = make_norm(name, 3).double()
    _, x, mask = padded()
    expected = act(norm(x.clone(), mask))
    assert torch.equal(normalized(norm, act, x.clone(), mask), expected)
    assert torch.equal(normalized(norm, act, x.clone()), act(norm(x.clone())))


@pytest.mark.parametrize("hooked", ["norm", "act"])
def test_a_norm_and_a_nonlinearity_with_hooks_are_called_one_by_one(hooked):
    modules, seen, x = {"norm": BatchNorm(3), "act": torch.nn.ReLU()}, [], torch.randn(5, 3)
    expected = normalized(*modules.values(), x)
    modules[hooked].register_forward_hook(lambda module, given, out: seen.append(out))
    assert torch.equal(normalized(*modules.values(), x), expected)
    assert [bool((out < 0).any()) for out in seen] == [hooked == "norm"]


def test_double_precision_and_cpu_take_the_plain_path(monkeypatch):
    monkeypatch.setattr(BatchNorm, "_fused", None)
    assert BatchNorm(3)(torch.randn(4, 3)).dtype == torch.float32
    assert batch_norm()(normal(4, 3)).dtype == torch.float64


@pytest.mark.parametrize("name", NORMS)
def test_reset_starts_anew(name):
    norm = make_norm(name, 3)
    start = {key: value.clone() for key, value in norm.state_dict().items()}
    norm(torch.randn(5, 3))
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(1)
    norm.reset_parameters()
    for key, value in norm.state_dict().items():
        assert torch.equal(value, start[key]), key


def test_make_norm_knows_the_names():
    assert [type(make_norm(name, 3)) for name in ("batch", "layer", None)] == [BatchNorm, LayerNorm, NoNorm]
    assert set(NORMS) == {"batch", "layer"}


def test_repr():
    assert repr(BatchNorm(3)) == "BatchNorm(3)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_channel_that_varies_by_rounding_comes_out_as_the_bias_and_others_as_in_torch(dtype):
    norm, x = BatchNorm(3).to(dtype), torch.randn(50, 3, dtype=dtype)
    torch.nn.init.normal_(norm.bias)
    x[:, 1] = 0.3 * (1 + torch.finfo(dtype).eps * torch.randint(-3, 4, (50,)))
    x.requires_grad_()
    out, expected = norm(x), torch.nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True)
    assert out[:, 1].equal(norm.bias[1].expand(50))
    assert not expected[:, 1].equal(norm.bias[1].expand(50))
    torch.testing.assert_close(out[:, [0, 2]], expected[:, [0, 2]])
    (grad,) = torch.autograd.grad((out * torch.linspace(0, 1, 50, dtype=dtype).unsqueeze(1)).sum(), x)
    assert not grad[:, 1].any()
    assert grad[:, 0].any()
    compiled = torch.compile(norm, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), out)
    assert compiled(x)[:, 1].equal(out[:, 1])


@pytest.mark.parametrize(("mean", "deviation"), [(1e6, 5.0), (1e3, 0.005), (1e5, 0.5)])
def test_a_channel_that_varies_by_more_than_rounding_is_normalized_however_large_its_mean(mean, deviation):
    torch.manual_seed(0)
    x = mean + deviation * torch.randn(1000, 1)
    torch.testing.assert_close(BatchNorm(1)(x), torch.nn.BatchNorm1d(1)(x))


@pytest.mark.parametrize("deviation", [1e-6, 1e-12])
def test_a_channel_of_small_numbers_is_normalized_and_learned_from(deviation):
    torch.manual_seed(0)
    x = (deviation * torch.randn(1000, 2)).requires_grad_()
    out, expected = BatchNorm(2)(x), torch.nn.BatchNorm1d(2)(x)
    torch.testing.assert_close(out, expected)
    (grad,), (wanted,) = (torch.autograd.grad(rows[0].sum(), x) for rows in (out, expected))
    torch.testing.assert_close(grad, wanted)
    assert grad.abs().max() > 100


def test_in_half_precision_it_is_torchs():
    norm, x = BatchNorm(2), (1 + 0.01 * torch.randn(50, 2)).bfloat16()
    expected = torch.nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True)
    assert norm(x).equal(expected)
    assert expected.any()
