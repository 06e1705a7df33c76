"""Where graphs come from."""

from gump.datasets.transfer import TRANSFER_TASKS, transfer_task
from gump.datasets.tu import load_tu

__all__ = ["TRANSFER_TASKS", "load_tu", "transfer_task"]
