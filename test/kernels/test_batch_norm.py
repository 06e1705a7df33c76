"""Batch norm by kernels, against the formula in double precision."""

import pytest
import torch
from torch.func import functional_call, stack_module_state

from gump.kernels import batch_norm as kernels
from gump.kernels.batch_norm import batch_norm
from gump.nn.norm import BatchNorm, normalized

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPS = 1e-5
SHAPES = [(1, 37, 5), (1, 2, 1), (3, 70, 33), (3, 150, 40), (2, 513, 8), (1, 300, 64)]  # tiles and chunks that are full, and not
SWITCHES = [(masked, relu) for masked in (False, True) for relu in (False, True)]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def case(num_replicas, num_rows, num_columns, masked):
    """Rows far from zero, of which two at least count in every replica, and running statistics that would show."""
    mask = normal(num_replicas, num_rows, seed=1) > 0.3
    mask[:, [0, -1]] = True
    x = normal(num_replicas, num_rows, num_columns, seed=2) * 3 + 5
    columns = (num_replicas, num_columns)
    weight, bias = 1 + normal(*columns, seed=3) / 2, normal(*columns, seed=4)
    return x, mask if masked else None, weight, bias, normal(*columns, seed=5), normal(*columns, seed=6).square()


def by_formula(x, mask, weight, bias, running_mean, running_var, relu):
    """One replica after the other, from the rows that count, in the precision that comes."""
    results = []
    for r in range(x.size(0)):
        rows = x[r] if mask is None else x[r][mask[r]]
        mean, var, unbiased = running_mean[r], running_var[r], running_var[r]
        if len(rows) > 1:
            mean, var, unbiased = rows.mean(0), rows.var(0, correction=0), rows.var(0)
        y = (x[r] - mean) / (var + EPS).sqrt() * weight[r] + bias[r]
        y = y if mask is None else y * mask[r].unsqueeze(-1)
        results.append((y.relu() if relu else y, mean, unbiased))
    return [torch.stack(column) for column in zip(*results, strict=True)]


def assert_equal_to_formula(x, mask, weight, bias, *running, relu):
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    exact = [t.double().requires_grad_() for t in (x, weight, bias)]
    ours = batch_norm(leaves[0], mask, *leaves[1:], *running, EPS, relu)
    theirs = by_formula(exact[0], mask, *exact[1:], *(t.double() for t in running), relu)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.double(), b, atol=2e-5, rtol=2e-5)
    grad = normal(*x.shape, seed=7)  # also on rows that do not count
    ours = torch.autograd.grad(ours[0], leaves, grad)
    theirs = torch.autograd.grad(theirs[0], exact, grad.double())
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("masked", "relu"), SWITCHES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_statistics_and_gradients_are_those_of_the_formula(shape, masked, relu):
    assert_equal_to_formula(*case(*shape, masked), relu=relu)


@pytest.mark.parametrize("relu", [False, True])
def test_a_program_may_run_over_many_tiles_of_rows(monkeypatch, relu):
    monkeypatch.setattr(kernels, "PROGRAMS", 1)
    (chunks, *_), sizes = kernels._launches(torch.empty(2, 301, 40))
    assert chunks == 1
    assert sizes["CHUNK"] == 8 * sizes["ROWS"]
    assert_equal_to_formula(*case(2, 301, 40, masked=True), relu=relu)


@pytest.mark.parametrize(
    "shape", [(1, 4_000, 64), (1, 100_000, 256), (100, 1_000, 64), (100, 12_000, 128), (5_000, 3, 7), (2, 0, 3)]
)
def test_programs_cover_all_rows_and_columns_once(shape):
    (chunks, tiles, replicas), sizes = kernels._launches(torch.empty(shape, device="meta"))
    assert replicas == shape[0]
    assert (chunks - 1) * sizes["CHUNK"] < max(shape[1], 1) <= chunks * sizes["CHUNK"]
    assert (tiles - 1) * sizes["COLUMNS"] < shape[2] <= tiles * sizes["COLUMNS"]
    assert chunks <= kernels.MAX_CHUNKS
    assert sizes["CHUNK"] % sizes["ROWS"] == 0


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("counting", [0, 1])
def test_where_fewer_than_two_rows_count_the_running_statistics_stand_in(counting, relu):
    x, mask, *others = case(3, 70, 5, masked=True)
    mask[1] = False
    mask[1, 68 : 68 + counting] = True
    assert_equal_to_formula(x, mask, *others, relu=relu)


def test_the_variance_survives_a_mean_a_thousand_times_the_deviation():
    x, mask, *others = case(2, 300, 40, masked=True)
    _, mean, var = batch_norm(x + 3_000, mask, *others, EPS)
    _, exact_mean, exact_var = by_formula((x + 3_000).double(), mask, *(t.double() for t in others), relu=False)
    torch.testing.assert_close(mean.double(), exact_mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(var.double(), exact_var, rtol=1e-4, atol=0)


def test_rows_that_do_not_count_leave_the_others_alone():
    x, mask, *others = case(3, 70, 5, masked=True)
    out = batch_norm(x, mask, *others, EPS)
    other = batch_norm(torch.where(mask.unsqueeze(-1), x, torch.nan), mask, *others, EPS)
    assert torch.equal(out[0][mask], other[0][mask])
    assert torch.equal(out[1], other[1])
    assert torch.equal(out[2], other[2])
    assert other[0].isfinite().all()


def test_what_is_not_a_number_does_not_vanish_in_the_relu():
    x, mask, *others = case(1, 8, 2, masked=False)
    x[0, 3, 1] = float("nan")
    out = batch_norm(x, mask, *others, EPS, relu=True)[0]
    assert out[0, :, 1].isnan().all()
    assert out[0, :, 0].isfinite().all()


def test_bytes_mask_as_booleans_do():
    x, mask, *others = case(2, 20, 3, masked=True)
    assert torch.equal(batch_norm(x, mask, *others)[0], batch_norm(x, mask.to(torch.uint8) * 2, *others)[0])


def test_strides_make_no_difference():
    inputs = case(3, 20, 6, masked=True)
    turned = [t.mT.contiguous().mT for t in inputs]
    results = []
    for x, *others in (inputs, turned):
        x.requires_grad_()
        out = batch_norm(x, *others)[0]
        results.append((out, *torch.autograd.grad(out.mT.contiguous().mT.square().sum(), x)))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("masked", [False, True])
def test_under_vmap_all_replicas_run_at_once(monkeypatch, masked):
    inputs = case(3, 20, 6, masked)
    shapes = []
    monkeypatch.setattr(kernels, "_launches", lambda x, plan=kernels._launches: shapes.append(x.shape) or plan(x))
    in_dims = (0, 0 if masked else None, 0, None, 0, 0)  # the bias is shared
    mapped = torch.vmap(lambda *inputs: batch_norm(*inputs, EPS, True), in_dims)(*inputs[:3], inputs[3][0], *inputs[4:])
    assert shapes == [(3, 20, 6)]
    stacked = batch_norm(*inputs[:3], inputs[3][:1].expand(3, -1), *inputs[4:], EPS, True)
    for a, b in zip(mapped, stacked, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("masked", "relu"), SWITCHES)
def test_the_module_is_the_same_with_the_kernel_and_without(masked, relu):
    x, mask, weight, bias, *_ = (None if t is None else t[0] for t in case(1, 70, 5, masked))
    results, counts = [], 1 if mask is None else mask.unsqueeze(-1)  # what comes of the other rows is not said
    for fused in (False, True):
        norm = BatchNorm(5).to(DEVICE)
        norm.load_state_dict({**norm.state_dict(), "weight": weight, "bias": bias})
        x = x.detach().requires_grad_()
        (norm(x, mask, relu, fused) * counts).square().mean().backward()
        out = norm(x, mask, relu, fused) * counts
        results.append((out, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var))
    for plain, fused in zip(*results, strict=True):
        torch.testing.assert_close(plain, fused, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("error:There is a performance drop")
def test_the_module_under_vmap_equals_separate_modules():
    x, mask, weight, bias, *_ = case(3, 20, 6, masked=True)
    mask[2] = False
    mask[2, 4] = True  # a replica that keeps its running statistics
    norms = [BatchNorm(6).to(DEVICE) for _ in range(3)]
    for r, norm in enumerate(norms):
        norm.load_state_dict({**norm.state_dict(), "weight": weight[r], "bias": bias[r]})
    parameters, buffers = stack_module_state(norms)

    def run(parameters, buffers, x, mask):
        return functional_call(norms[0], (parameters, buffers), (x, mask), {"relu": True, "fused": True})

    out = torch.vmap(run)(parameters, buffers, x, mask)
    out.square().sum().backward()
    for r, norm in enumerate(norms):
        alone = norm(x[r], mask[r], relu=True, fused=False) * mask[r].unsqueeze(-1)
        alone.square().sum().backward()
        torch.testing.assert_close(out[r], alone, atol=1e-5, rtol=1e-5)
        for name, parameter in norm.named_parameters():
            torch.testing.assert_close(parameters[name].grad[r], parameter.grad, atol=1e-4, rtol=1e-4)
        for name, buffer in norm.named_buffers():
            torch.testing.assert_close(buffers[name][r], buffer)
    assert torch.equal(buffers["running_var"][2], torch.ones(6, device=DEVICE))


def test_an_act_in_place_may_follow_the_kernel():
    x = normal(20, 6).requires_grad_()
    norm = BatchNorm(6).to(DEVICE)
    expected = torch.autograd.grad(normalized(norm, torch.nn.ReLU(), x).square().sum(), x)[0]
    in_place = torch.autograd.grad(norm(x, fused=True).relu_().square().sum(), x)[0]
    torch.testing.assert_close(in_place, expected, atol=1e-4, rtol=1e-4)


def test_it_is_differentiated_once():
    x, *others = case(1, 6, 2, masked=False)
    x.requires_grad_()
    grad = torch.autograd.grad(batch_norm(x, *others)[0].square().sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        grad.sum().backward()
