"""Files that torch has written, some of which may be damaged."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import torch


def read_saved(path: str | Path, mmap: bool = False) -> dict[str, Any] | None:
    """Reads a dictionary that ``torch.save`` has written; ``None`` if the file holds something else, or is damaged.

    That a file may not be read, or memory is short, says nothing about what is in it, and is an error.

    Args:
        path: The file.
        mmap: Whether tensors stay in the file until they are asked for.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except MemoryError:
        raise
    except Exception as error:  # of many kinds, some of which advise to run what the file holds
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # as a file gives whose end was cut off
            raise
        return None
    return state if isinstance(state, dict) else None
