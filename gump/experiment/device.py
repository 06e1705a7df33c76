"""Devices: where to compute, what they are called, and how much memory a run took there."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from gump.experiment.precision import MIXED
from gump.experiment.unrounded_inputs import UnroundedInputs

PROCESS = Path("/proc/self")
"""Where Linux tells about a process."""

RESIDENT_PEAK = "5"
"""What makes Linux forget the largest resident size of a process when it is written to ``clear_refs``."""


def fabric_on(device: str, num_devices: int = 1, precision: Any = None) -> Fabric:
    """Where and in what precision to compute; refuses what this machine has not."""
    try:
        fabric = Fabric(accelerator=device, devices=num_devices, precision=None if precision == MIXED else precision)
        if precision == MIXED:
            fabric = Fabric(accelerator=device, devices=num_devices, plugins=UnroundedInputs(fabric.device.type))
        return fabric
    except (RuntimeError, ValueError) as error:  # there is no such device here, or nowhere
        raise ValueError(f"'device' must be one that this machine has (got {device!r}): {error}") from error


def device_name(device: torch.device) -> str:
    """What kind of device it is, and which."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    return f"{device.type}: {name}"


def reset_peak_memory(device: torch.device) -> None:
    """Starts to measure, where the largest size so far can be forgotten: on GPUs and on Linux."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        (PROCESS / "clear_refs").write_text(RESIDENT_PEAK)
    except OSError:  # another system, or one that does not allow it
        return


def peak_memory(device: torch.device) -> int:
    """The most bytes at once since :func:`reset_peak_memory`.

    On a GPU these are the bytes of tensors. On a CPU they are what the whole process held, libraries and dataset included; where the system
    cannot forget the largest size, since the process began.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        lines = dict(line.split(":", 1) for line in (PROCESS / "status").read_text().splitlines())
        return 1024 * int(lines["VmHWM"].split()[0])
    except (OSError, KeyError, ValueError):
        import resource  # which Windows does not have

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
