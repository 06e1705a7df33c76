import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.utils import is_undirected

from gump.datasets.own import load_own


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_list_of_edges_becomes_an_undirected_graph(tmp_path: Path) -> None:
    data = load_own(write(tmp_path / "path.txt", "# a path\n0 1\n\n 2\t1 # in the other orientation\n1 2\n"))
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert (data.num_nodes, data.x) == (3, None)


def test_self_loops_go_and_their_vertices_stay(tmp_path: Path) -> None:
    data = load_own(write(tmp_path / "loop.edges", "0 1\n4 4\n"))
    assert (data.edge_index.tolist(), data.num_nodes) == ([[0, 1], [1, 0]], 5)


def test_numbers_that_are_left_out_are_warned_of(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match=r"one\.txt leaves out 0 of the numbers from 0 to 2: these count as vertices without edges"
    ):
        assert load_own(write(tmp_path / "one.txt", "1 2\n")).num_nodes == 3
    np.savez(tmp_path / "gaps.npz", edge_index=np.array([[0], [2000]]))
    with pytest.warns(UserWarning, match=r"gaps\.npz leaves out 1 and 1,998 more of the numbers from 0 to 2,000"):
        load_own(tmp_path / "gaps.npz")


@pytest.mark.parametrize("dtype", [np.float64, np.int32, bool])
def test_arrays_bring_features_and_vertices_without_edges(tmp_path: Path, dtype: type) -> None:
    x = np.eye(4).astype(dtype)
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0, 1], [1, 2]], dtype=np.int32), x=x)
    data = load_own(tmp_path / "graph.npz")
    assert is_undirected(data.edge_index)
    assert (data.num_nodes, data.num_edges, data.x.dtype) == (4, 4, torch.float)
    assert torch.equal(data.x, torch.eye(4))


def test_arrays_without_features_and_without_edges_are_graphs(tmp_path: Path) -> None:
    np.savez(tmp_path / "bare.npz", edge_index=np.array([[0], [2]]))
    assert load_own(tmp_path / "bare.npz").num_nodes == 3
    np.savez(tmp_path / "points.npz", edge_index=np.zeros((2, 0), dtype=int), x=np.ones((2, 1)))
    data = load_own(tmp_path / "points.npz")
    assert (data.num_nodes, data.num_edges) == (2, 0)


@pytest.mark.parametrize(
    "text",
    [
        "0,1\n1,2\n",
        "0, 1\r\n1 ,2\r\n",
        "source,target\n0,1\n1,2\n",
        "# made by hand\nsource;target\n0;1\n1;2\n",
        "% asymmetric\n0 1\n1\t2\n",
        "\ufeff0,1\n1,2\n",
    ],
)
def test_numbers_may_be_separated_as_in_a_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "path.csv").write_text(text, encoding="utf-8", newline="")
    data = load_own(tmp_path / "path.csv")
    assert (data.edge_index.tolist(), data.num_nodes) == ([[0, 1, 1, 2], [1, 0, 2, 1]], 3)


@pytest.mark.parametrize("text", ["0,1,0.5\n1,2,-1e-3\n", "0 1 2\n1 2 7\n", "from,to,weight\n0,1,1\n1,2,2\n"])
def test_weights_are_not_read_and_that_is_said(tmp_path: Path, text: str) -> None:
    with pytest.warns(UserWarning, match="path.csv has a third number in 2 of 2 lines: weights of edges are not read"):
        data = load_own(write(tmp_path / "path.csv", text))
    assert (data.edge_index.tolist(), data.num_nodes, data.edge_attr) == ([[0, 1, 1, 2], [1, 0, 2, 1]], 3, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "0 1\n1 2 3 4\n",
            r"must be a list of edges as text, two whole numbers .* a comma .* or .npz .* 'edge_index' \(got '1 2 3 4' in line 2\)",
        ),
        ("<?xml version='1.0'?>\n<graphml>", r"a list of edges as text, .* or .npz .* in line 1\)"),
        ("0,1\nsource,target\n", r"got 'source,target' in line 2"),
        ("0 1 x\n", "two whole numbers"),
        ("0 ,, 1\n", "two whole numbers"),
        ("0 1.5\n", "two whole numbers"),
        ("0 -1\n", "two whole numbers"),
        ("a b\n", "two whole numbers"),
        (f"0 {10**20}\n", "two whole numbers"),
        ("0 99999999999\n", r"must have at most 100,000,000 vertices \(got 100,000,000,000\); number them from zero without gaps"),
        ("# nothing\n", r"must have an edge or a vertex at least \(got none\)"),
    ],
)
def test_text_that_lists_no_edges_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_own(write(tmp_path / "bad.txt", text))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"edges": np.zeros((2, 1), dtype=int)}, r"must hold an array 'edge_index' .* \(got none\)"),
        ({"edge_index": np.zeros((3, 2), dtype=int)}, r"\(got \[3, 2\] of int64\)"),
        ({"edge_index": np.zeros((2, 1))}, r"\(got \[2, 1\] of float64\)"),
        ({"edge_index": np.array([[0], [3]]), "x": np.ones((3, 1))}, r"must number vertices from 0 to 2 \(got 3\)"),
        ({"edge_index": np.array([[0], [-1]])}, r"\(got -1\)"),
        ({"edge_index": np.array([[0], [10**17]])}, "must have at most 100,000,000 vertices"),
        (
            {"edge_index": np.array([[0], [1]]), "x": np.full((2, 1), 1e300)},
            r"'x' in .* must be finite numbers .* also in single precision",
        ),
        (
            {"edge_index": np.array([[0], [1]]), "x": np.ones((2, 0))},
            r"'x' in .* must be finite numbers .*\(got \[2, 0\] of float64",
        ),
        ({"edge_index": np.array([[0], [1]]), "x": np.ones(2)}, r"'x' in .* must be finite numbers .*\(got \[2\] of float64"),
        ({"edge_index": np.array([[0], [1]]), "x": np.full((2, 1), np.nan)}, "finite"),
        ({"edge_index": np.array([[None], [1]])}, "must hold plain arrays"),
    ],
)
def test_arrays_that_are_no_graph_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_own(tmp_path / "bad.npz")


def test_what_is_no_file_or_neither_text_nor_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"'path' must be a file with a list of edges, or .npz \(got '.*nothing.txt', which is none\)"
    ):
        load_own(tmp_path / "nothing.txt")
    (tmp_path / "noise.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"or .npz with an array 'edge_index' \(got something that is not text\)"):
        load_own(tmp_path / "noise.txt")


@pytest.mark.parametrize(
    "content", [b"", b"0 1\n", b"PK\x03\x04 but no archive", b"\x80\x04 a pickle", b"\x93NUMPY a single array"]
)
def test_what_is_called_an_archive_and_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "noise.npz").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"noise.npz must be an archive of arrays, as np.savez writes it \(got something else\); give a list"
    ):
        load_own(tmp_path / "noise.npz")


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_so_is_an_archive_of_something_else(tmp_path: Path, content: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as file:
        file.writestr("edge_index.npy", content)
    with pytest.raises(ValueError, match=r"other.npz must hold (plain arrays|an array 'edge_index')"):
        load_own(tmp_path / "other.npz")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "graph.npz", edge_index=np.arange(2000).reshape(2, -1))
    content = bytearray((tmp_path / "graph.npz").read_bytes())
    content[200:260] = b"\xff" * 60
    (tmp_path / "graph.npz").write_bytes(content)
    with pytest.raises(ValueError, match="must hold plain arrays"):
        load_own(tmp_path / "graph.npz")
