"""Whether a module does what its class does, so that its work may be done elsewhere."""

import torch


def is_unaltered(module: torch.nn.Module, *kinds: type[torch.nn.Module]) -> bool:
    """Whether calling a module does what one of some classes does, and nothing else: it is none that was put in the place of one, such as an adapter
    or a quantized layer, nor a subclass with a forward pass of its own, and has no hooks. Any other must be called, and none of its weights read.

    Args:
        module: The module.
        kinds: The classes.
    """
    forward = getattr(type(module), "forward", None)
    return any(forward is kind.forward for kind in kinds) and "forward" not in vars(module) and not is_hooked(module)


def is_hooked(module: torch.nn.Module) -> bool:
    """Whether a module has hooks, such as pruning puts there."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks)
