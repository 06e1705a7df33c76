import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real datasets, which tests ask for and do without where there is none."""
    root = os.environ.get("GUMP_DATA")
    if not root:
        pytest.skip("needs real datasets: set GUMP_DATA to their folder")
    if not Path(root).is_dir():
        pytest.fail(f"'GUMP_DATA' must name a folder (got {root!r})")
    return Path(root)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to call the command in, with a cache of its own and lines that are as long for everyone."""
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path
