"""Where graphs come from."""

from gump.datasets.transfer import TRANSFER_TASKS, transfer_task

__all__ = ["TRANSFER_TASKS", "transfer_task"]
