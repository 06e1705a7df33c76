from pathlib import Path

import pytest
import torch

from gump import EulerianLineGraph
from gump.datasets import load_tu

BLOCKS = {"MUTAG": (3371, 4), "PROTEINS": (43466, 25), "ENZYMES": (19474, 9), "NCI1": (122319, 4), "NCI109": (122020, 5)}
"""The paper's table of blocks: their number and the largest degree."""

GRAPHS = {"MUTAG": 188, "PROTEINS": 1113, "ENZYMES": 600, "NCI1": 4110, "NCI109": 4127}


def write(root: Path) -> None:
    """Two graphs, an edge and a triangle, with vertex labels 3 and 5."""
    folder = root / "TINY" / "raw"
    folder.mkdir(parents=True)
    edges = [(1, 2), (2, 1), (3, 4), (4, 3), (4, 5), (5, 4), (3, 5), (5, 3)]
    (folder / "TINY_A.txt").write_text("".join(f"{u}, {v}\n" for u, v in edges))
    (folder / "TINY_graph_indicator.txt").write_text("1\n1\n2\n2\n2\n")
    (folder / "TINY_graph_labels.txt").write_text("-1\n1\n")
    (folder / "TINY_node_labels.txt").write_text("3\n5\n3\n3\n5\n")


def test_two_graphs_by_hand(tmp_path: Path) -> None:
    write(tmp_path)
    edge, triangle = load_tu("TINY", tmp_path)
    assert (edge.num_nodes, triangle.num_nodes) == (2, 3)
    assert edge.edge_index.tolist() == [[0, 1], [1, 0]]
    assert (edge.y.item(), triangle.y.item()) == (0, 1)
    assert triangle.x.argmax(1).tolist() == [0, 0, 2]


def test_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    load_tu("TINY", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "TINY" / "raw" / "TINY_graph_indicator.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"TINY_graph_indicator.txt is missing\); put its raw files under"):
        load_tu("TINY", tmp_path)
    with pytest.raises(FileNotFoundError, match="'OTHER' is not in"):
        load_tu("OTHER", tmp_path)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_and_largest_degree_are_the_papers(name: str, data_root: Path) -> None:
    graphs = load_tu(name, data_root)
    assert len(graphs) == GRAPHS[name]
    offset = torch.tensor([0] + [g.num_nodes for g in graphs]).cumsum(0)
    edge_index = torch.cat([g.edge_index + first for g, first in zip(graphs, offset[:-1], strict=True)], dim=1)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, int(offset[-1]))
    assert (line_graph.num_blocks, line_graph.max_degree) == BLOCKS[name]
    assert line_graph.num_transitions == int(edge_index[0].bincount().square().sum())
