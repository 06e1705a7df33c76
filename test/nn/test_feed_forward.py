from typing import Any

import pytest
import torch

from gump.nn import FeedForward
from gump.nn.norm import NORMS


@pytest.mark.parametrize("norm", [*NORMS, None])
def test_a_block_is_the_formula(norm: str | None) -> None:
    block, x = FeedForward(4, norm=norm, act="tanh").double(), torch.randn(7, 4, dtype=torch.double)
    inner = x + torch.tanh(x @ block.lin1.weight.t() + block.lin1.bias) @ block.lin2.weight.t() + block.lin2.bias
    if norm == "batch":
        inner = (inner - inner.mean(0)) / (inner.var(0, correction=0) + 1e-5).sqrt()
    elif norm == "layer":
        inner = (inner - inner.mean(1, keepdim=True)) / (inner.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(block(x), inner)
    assert block.lin1.out_features == 8


def test_both_dropouts_drop_in_training_alone() -> None:
    block, x = FeedForward(512, dropout=0.5, norm=None), torch.randn(200, 512)
    seen = []
    block.lin2.register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    added = block(x) - x
    hidden, out = seen.pop()
    kept = added.abs() > 1e-6
    assert 0.7 < (hidden == 0).double().mean() < 0.8, "half by the ReLU, half of the rest by dropout"
    assert 0.45 < kept.double().mean() < 0.55
    torch.testing.assert_close(added[kept], 2 * out[kept], rtol=1e-3, atol=1e-5)
    added = block.eval()(x) - x
    torch.testing.assert_close(added, seen.pop()[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("norm", [*NORMS, None])
def test_padding_changes_nothing(norm: str | None) -> None:
    block, x = FeedForward(4, norm=norm).double(), torch.randn(7, 4, dtype=torch.double)
    mask = torch.arange(7) < 5
    torch.testing.assert_close(block(x, mask)[:5], block(x[:5]))


def test_resetting_draws_all_anew() -> None:
    block = FeedForward(4, act="prelu")
    before = {name: value.clone() for name, value in block.named_parameters()}
    for value in block.parameters():
        torch.nn.init.constant_(value, 7.0)
    block.reset_parameters()
    after = dict(block.named_parameters())
    assert not any((value == 7.0).any() for value in after.values())
    assert not torch.equal(before["lin1.weight"], after["lin1.weight"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"channels": 0}, r"'channels' must be at least 1 \(got 0\)"),
        ({"norm": "pair"}, r"'norm' must be one of .* \(got 'pair'\)"),
    ],
)
def test_what_does_not_exist_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeedForward(**{"channels": 4, **arguments})


def test_repr() -> None:
    assert repr(FeedForward(4)) == "FeedForward(4)"
