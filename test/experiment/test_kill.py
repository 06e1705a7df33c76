"""Killed at any moment, a rerun continues."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_configs import tiny_config, tiny_tables, write_toml

from gump.experiment.config import Config
from gump.experiment.run import Runner
from gump.record import load_records

NUM_RUNS, NUM_EPOCHS, NUM_KILLS = 3, 14, 10


def results(folder: Path) -> list[str]:
    """The records of a folder as text, with what belongs to a machine and a moment blotted out."""
    pattern = r'"(time_s|epoch_time_s|peak_memory_bytes|host)": .*'
    return [re.sub(pattern, r'"\1": …', path.read_text()) for path in sorted(folder.rglob("*.json"))]


def start(config: Config, records: Path, log: Path) -> int:
    """Starts a process that makes the records and writes down every epoch; returns its number. A fork, since imports take seconds."""

    def watch(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        with log.open("a") as file:
            file.write(f"{index} {epoch}\n")

    if (child := os.fork()) == 0:
        code = 1
        try:
            code = 0 if len(list(Runner(records, watches=[watch], save_every_s=0).run(config))) == NUM_RUNS else 1
        finally:
            os._exit(code)
    return child


def epochs(log: Path) -> list[tuple[int, int]]:
    return [(int(i), int(e)) for i, e in map(str.split, log.read_text().splitlines())] if log.exists() else []


def wait_for(child: int, log: Path, count: int) -> bool:
    """Waits for so many epochs; returns whether the process still runs."""
    while len(epochs(log)) < count:
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            return False
        time.sleep(0.001)
    return True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_run_killed_at_ten_random_moments_ends_as_if_it_never_was(tmp_path: Path) -> None:
    config = tiny_config(
        protocol={"num_runs": NUM_RUNS},
        model={"dropout": 0.2},
        train={"epochs": NUM_EPOCHS, "schedule": "cosine", "optimizer": "adamw"},
    )
    list(Runner(tmp_path / "whole").run(config))
    records, log, chance = tmp_path / "killed", tmp_path / "log", random.Random(0)
    seen: dict[Path, bytes] = {}
    for _ in range(NUM_KILLS):
        child = start(config, records, log)
        assert wait_for(child, log, len(epochs(log)) + chance.randint(1, 3)), "it ended before it could be killed ten times"
        time.sleep(chance.random() * 0.03)  # anywhere in an epoch, or while files are written
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        load_records(records)  # each is whole
        assert all(path.read_bytes() == content for path, content in seen.items())  # nothing finished is lost or made again
        seen |= {path: path.read_bytes() for path in records.rglob("*.json")}
    child = start(config, records, log)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(path.read_bytes() == content for path, content in seen.items())
    assert results(records) == results(tmp_path / "whole")
    assert sorted(path.name for path in records.rglob("*") if path.is_file()) == [f"{i:03d}.json" for i in range(NUM_RUNS)]
    trained = epochs(log)
    assert set(trained) == {(i, e) for i in range(NUM_RUNS) for e in range(1, NUM_EPOCHS + 1)}
    assert trained == sorted(trained)  # one run after the other, and never back
    assert len(trained) <= NUM_RUNS * NUM_EPOCHS + NUM_KILLS  # a kill costs the epoch that it hits


@pytest.mark.slow
def test_the_command_killed_at_ten_random_moments_ends_as_if_it_never_was(tmp_path: Path) -> None:
    path = write_toml(tmp_path / "tiny.toml", tiny_tables(protocol={"num_runs": 40}, train={"epochs": 40}))

    def command(folder: str) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-m", "gump.cli", "run", str(path), "--device", "cpu", "--records", str(tmp_path / folder)]
        return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})

    begin = time.monotonic()
    assert command("whole").wait() == 0
    whole_s, chance, seen = time.monotonic() - begin, random.Random(0), {}
    for _ in range(NUM_KILLS):
        process = command("killed")
        time.sleep(chance.random() * whole_s / 3)
        process.kill()
        process.wait()
        assert all(file.read_bytes() == content for file, content in seen.items())
        seen |= {file: file.read_bytes() for file in (tmp_path / "killed").rglob("*.json")}
    assert command("killed").wait() == 0
    assert all(file.read_bytes() == content for file, content in seen.items())
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
