"""For all of pytest: what the examples in docstrings need not import."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import gump

torch.set_num_threads(1)  # the tests' tensors are tiny, and threads that wait for each other are slow on a busy machine


@pytest.fixture(autouse=True)
def names_in_docstrings(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.update(torch=torch, Data=Data, gump=gump, EulerianLineGraph=gump.EulerianLineGraph)
