"""Checkpoints: the state of a run that is not finished, in a file."""

from __future__ import annotations

import json
import os
import warnings
from io import BytesIO
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch

from gump.experiment.config import completed, made_by
from gump.experiment.saved import read_saved
from gump.experiment.settings import differences
from gump.files import write_atomically

SAVE_EVERY_S = 10.0
"""Seconds between checkpoints."""

SHOWN = 500
"""How many characters a warning has at most for what differs."""


def write_checkpoint(path: Path, identity: str, state: dict[str, Any]) -> None:
    """Writes a state; a reader sees the old file or the new one, never half of one.

    Args:
        path: The file.
        identity: Of the run, or of the runs that are trained side by side.
        state: Tensors, numbers and strings.
    """
    buffer = BytesIO()
    torch.save({"identity": identity, **state}, buffer)
    write_atomically(path, buffer.getvalue())


def read_checkpoint(path: Path, identity: str | None = None, mmap: bool = False) -> dict[str, Any] | None:
    """Reads a state, if there is one; with an identity, only that of this very run. Another one is not used, and a warning says why.

    Settings that are newer than the state had their defaults then.

    Args:
        path: The file.
        identity: Of the run, or of the runs that are trained side by side; by default any.
        mmap: Whether tensors stay in the file until they are asked for.
    """
    if not path.is_file():
        return None
    if (state := read_saved(path, mmap)) is None:
        warnings.warn(f"{path} cannot be read, so the run starts anew: it is no checkpoint, or damaged", stacklevel=3)
        return None
    made = state["identity"] = _up_to_date(state.get("identity", ""))
    if identity in (None, made):
        return state
    differing = differences(_parts(made), _parts(str(identity))) or ["numbers differ after their seventh digit"]
    shown = shorten("; ".join(differing), SHOWN, placeholder=" …")
    warnings.warn(f"{path} is not gone on from, so the run starts anew: {shown}", stacklevel=3)
    return None


def _up_to_date(identity: str) -> str:
    """An identity with the defaults of settings that are newer than it."""
    parts = _parts(identity)
    match parts.get("settings"):
        case dict(settings):
            parts["settings"] = made_by(completed(settings))
        case list(several):
            parts["settings"] = [made_by(completed(settings)) for settings in several]
        case _:
            return identity
    return json.dumps(parts, sort_keys=True)


def _parts(identity: str) -> dict[str, Any]:
    """What an identity is made of, if it tells."""
    try:
        return dict(json.loads(identity))
    except (ValueError, TypeError):
        return {"the run": identity}


def tidy(path: Path) -> None:
    """Removes a checkpoint, and files that were half written beside it when a process was killed; not what another one is writing."""
    path.unlink(missing_ok=True)
    for rest in path.parent.glob(f".{path.stem}.*"):
        writer = rest.suffix.removeprefix(".").split("-")[0]
        if not (writer.isdigit() and _runs(int(writer))):
            rest.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether another process of this number runs here."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)  # which sends nothing
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
