import os
from pathlib import Path

import pytest
import torch
from fake_configs import tiny_config

from gump import EulerianLineGraph
from gump.experiment.device import fabric_on, peak_memory
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


def test_mixed_precision_rounds_products_and_not_what_a_model_is_given() -> None:
    class Seeing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, line_graph: EulerianLineGraph) -> torch.Tensor:
            seen.append((x, line_graph, self.lin(x)))
            return seen[-1][-1]

    seen: list[tuple[torch.Tensor, EulerianLineGraph, torch.Tensor]] = []
    fabric, x = fabric_on("cpu", precision="bf16-mixed"), torch.randn(3, 4)
    line_graph = EulerianLineGraph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
    out = fabric.setup(Seeing())(x, line_graph=line_graph)
    ((given, edges, product),) = seen
    assert fabric.strategy.precision.precision == "bf16-mixed"
    assert (given is x, edges is line_graph, product.dtype, out.dtype) == (True, True, torch.bfloat16, torch.float32)
