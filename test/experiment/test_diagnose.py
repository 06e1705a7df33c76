import re
import sys

import pytest
import torch
from graphs import path, ring, star
from torch_geometric.data import Data

from gump.experiment.diagnose import diagnose
from gump.nn import GUMP


def test_what_a_sample_or_a_few_searches_found_is_called_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Data(edge_index=ring(1500)[0], num_nodes=1500)
    shown = {key: value for key, value, _ in diagnose([graph], "ring").rows}
    assert (shown["diameter"], shown["min_curvature"]) == ("750", "at most 0 (1,000 edges)")
    monkeypatch.setattr(sys.modules["gump.diagnostics.bottleneck"], "SEARCHED", 0)
    assert {key: value for key, value, _ in diagnose([graph], "ring").rows}["diameter"] == "at least 750"


def test_a_sample_is_drawn_again_the_same_and_graphs_without_edges_are_left_out() -> None:
    graphs = [Data(edge_index=path(n)[0], num_nodes=n) for n in range(1, 40)]
    first, second = (diagnose(graphs, "paths", num_sampled=10) for _ in range(2))
    assert first.rows == second.rows
    assert first.title == "paths, 10 of 39 graphs"
    assert diagnose(graphs, "paths").title == "paths, 38 of 39 graphs", "the first has no edge"


def test_many_graphs_get_the_depth_that_nine_of_ten_need_and_ties_go_to_the_longest_way() -> None:
    graphs = [Data(edge_index=path(n)[0], num_nodes=n) for n in (20, *range(3, 11), 12)]
    found = diagnose(graphs, "paths")
    assert found.notes["depth"].startswith("11 layers: ")
    assert found.columns[2] == "graph 0"


def test_the_cost_is_that_of_the_degrees() -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    assert "(4 arcs, 6 transitions, " in diagnose([data], "path").notes["cost"]


def test_a_hub_is_said_to_be_slow_to_cross() -> None:
    """A coin of rank 2 * 8 + 1 beside the identity: at 340 neighbors at least (1 - 34 / 340)^2 comes back."""
    note = diagnose([Data(edge_index=star(340)[0], num_nodes=341)], "star").notes["hubs"]
    assert note.startswith("a vertex with 340 neighbors returns at least 81% of what comes in by an arc")
    assert "hubs" not in diagnose([Data(edge_index=star(20)[0], num_nodes=21)], "star").notes


def test_the_cost_counts_the_parameters_for_the_features_that_there_are() -> None:
    def parameters(x: torch.Tensor | None) -> int:
        cost = diagnose([Data(x=x, edge_index=path(3)[0], num_nodes=3)], "path", hidden_channels=16).notes["cost"]
        return int(re.search(r"([\d,]+) parameters", cost)[1].replace(",", ""))

    assert parameters(torch.randn(3, 100)) == sum(p.numel() for p in GUMP(100, 16, 2).parameters())
    categories = torch.zeros(3, 5, dtype=torch.long)
    assert parameters(None) == parameters(categories) == sum(p.numel() for p in GUMP(16, 16, 2).parameters())
