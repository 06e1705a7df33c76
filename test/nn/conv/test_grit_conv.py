import math

import pytest
import torch
from torch.nn.utils.prune import random_unstructured, remove

from gump.nn.conv.grit_conv import GRITConv, signed_sqrt


def slow(conv: GRITConv, x: torch.Tensor, e: torch.Tensor, degree: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The formula, pair by pair and head by head; ``e[i, j]`` is the state of the pair of target i and source j. Norms are in eval mode."""
    n, channels = x.shape
    width = channels // conv.heads
    weight_w, weight_b = conv.lin_pair.weight.chunk(2)
    bias_w, bias_b = conv.lin_pair.bias.chunk(2)
    hat = torch.zeros(n, n, channels).double()
    for i in range(n):
        for j in range(n):
            query, key = conv.lin_query.weight @ x[i] + conv.lin_query.bias, conv.lin_key.weight @ x[j]
            product = (query + key) * (weight_w @ e[i, j] + bias_w)
            hat[i, j] = torch.relu(product.sign() * product.abs().sqrt() + weight_b @ e[i, j] + bias_b)
    out = torch.zeros(n, channels).double()
    for h in range(conv.heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(n):
            scores = torch.stack([(hat[i, j, part] @ conv.score[h, :, 0]).clamp(-5, 5) for j in range(n)])
            alpha = scores.exp() / scores.exp().sum()
            for j in range(n):
                value = (conv.lin_value.weight @ x[j])[part]
                out[i, part] += alpha[j] * (value + hat[i, j, part] @ conv.pair_value[h])
    theta1, theta2 = conv.degree_scale
    new = torch.stack([theta1 * y + torch.log(1 + d) * theta2 * y for y, d in zip(conv.lin_out(out), degree, strict=True)])
    new = conv.norm1(x + new)
    new = conv.norm2(new + conv.mlp(new))
    return new, conv.pair_norm((e + conv.lin_pair_out(hat)).flatten(0, 1)).view(n, n, channels)


def dense_pairs(num_nodes: int) -> torch.Tensor:
    vertex = torch.arange(num_nodes)
    return torch.stack([vertex.repeat(num_nodes), vertex.repeat_interleave(num_nodes)])


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_it_equals_its_formula_pair_by_pair(heads: int, scale: float) -> None:
    torch.manual_seed(0)
    conv = GRITConv(8, heads).double().eval()
    for norm in (conv.norm1, conv.norm2, conv.pair_norm):
        norm.module.running_mean.normal_()
        norm.module.running_var.uniform_(0.5, 2)
    x, e, degree = torch.randn(5, 8).double(), scale * torch.randn(5, 5, 8).double(), torch.randint(5, (5,))
    new_x, new_e = conv(x, dense_pairs(5), e.flatten(0, 1), degree)
    expected_x, expected_e = slow(conv, x, e, degree.double())
    assert (new_x - expected_x).abs().max() < 1e-9
    assert (new_e - expected_e.flatten(0, 1)).abs().max() < 1e-9


def test_the_order_of_pairs_does_not_matter() -> None:
    torch.manual_seed(0)
    conv = GRITConv(8, 2).double().eval()
    x, pairs, e, degree = torch.randn(5, 8).double(), dense_pairs(5), torch.randn(25, 8).double(), torch.ones(5)
    order = torch.randperm(25)
    (new_x, new_e), (x2, e2) = conv(x, pairs, e, degree), conv(x, pairs[:, order], e[order], degree)
    assert (new_x - x2).abs().max() < 1e-12
    assert (new_e[order] - e2).abs().max() < 1e-12


def test_degrees_are_seen_with_batch_norm_though_attention_averages() -> None:
    torch.manual_seed(0)
    conv = GRITConv(8, 2).double()
    x, pairs, e = torch.ones(4, 8).double(), dense_pairs(4), torch.ones(16, 8).double()
    out, _ = conv(x, pairs, e, torch.tensor([1, 1, 3, 3]))
    assert (out[0] - out[1]).abs().max() < 1e-9
    assert (out[0] - out[2]).abs().max() > 1e-2


def test_signed_sqrt_is_the_root_and_its_gradient_is_bounded() -> None:
    x = torch.tensor([-4.0, -1e-4, 1e-4, 9.0, 1e-30, -1e-30, 0.0], dtype=torch.double, requires_grad=True)
    assert signed_sqrt(x).tolist() == pytest.approx([-2, -0.01, 0.01, 3, 0, 0, 0])
    signed_sqrt(x).sum().backward()
    assert x.grad.tolist() == pytest.approx([1 / 4, 50, 50, 1 / 6, 1e3, 1e3, 1e3])
    away = torch.tensor([-2.0, 0.5], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(signed_sqrt, away)
    assert torch.autograd.gradgradcheck(signed_sqrt, away)
    assert torch.func.jacrev(signed_sqrt)(x.detach()).diagonal().tolist() == x.grad.tolist()


def test_a_vertex_that_is_no_target_attends_to_nothing() -> None:
    torch.manual_seed(0)
    conv = GRITConv(8, 2, norm=None).double()
    x, e = torch.randn(3, 8).double(), torch.randn(2, 8).double()
    out, _ = conv(x, torch.tensor([[0, 1], [1, 1]]), e, torch.ones(3))
    alone = x + (conv.degree_scale[0] + math.log(2) * conv.degree_scale[1]) * conv.lin_out.bias
    assert (out - (alone + conv.mlp(alone)))[[0, 2]].abs().max() < 1e-12
    assert out.isfinite().all()


def test_a_layer_that_does_not_update_pairs_returns_them_as_they_were() -> None:
    conv = GRITConv(8, 2, update_pairs=False)
    e = torch.randn(9, 8)
    assert conv(torch.randn(3, 8), dense_pairs(3), e, torch.ones(3))[1] is e
    assert len(list(conv.parameters())) < len(list(GRITConv(8, 2).parameters()))


@pytest.mark.parametrize("layer", ["lin_query", "lin_key", "lin_value", "lin_pair", "lin_out", "lin_pair_out"])
def test_a_pruned_layer_learns_and_what_was_pruned_does_not(layer: str) -> None:
    torch.manual_seed(0)
    conv = GRITConv(8, 2).double()
    pruned = random_unstructured(getattr(conv, layer), "weight", 0.5)
    arguments = torch.randn(5, 8).double(), dense_pairs(5), torch.randn(25, 8).double(), torch.ones(5)
    for _ in range(2):  # a pruned weight is computed anew when the layer is called
        new_x, new_e = conv(*arguments)
        (new_x.sin().sum() + new_e.sin().sum()).backward()
    assert not pruned.weight_orig.grad[pruned.weight_mask == 0].any()
    assert pruned.weight_orig.grad[pruned.weight_mask == 1].all()
    remove(pruned, "weight")
    plain = conv(*arguments)
    assert (plain[0] - new_x).abs().max() < 1e-12
    assert (plain[1] - new_e).abs().max() < 1e-12


def test_heads_must_divide_channels() -> None:
    with pytest.raises(ValueError, match=r"'channels' must be a multiple of 'heads', 3 \(got 8\)"):
        GRITConv(8, 3)


def test_repr() -> None:
    assert repr(GRITConv(8, 2)) == "GRITConv(8, heads=2)"
