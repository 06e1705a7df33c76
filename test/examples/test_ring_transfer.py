import subprocess
import sys
from pathlib import Path

import pytest

from gump.record import load_records

EXAMPLE = Path(__file__).parents[2] / "examples" / "ring_transfer.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True)


def test_prints_a_table_and_writes_a_picture_and_records_that_a_second_call_does_not_touch(tmp_path: Path) -> None:
    picture, folder = tmp_path / "new" / "ring.png", tmp_path / "records"
    options = ("--sizes", "8", "4", "--seeds", "1", "--epochs", "8", "--jobs", "1", "--records", str(folder), "--out", str(picture))
    done = run(*options)
    assert done.returncode == 0, done.stderr
    rows = [line.replace("│", " ").split() for line in done.stdout.splitlines() if "│" in line]
    assert [row[:2] for row in rows] == [["4", "2"], ["8", "4"]]
    assert [row[3] for row in rows] == ["100%", "100%"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    made = {(r.name, r.settings["dataset"]["num_nodes"], r.settings["model"]["num_layers"]) for r in load_records(folder)}
    assert made == {(name, size, size // 2 + 1) for name in ("transfer/ring_gcn", "transfer/ring_gcn_gump") for size in (4, 8)}
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
    assert run(*options).stdout.count("100%") == done.stdout.count("100%")
    assert times == {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--seeds", "0"], "at least 1"), (["--sizes", "4", "5"], "even"), (["--sizes", "8"], "two or more")],
)
def test_refuses_what_cannot_be_run(options: list[str], message: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert message in done.stderr
