import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fake_configs import tiny_config

from gump.experiment.watch import tensorboard_writer


def test_nobody_watches_without_a_folder() -> None:
    assert tensorboard_writer(None) == []


def test_where_tensorboard_is_missing_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        ImportError, match="'--tensorboard' needs the package tensorboard; install it with: pip install tensorboard"
    ):
        tensorboard_writer(tmp_path)


def test_every_run_has_a_log_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str, float, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            self.folder = Path(folder).relative_to(tmp_path).as_posix()

        def add_scalar(self, name: str, value: float, epoch: int) -> None:
            written.append((self.folder, name, value, epoch))

        def flush(self) -> None: ...

    fake: Any = ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    [watch] = tensorboard_writer(tmp_path)
    watch(tiny_config(), 0, 1, {"val": 0.5})
    watch(tiny_config(), 0, 2, {"val": 0.6})
    watch(tiny_config(), 1, 1, {"val": 0.7})
    assert written == [("test/tiny/000", "val", 0.5, 1), ("test/tiny/000", "val", 0.6, 2), ("test/tiny/001", "val", 0.7, 1)]
