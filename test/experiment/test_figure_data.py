from pathlib import Path

import numpy as np
import pytest
import torch
from graphs import path

from gump.datasets.own import load_own
from gump.experiment.figure_data import CONTROLLED, jacobian_data
from gump.experiment.study import WEIGHTS, jacobian_study


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    """A path of twelve vertices."""
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    np.savez(tmp_path / "path.npz", x=x.numpy(), edge_index=path(12)[0].numpy())
    return str(tmp_path / "path.npz")


def test_a_panel_for_each_rule_and_controls_of_the_systems_that_have_one(dataset: str) -> None:
    said: list[str] = []
    [panels] = jacobian_data(dataset, num_seeds=1, depths=(2, 11), hidden_channels=16, say=said.append)["rows"]
    assert [panel["weights"] for panel in panels] == list(WEIGHTS)
    assert len(said) == 3
    names = [[line["name"] for line in panel["lines"]] for panel in panels]
    assert len(names[0]) == 11
    assert names[1] == names[2] == list(CONTROLLED)
    for panel in panels:
        study = jacobian_study([load_own(dataset)], (2, 11), range(1), weights=panel["weights"], hidden_channels=16, names=["GCN"])
        [line] = [line for line in panel["lines"] if line["name"] == "GCN"]
        assert line == {"name": "GCN", "x": [2, 11], **study["series"]["GCN"]}
        assert panel["about"] == {"dataset": dataset, **study["about"]}
    he, glorot = ({line["name"]: line["mean"][1] for line in panel["lines"]} for panel in panels[1:])
    assert all(he[name] != glorot[name] for name in CONTROLLED), "the rule reaches every system that it is said to reach"


@pytest.mark.parametrize(
    ("which", "found"), [({"pair": (5, 3)}, (5, 3, 2)), ({"distance": 4}, (0, 4, 4)), ({"index": 0}, (0, 10, 10))]
)
def test_any_pair_can_be_named(dataset: str, which: dict[str, object], found: tuple[int, int, int]) -> None:
    [panels] = jacobian_data(dataset, num_seeds=1, depths=(2,), hidden_channels=4, **which)["rows"]
    for panel in panels:
        assert tuple(panel["about"][key] for key in ("source", "target", "distance")) == found
