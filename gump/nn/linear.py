"""Linear layers with what follows them, by a kernel where there is one."""

from collections.abc import Callable

import torch
from torch import Tensor

from gump.kernels import runs_kernels
from gump.nn.arc_linear import ArcLinear
from gump.nn.unaltered import is_unaltered


def linear(layer: torch.nn.Linear, x: Tensor, mask: Tensor | None = None, act: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Computes ``act(layer(x))``, on a GPU with the bias and a ReLU in one pass; a layer with hooks, or another in its place, is called.

    Args:
        layer: The layer.
        x: The rows.
        mask: Which rows count; others come out as anything.
        act: The nonlinearity that follows; by default none.
    """
    plain = is_unaltered(layer, torch.nn.Linear, ArcLinear)
    if plain and x.dim() == 2 and runs_kernels(x, weight := layer.weight) and not torch.is_autocast_enabled("cuda"):
        from gump.kernels.linear import holds
        from gump.kernels.linear import linear as fused_linear

        if holds(layer.in_features, layer.out_features, x.device):
            relu = is_relu(act)
            out = fused_linear(x, weight, layer.bias, mask, relu)
            return out if act is None or relu else act(out)
    out = layer(x)
    return out if act is None else act(out)


def is_relu(act: Callable[[Tensor], Tensor] | None) -> bool:
    """Whether a nonlinearity is the ReLU, as a function or as an unaltered module, so that it need not be called."""
    return act is torch.relu or (isinstance(act, torch.nn.Module) and is_unaltered(act, torch.nn.ReLU))
