from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gump.datasets import Dataset, fake_dataset, load_planetoid, load_transfer, load_tu, statistics

PAPER = {"MUTAG": (188, 17.9, 39.6), "PROTEINS": (1113, 39.1, 145.6), "ENZYMES": (600, 32.6, 124.3)}
"""The paper's table: graphs, average nodes, and what it calls average edges, which are arcs."""


def test_two_graphs_by_hand() -> None:
    path = Data(x=torch.ones(4, 2), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    loop = Data(x=torch.ones(2, 2), edge_index=torch.tensor([[0, 1, 1], [1, 1, 0]]))
    assert statistics(Dataset("toy", [path, loop], "regression", 3)) == {
        "name": "toy",
        "type": "Graph Regression",
        "num_graphs": 2,
        "num_nodes": 6,
        "num_arcs": 7,
        "num_edges": 4,
        "avg_nodes": 3.0,
        "avg_arcs": 3.5,
        "avg_edges": 2.0,
        "num_isolated": 1,
        "max_degree": 2,
        "num_features": 2,
        "num_edge_features": 0,
        "num_targets": 3,
    }


def test_types() -> None:
    assert statistics(fake_dataset("node"))["type"] == "Node Classification"
    assert statistics(fake_dataset("link", "binary"))["type"] == "Link Prediction"
    assert statistics(load_transfer("Ring", 8))["type"] == "Node Classification"
    assert statistics(load_transfer("CliquePath", 28))["max_degree"] == 14


def test_a_graph_without_edges() -> None:
    data = Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))
    counts = statistics(Dataset("toy", [data], "binary", 1))
    assert (counts["num_edges"], counts["max_degree"], counts["num_isolated"]) == (0, 0, 2)


@pytest.mark.parametrize("name", PAPER)
def test_small_datasets_are_the_papers(name: str, data_root: Path) -> None:
    counts = statistics(load_tu(name, data_root))
    num_graphs, avg_nodes, avg_arcs = PAPER[name]
    assert counts["num_graphs"] == num_graphs
    assert counts["avg_nodes"] == pytest.approx(avg_nodes, abs=0.05)
    assert counts["avg_arcs"] == pytest.approx(avg_arcs, abs=0.05)


@pytest.mark.parametrize(("name", "isolated"), [("PROTEINS", 5), ("ENZYMES", 106)])
def test_isolated_vertices_stay(name: str, isolated: int, data_root: Path) -> None:
    assert statistics(load_tu(name, data_root))["num_isolated"] == isolated


def test_nci1_has_the_papers_edges_once_each(data_root: Path) -> None:
    counts = statistics(load_tu("NCI1", data_root))
    assert (round(counts["avg_nodes"], 2), round(counts["avg_edges"], 2)) == (29.87, 32.30)
    assert (counts["num_arcs"], counts["num_isolated"]) == (265506, 428)


def test_cora(data_root: Path) -> None:
    counts = statistics(load_planetoid("Cora", data_root))
    assert (counts["num_nodes"], counts["num_edges"], counts["num_targets"]) == (2708, 5278, 7)
