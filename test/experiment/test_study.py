import json
from pathlib import Path
from typing import Any

import pytest
import torch
from graphs import path, ring
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.datasets import load_tu
from gump.diagnostics.jacobian import distant_pair, jacobian_norm
from gump.experiment.study import DEPTHS, jacobian_study
from gump.nn import MPNN

NAMES = ["GUMP", "GUMP (paper)", "GCN", "GIN", "DIGL", "SDRF", "FoSR", "GTR", "DRew", "A-DGN", "UnitaryGCN"]


def graphs() -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    edges = [ring(4)[0], path(12)[0]]
    sizes = [4, 12]
    return [Data(x=torch.randn(n, 3, generator=generator), edge_index=to_undirected(e)) for n, e in zip(sizes, edges, strict=True)]


def test_every_system_of_the_paper_is_on_the_axes_and_sees_ten_hops() -> None:
    data = jacobian_study(graphs(), depths=(2, 12), seeds=(0, 1), hidden_channels=8)
    assert data["depths"] == [2, 12]
    assert list(data["series"]) == NAMES
    for name, series in data["series"].items():
        assert all(len(values) == 2 for values in series.values())
        assert 0 <= series["low"][1] <= series["mean"][1] <= series["high"][1]
        assert series["low"][1] == series["median"][1], "the lower one of two"
        assert series["high"][1] > 0, name
    assert data["series"]["GCN"]["high"][0] == 0, "two layers do not see ten hops"
    assert (data["about"]["graph"], data["about"]["source"], data["about"]["target"]) == (1, 0, 10)
    assert json.loads(json.dumps(data)) == data


def test_a_point_is_the_norm_of_the_model_that_the_seed_draws() -> None:
    data = jacobian_study(graphs(), depths=(3,), seeds=(7,), index=1, pair=(5, 3), hidden_channels=8, names=["GCN"])
    torch.manual_seed(7)
    model = MPNN(3, 8, 3).double().eval()
    graph = graphs()[1]
    assert data["series"]["GCN"]["mean"] == [jacobian_norm(model, graph.x.double(), graph.edge_index, 5, 3)]
    assert data["about"]["distance"] == 2


def test_one_rule_for_all_weights_decides_who_decays() -> None:
    settings = {"depths": (20, 60), "seeds": (0,), "hidden_channels": 16, "names": ["GUMP", "GCN"]}
    decay = {}
    for weights in ("own", "he", "glorot"):
        series = jacobian_study(graphs(), weights=weights, **settings)["series"]
        decay[weights] = {name: values["mean"][1] / values["mean"][0] for name, values in series.items()}
    assert decay["own"]["GUMP"] > 1e-2
    assert decay["own"]["GCN"] < 1e-4
    assert decay["he"]["GCN"] > 1e-2, "with weights that keep energy, a GCN on a small graph does not decay either"
    assert decay["glorot"]["GUMP"] < 1e-4, "and without them GUMP does"


def test_the_first_pair_at_distance_ten_of_nci1_is_in_its_first_graph(data_root: Path) -> None:
    graph = load_tu("NCI1", data_root)[0]
    assert distant_pair(graph.edge_index, graph.num_nodes, 10) == (0, 4)
    assert (DEPTHS[0], DEPTHS[-1]) == (2, 100)


def test_of_three_seeds_the_median_is_neither_the_lowest_nor_the_highest() -> None:
    values = jacobian_study(graphs(), depths=(11,), hidden_channels=8, names=["GCN"])["series"]["GCN"]
    [mean], [median], [low], [high] = (values[key] for key in ("mean", "median", "low", "high"))
    assert low < median < high
    assert median == pytest.approx(3 * mean - low - high)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({}, {"index": 2}, r"'index' must be the number of a graph, from 0 to 1 \(got 2\)"),
        ({}, {"index": -1, "pair": (0, 1)}, r"'index' must be the number of a graph, from 0 to 1 \(got -1\)"),
        ({}, {"pair": (0, 4)}, r"'pair' must be two vertices from 0 to 3 of graph 0 \(got 0 and 4\)"),
        ({}, {"index": 1, "pair": (-1, 4)}, r"'pair' must be two vertices from 0 to 11 of graph 1 \(got -1 and 4\)"),
        ({"x": None}, {}, r"'graphs' must have features 'x', .* \(got none on graph 1\); add some, such as .*OneHotDegree"),
        (
            {"x": torch.zeros(12, 1, dtype=torch.long)},
            {"index": 1, "pair": (0, 1)},
            r"'graphs' must have numbers as features 'x' \(got torch.int64 on graph 1, and categories have no derivative\)",
        ),
    ],
)
def test_a_graph_or_a_pair_that_cannot_be_measured_is_refused(
    change: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    first, second = graphs()
    second = Data(**second.to_dict() | change, num_nodes=12)
    with pytest.raises(ValueError, match=message):
        jacobian_study([first, second], depths=(2,), names=["GCN"], **settings)


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'graphs' must be a list of graphs \(got one Data\); pass \[data\]"):
        jacobian_study(graphs()[0])
    with pytest.raises(ValueError, match=r"'distance' must be that of two vertices of a graph \(got 12, which none have\)"):
        jacobian_study(graphs(), distance=12)
    with pytest.raises(ValueError, match=r"'distance' must be that of two vertices of graph 0"):
        jacobian_study(graphs(), index=0)
    with pytest.raises(ValueError, match=r"'names' must be among GUMP, .* \(got 'GAT'\)"):
        jacobian_study(graphs(), names=["GAT"])
    with pytest.raises(ValueError, match=r"'weights' must be one of own, he, glorot \(got 'zero'\)"):
        jacobian_study(graphs(), weights="zero")
