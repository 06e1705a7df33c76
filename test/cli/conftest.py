from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_configs import tiny_tables, write_toml
from typer.testing import CliRunner

from gump.cli import app

Call = Callable[..., Any]


@pytest.fixture
def gump(own_folder: Path) -> Call:
    """Calls the command in a folder of its own."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_toml(tmp_path / "configs/fake/tiny.toml", tiny_tables(published={"value": 86.72, "interval": 1.53}))
