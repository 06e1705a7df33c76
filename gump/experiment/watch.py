"""Those who watch a run: called after every epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gump.experiment.config import Config
from gump.record import record_path

Watch = Callable[[Config, int, int, dict[str, float]], None]
"""Takes the configuration, the number of the run, the epoch and its results."""

EpochWatch = Callable[[int, dict[str, float]], None]
"""Takes the epoch and its results, where there is but one run, or one group of runs."""


def tensorboard_writer(folder: Path | None) -> list[Watch]:
    """A watch that logs for TensorBoard, if a folder is given."""
    if folder is None:
        return []
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError("'--tensorboard' needs the package tensorboard; install it with: pip install tensorboard") from error
    writers: dict[tuple[str, int], SummaryWriter] = {}

    def watch(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        key = config.title, index
        if key not in writers:
            writers[key] = SummaryWriter(str(record_path(folder, config.name, config.variant, index).with_suffix("")))
        for name, value in results.items():
            writers[key].add_scalar(name, value, epoch)
        writers[key].flush()

    return [watch]
