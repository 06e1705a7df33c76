from collections.abc import Callable
from pathlib import Path

import pytest

from gump.experiment.config import Config


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Interrupt:
    """A watch that writes down the epochs, and interrupts once: at this number of calls."""

    def __init__(self, call: int) -> None:
        self.call, self.epochs = call, list[int]()

    def __call__(self, config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        self.epochs.append(epoch)
        if len(self.epochs) == self.call:
            raise KeyboardInterrupt


@pytest.fixture
def interrupting() -> Callable[[int], Interrupt]:
    """Makes a watch that interrupts a run in an epoch, counted from one."""
    return Interrupt
