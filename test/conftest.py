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
