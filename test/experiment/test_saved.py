import errno
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from gump.experiment.checkpoint import read_checkpoint, write_checkpoint
from gump.experiment.saved import read_saved


def damaged(whole: bytes) -> list[bytes]:
    """A file that was cut off here and there, overwritten, or is another."""
    cut = [whole[:length] for length in (0, len(whole) // 2, len(whole) - 100, len(whole) - 1)]
    return [*cut, whole[:-60] + b"\xff" * 60, bytes(5000), b"junk", b"some text\n", b"(dp0\nV", b"PK\x03\x04"]


@pytest.mark.parametrize("mmap", [False, True])
def test_what_was_saved_comes_back_and_what_is_damaged_does_not(mmap: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"a": torch.arange(1000)}, path)
    assert read_saved(path, mmap)["a"].equal(torch.arange(1000))
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        assert read_saved(path, mmap) is None, content[:20]
    torch.save([1, 2], path)
    assert read_saved(path, mmap) is None, "no dictionary"


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "Permission denied"), OSError(errno.EIO, "I/O"), MemoryError()])
def test_a_file_that_cannot_be_read_now_is_not_called_damaged(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    write_checkpoint(tmp_path / "c", "run", {})
    monkeypatch.setattr("torch.load", fail)
    for read in (read_saved, read_checkpoint):
        with pytest.raises(type(error)):
            read(tmp_path / "c")


def test_a_damaged_checkpoint_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "c"
    write_checkpoint(path, "run", {"weights": torch.arange(1000)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = read_checkpoint(path, "run")
    assert state is not None
    assert state["weights"].equal(torch.arange(1000))
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.warns(UserWarning, match="c cannot be read, so the run starts anew: it is no checkpoint, or damaged"):
            assert read_checkpoint(path, "run") is None
