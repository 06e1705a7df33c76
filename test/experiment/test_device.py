import os
from pathlib import Path

import pytest
import torch
from fake_configs import tiny_config

from gump.experiment.device import peak_memory
from gump.experiment.run import Runner


def test_peak_memory_is_that_of_the_run(tmp_path: Path) -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("needs Linux, which can forget the largest size so far")
    list(Runner(tmp_path).run(tiny_config(), [0]))  # what every run needs is there
    large = torch.ones(2**27)  # 512 MiB
    with_it = peak_memory(torch.device("cpu"))
    del large
    [record] = Runner(tmp_path).run(tiny_config(), [1])
    assert record.cost["peak_memory_bytes"] < with_it - 2**28


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"'device' must be one that this machine has \(got 'cuda'\)"):
            list(Runner(tmp_path, device="cuda").run(tiny_config(), [0]))
    with pytest.raises(
        ValueError, match=r"'device' must be one that this machine has \(got 'abacus'\): .*invalid accelerator name"
    ):
        list(Runner(tmp_path, device="abacus").run(tiny_config(), [0]))
