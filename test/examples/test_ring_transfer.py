import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "ring_transfer.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True)


def test_prints_a_table_and_writes_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "new" / "ring.png"
    done = run("--sizes", "4", "8", "--seeds", "1", "--steps", "80", "--out", str(picture))
    assert done.returncode == 0, done.stderr
    rows = [line.replace("│", " ").split() for line in done.stdout.splitlines() if "│" in line]
    assert [row[:2] for row in rows] == [["4", "2"], ["8", "4"]]
    assert [row[3] for row in rows] == ["100%", "100%"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("option", "value", "message"), [("--seeds", "0", "at least 1"), ("--sizes", "5", "must be even")])
def test_refuses_what_cannot_be_run(option: str, value: str, message: str) -> None:
    done = run(option, value)
    assert done.returncode == 2
    assert message in done.stderr
