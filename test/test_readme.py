import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_python_in_the_readme_runs_when_pasted(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block, {})
    assert capsys.readouterr().out


def test_first_example_learns_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(BLOCKS[0], {})
    assert "predicted [0, 1, 2, 3, 4], true [0, 1, 2, 3, 4]" in capsys.readouterr().out
