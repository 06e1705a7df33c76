import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gump.files import open_atomically, write_atomically


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "file"


@pytest.fixture(params=[0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    assert os.umask(before) == request.param, "it is only looked at"


def test_a_file_takes_its_place_when_all_of_it_is_written(path: Path) -> None:
    write_atomically(path, b"old")
    with open_atomically(path) as file:
        file.write(b"ne")
        assert path.read_bytes() == b"old"
        [temporary] = set(path.parent.iterdir()) - {path}
        assert temporary.name.startswith(f".file.{os.getpid()}-")
        file.write(b"w")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_as_private_as_any_other(path: Path, umask: int) -> None:
    write_atomically(path, b"content")
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object = None) -> None:
        raise error

    def write_half() -> None:
        with open_atomically(path) as file:
            file.write(b"ne")
            fail()

    write_atomically(path, b"old")
    with pytest.raises(type(error)):
        write_half()
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(type(error)):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
