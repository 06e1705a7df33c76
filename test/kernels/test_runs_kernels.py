"""Where kernels are used."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from gump.kernels import runs_kernels


def test_kernels_are_for_single_precision_on_a_gpu_and_not_for_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeTensorMode():  # which needs no GPU
        single, double, on_cpu = torch.empty(2, device="cuda"), torch.empty(2, device="cuda", dtype=torch.double), torch.empty(2)
    assert runs_kernels(single, single)
    assert not runs_kernels(single, double)
    assert not runs_kernels(single, on_cpu)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not runs_kernels(single, single)
