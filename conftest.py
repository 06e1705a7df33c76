"""For all of pytest: what the examples in docstrings need not import."""

import os
from pathlib import Path
from typing import Any

# Where there is no GPU, kernels are interpreted. Triton asks for this when it is imported.
if not list(Path("/dev").glob("nvidia*")):
    os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
import torch
from torch_geometric.data import Data

import gump

torch.set_num_threads(1)  # the tests' tensors are tiny, and threads that wait for each other are slow on a busy machine


@pytest.fixture(autouse=True)
def names_in_docstrings(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.update(torch=torch, Data=Data, gump=gump, EulerianLineGraph=gump.EulerianLineGraph)
