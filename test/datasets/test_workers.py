import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods
from pathlib import Path

import pytest

from gump.datasets.workers import num_cores, process_pool, show_progress

forks = pytest.mark.skipif("fork" not in get_all_start_methods(), reason="processes cannot be forked here")


def test_cores_are_those_that_the_process_may_use_or_all_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 7}, raising=False)
    assert num_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert num_cores() == 4
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert num_cores() == 1


def die(_: object) -> None:
    os._exit(1)


def work(pool: ProcessPoolExecutor, what: object) -> list[object]:
    return list(pool.map(what, range(4)))  # type: ignore[arg-type]


@forks
def test_processes_share_work_and_their_errors_come_as_they_are() -> None:
    with process_pool(2, "fork") as pool:
        assert work(pool, str) == ["0", "1", "2", "3"]
        with pytest.raises(TypeError, match="has no len"):
            work(pool, len)


@forks
def test_a_process_that_is_ended_from_outside_is_said_in_a_sentence() -> None:
    def share() -> None:
        with process_pool(2, "fork") as pool:
            work(pool, die)

    with pytest.raises(
        ChildProcessError,
        match=r"one of 2 processes was ended from outside, perhaps for want of memory; on fewer cores there are fewer",
    ):
        share()


def test_things_come_as_they_are_with_a_bar_or_without(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if it were a terminal
    assert list(show_progress(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert "reading" in capsys.readouterr().err
    assert list(show_progress(iter("abc"), 3, "reading", show=False)) == ["a", "b", "c"]
    monkeypatch.delenv("FORCE_COLOR")
    assert list(show_progress(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    for package in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, package, None)
    assert list(show_progress(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


@forks
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_after_an_error_or_ctrl_c_nobody_works_on(error: type[BaseException], tmp_path: Path) -> None:
    def share() -> None:
        with process_pool(2, "fork") as pool:
            begun = [pool.submit(touch_and_sleep, tmp_path) for _ in range(6)]
            while len(list(tmp_path.iterdir())) < 2:
                assert not any(future.done() for future in begun)
                time.sleep(0.01)
            raise error

    start = time.monotonic()
    with pytest.raises(error):
        share()
    assert time.monotonic() - start < SLEEP_S, "none is waited for"
    begun = [int(path.name) for path in tmp_path.iterdir()]
    assert len(begun) == 2, "and no other was begun"
    wait_for_the_end_of(begun)


SLEEP_S = 600


def touch_and_sleep(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    time.sleep(SLEEP_S)


def wait_for_the_end_of(processes: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(is_running(process) for process in processes):
        assert time.monotonic() < deadline, "they work on"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.is_file() and status.read_text().rpartition(")")[2].split()[0] == "Z")  # ended, and nobody has asked how


SCRIPT = """
import os, sys, time
from gump.datasets.workers import process_pool

def work(_):
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, as two do
    time.sleep(600)

if __name__ == "__main__":
    with process_pool(2, sys.argv[1]) as pool:
        list(pool.map(work, range(2)))
"""


@forks
def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    parent = subprocess.Popen([sys.executable, tmp_path / "script.py", "fork"], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    wait_for_the_end_of(children)
