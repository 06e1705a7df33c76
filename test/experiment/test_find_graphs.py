from gump.datasets import TRANSFER_TASKS
from gump.experiment.find_graphs import MAX_TRANSFER


def test_every_transfer_task_has_a_largest_size() -> None:
    assert set(MAX_TRANSFER) == set(TRANSFER_TASKS)
