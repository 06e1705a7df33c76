import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "large_graph.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True)


def test_batches_are_small_and_what_is_learned_from_them_beats_the_features_alone() -> None:
    done = run("--vertices", "4000", "--epochs", "3", "--batch-size", "25", "--neighbors", "8", "3")
    assert done.returncode == 0, done.stderr
    whole, batch = (int(number) for number in re.findall(r"num_arcs=(\d+)", done.stdout))
    assert batch <= 2 * 25 * (8 + 8 * 3) < whole
    learned, alone = (float(number) for number in re.findall(r"right about ([\d.]+) %", done.stdout))
    assert learned > alone + 10


@pytest.mark.parametrize(
    ("options", "message"), [(["--epochs", "0"], "at least 1"), (["--neighbors", "0"], "'num_neighbors' must be")]
)
def test_refuses_what_cannot_be_run(options: list[str], message: str) -> None:
    done = run("--vertices", "100", *options)
    assert done.returncode != 0
    assert message in done.stderr
