"""Where and with what a run was made."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import lightning_fabric
import numpy
import torch
import torch_geometric
import torchmetrics
from lightning_fabric import Fabric

import gump
from gump.experiment.device import device_name
from gump.kernels import LAUNCHED


def provenance(fabric: Fabric) -> dict[str, Any]:
    """What a record tells about its making, besides the settings.

    Args:
        fabric: Where it was computed, and in what arithmetic; on a CPU that may be another than was asked for.
    """
    return {
        **source(),
        "versions": {"gump": gump.__version__, "python": platform.python_version()}
        | {module.__name__: module.__version__ for module in (torch, torch_geometric, numpy, lightning_fabric, torchmetrics)},
        "device": device_name(fabric.device),
        "num_devices": fabric.world_size,
        "num_threads": torch.get_num_threads(),
        "path": f"kernels: {', '.join(sorted(LAUNCHED))}" if LAUNCHED else "plain",
        "precision": fabric.strategy.precision.precision,
        "host": platform.node(),
    }


@cache
def source() -> dict[str, Any]:
    """The commit of the library and whether that is all of it, as far as git tells. It is asked once: what changes later is not what runs."""
    folder = Path(gump.__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            command = ["git", "-C", str(folder), *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return None

    ours = bool(git("ls-files", "__init__.py"))  # and not a repository that the library happens to be installed in
    status = git("status", "--porcelain", "--", ".") if ours else None
    return {"commit": git("rev-parse", "HEAD") if ours else None, "clean": None if status is None else not status}
