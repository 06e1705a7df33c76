"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Opens a file under another name beside its place, which has the number of the process, and moves it there once all is written.

    A reader sees the old file or the new one, never half of one. Where writing fails, the old one stays.

    Args:
        path: The place; folders above it are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-")
    try:
        with os.fdopen(handle, "wb") as file:
            Path(temporary).chmod(0o666 & ~_umask())  # as any other file; temporary ones are private
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file as :func:`open_atomically` does.

    Args:
        path: The place.
        content: All that will be in it.
    """
    with open_atomically(path) as file:
        file.write(content)


def _umask() -> int:
    """What the process takes from the permissions of new files; it can be read only by setting it."""
    current = os.umask(0)
    os.umask(current)
    return current
