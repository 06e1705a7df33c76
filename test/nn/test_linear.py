import pytest
import torch

from gump.nn.linear import linear


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward"])
def test_a_layer_with_hooks_is_called_even_where_there_is_a_kernel(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gump.nn.linear.runs_kernels", lambda *tensors: True)
    layer, seen = torch.nn.Linear(2, 3), []
    getattr(layer, f"register_{kind}_hook")(lambda module, *given: seen.append(module))
    x = torch.ones(4, 2)
    out = linear(layer, x, act=torch.relu)
    out.sum().backward()
    assert seen == [layer]
    assert torch.equal(out, layer(x).relu())
