from pathlib import Path

import pytest
import torch
from graphs import clique, random_graph
from torch_geometric.data import Batch

from gump.datasets import load_tu
from gump.diagnostics import coin_report
from gump.nn import GUMP, MPNN, PRESETS

BASE_LAYERS = {"MUTAG": 5, "PROTEINS": 3, "ENZYMES": 1, "NCI1": 1, "NCI109": 1}
"""The paper's depths of the base GNN."""


def test_equal_features_give_blocks_of_rank_one_and_the_grover_coin() -> None:
    edge_index, num_nodes = clique(5)
    torch.manual_seed(0)
    report = coin_report(GUMP(3, 8, 2).double().eval(), torch.ones(num_nodes, 3).double(), edge_index)
    assert (report.num_blocks, report.max_degree, report.full_rank) == (5, 4, 0.0)
    assert report.from_grover < 1e-5
    assert report.max_error < 1e-5
    assert report.non_unitary == 0


def test_the_exact_coin_is_the_polar_factor_of_its_scores() -> None:
    edge_index, num_nodes = random_graph(1)
    torch.manual_seed(0)
    model = GUMP(3, 8, 2, coin="polar", base=None).double().eval()
    report = coin_report(model, torch.randn(num_nodes, 3).double(), edge_index)
    assert report.full_rank == 1
    assert report.from_polar < 1e-10
    assert report.from_grover > 0.1


def test_newton_schulz_leaves_tied_blocks_non_unitary() -> None:
    edge_index, num_nodes = clique(5)
    torch.manual_seed(0)
    report = coin_report(GUMP(3, 8, 2, coin="newton_schulz").double().eval(), torch.ones(num_nodes, 3).double(), edge_index)
    assert report.non_unitary == 1
    assert report.max_error == pytest.approx((1 - 1 / 4) ** 0.5, abs=1e-4)


@pytest.mark.parametrize("name", BASE_LAYERS)
def test_every_block_of_real_data_is_unitary_in_float32(name: str, data_root: Path) -> None:
    batch = Batch.from_data_list(load_tu(name, data_root))
    torch.manual_seed(0)
    model = GUMP(batch.num_features, 64, 2, conv="gin", base="gin", num_base_layers=BASE_LAYERS[name])
    report = coin_report(model, batch.x, batch.edge_index)
    assert report.max_error < 1e-5
    assert report.non_unitary == 0
    assert report.full_rank < 0.95, "the scores themselves are singular on a share of the blocks"
    assert report.from_grover > 0.015, "the coin answers to the features"


@pytest.mark.parametrize(("name", "least", "most"), [("MUTAG", 0.15, 0.4), ("PROTEINS", 0.5, 0.95), ("NCI1", 0.2, 0.5)])
def test_with_the_papers_setting_a_share_of_real_blocks_is_not(name: str, least: float, most: float, data_root: Path) -> None:
    batch = Batch.from_data_list(load_tu(name, data_root))
    torch.manual_seed(0)
    settings = {"conv": "gin", "base": "gin", "num_base_layers": BASE_LAYERS[name], **PRESETS["paper"]}
    report = coin_report(GUMP(batch.num_features, 64, 2, **settings), batch.x, batch.edge_index)
    assert least < report.non_unitary < most
    assert report.max_error > 0.5


def test_measuring_leaves_the_model_as_it_was() -> None:
    edge_index, num_nodes = random_graph(0)
    model = GUMP(3, 8, 2).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    coin_report(model, torch.randn(num_nodes, 3), edge_index)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training


def test_coins_without_scores_and_graphs_without_coins_are_refused() -> None:
    edge_index, num_nodes = random_graph(0)
    with pytest.raises(ValueError, match=r"'model' must have a coin with scores \(got 'grover'\)"):
        coin_report(GUMP(3, 8, 2, coin="grover"), torch.randn(num_nodes, 3), edge_index)
    with pytest.raises(ValueError, match="'edge_index' must have an edge"):
        coin_report(GUMP(3, 8, 2), torch.randn(2, 3), torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(
        ValueError, match=r"'model' must be a gump.nn.GUMP, which has coins \(got MPNN\); of a larger model pass that part"
    ):
        coin_report(MPNN(3, 8, 2), torch.randn(num_nodes, 3), edge_index)


def test_features_that_are_no_numbers_are_named_as_the_cause() -> None:
    edge_index, num_nodes = random_graph(0)
    with pytest.raises(ValueError, match=r"scores of coins must be finite \(got NaN or infinity\): look for such numbers in 'x'"):
        coin_report(GUMP(3, 8, 2).eval(), torch.randn(num_nodes, 3).index_fill(0, torch.tensor([1]), torch.nan), edge_index)


def test_hubs_are_refused_with_the_way_to_measure_them() -> None:
    edge_index, num_nodes = clique(5)
    with pytest.raises(
        ValueError, match=r"must have a block for every vertex \(got max_block=3, and vertex 4 has degree 4\); raise"
    ):
        coin_report(GUMP(3, 8, 2, max_block=3), torch.randn(num_nodes, 3), edge_index)
