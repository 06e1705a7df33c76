import torch
from graphs import path
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.experiment.figure_data import CONTROLLED, jacobian_data
from gump.experiment.study import WEIGHTS, jacobian_study

GRAPH = Data(x=torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), edge_index=to_undirected(path(12)[0]))


def test_a_panel_for_each_rule_and_controls_of_the_systems_that_have_one() -> None:
    said: list[str] = []
    [panels] = jacobian_data([GRAPH], num_seeds=1, depths=(2, 11), hidden_channels=16, say=said.append)["rows"]
    assert [panel["weights"] for panel in panels] == list(WEIGHTS)
    assert len(said) == 3
    names = [[line["name"] for line in panel["lines"]] for panel in panels]
    assert len(names[0]) == 11
    assert names[1] == names[2] == list(CONTROLLED)
    for panel in panels:
        study = jacobian_study([GRAPH], (2, 11), range(1), weights=panel["weights"], hidden_channels=16, names=["GCN"])
        [line] = [line for line in panel["lines"] if line["name"] == "GCN"]
        assert line == {"name": "GCN", "x": [2, 11], **study["series"]["GCN"]}
    he, glorot = ({line["name"]: line["mean"][1] for line in panel["lines"]} for panel in panels[1:])
    assert all(he[name] != glorot[name] for name in CONTROLLED), "the rule reaches every system that it is said to reach"
