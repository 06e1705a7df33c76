"""Linear layers with what follows them, by a kernel where there is one."""

from collections.abc import Callable

import torch
from torch import Tensor

from gump.kernels import runs_kernels


def linear(layer: torch.nn.Linear, x: Tensor, mask: Tensor | None = None, act: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Computes ``act(layer(x))``, on a GPU with the bias and a ReLU in one pass; a layer with hooks is called.

    Args:
        layer: The layer.
        x: The rows.
        mask: Which rows count; others come out as anything.
        act: The nonlinearity that follows; by default none.
    """
    weight = layer.weight
    if x.dim() == 2 and not is_hooked(layer) and runs_kernels(x, weight) and not torch.is_autocast_enabled("cuda"):
        from gump.kernels.linear import holds
        from gump.kernels.linear import linear as fused_linear

        if holds(layer.in_features, layer.out_features, x.device):
            relu = is_relu(act)
            out = fused_linear(x, weight, layer.bias, mask, relu)
            return out if act is None or relu else act(out)
    out = layer(x)
    return out if act is None else act(out)


def is_hooked(layer: torch.nn.Module) -> bool:
    """Whether a layer has hooks, such as pruning puts there: it must then be called, and neither its weight read nor its work done elsewhere."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks)


def is_relu(act: Callable[[Tensor], Tensor] | None) -> bool:
    """Whether a nonlinearity is the ReLU, as a function or as a module without hooks, so that it need not be called."""
    return act is torch.relu or (isinstance(act, torch.nn.ReLU) and not is_hooked(act))
