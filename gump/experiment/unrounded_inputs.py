"""Mixed precision in which inputs stay as they are."""

from __future__ import annotations

from typing import Any

from lightning_fabric.plugins import MixedPrecision

from gump.experiment.precision import MIXED


class UnroundedInputs(MixedPrecision):
    """Lightning Fabric's mixed precision, which would round inputs before anything is multiplied and cannot do so in a line graph, without that.

    Args:
        device: The type of the device.
    """

    def __init__(self, device: str) -> None:
        super().__init__(MIXED, device)

    def convert_input(self, data: Any) -> Any:
        """Returns its input."""
        return data
