"""The arithmetic that models are trained and asked in."""

from __future__ import annotations

from typing import Final

import torch

MIXED: Final = "bf16-mixed"
"""What Lightning Fabric calls mixed precision: weights stay in single precision, products are rounded. Its ``"16-mixed"`` is not offered: losses
would have to be scaled, by a factor that depends on all steps before."""

PRECISIONS = ("32-true", MIXED, "64-true", "bf16-true")
"""What a model can be trained in, by Lightning Fabric's names."""


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """The arithmetic of a forward pass, for a model that is called outside of Fabric."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == MIXED)
