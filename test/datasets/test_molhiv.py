import gzip
import hashlib
import shutil
from pathlib import Path

import pytest
import torch

from gump.datasets import load_molhiv, statistics
from gump.datasets.checksums import REGENERATED, SHA256

CSV = {
    "raw/num-node-list": "2\n3\n1\n",
    "raw/num-edge-list": "1\n2\n0\n",
    "raw/edge": "0,1\n0,1\n1,2\n",
    "raw/node-feat": "5,0,4,5,3,0,2,0,0\n7,0,2,5,1,0,2,0,0\n5,0,4,5,3,0,2,0,0\n5,0,4,5,2,0,2,0,0\n5,0,4,5,3,0,2,0,0\n10,0,0,6,0,0,2,0,0\n",
    "raw/edge-feat": "0,0,0\n1,0,0\n2,0,1\n",
    "raw/graph-label": "0\n1\n0\n",
    "split/scaffold/train": "1\n",
    "split/scaffold/valid": "2\n",
    "split/scaffold/test": "0\n",
}
"""Methanol, propane (with odd bonds) and a sodium ion."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The three molecules as if they were the published ones, except for the features, whose sums are not known."""
    for file, text in CSV.items():
        path = tmp_path / "ogbg_molhiv" / f"{file}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))
        if "feat" not in file:
            monkeypatch.setitem(SHA256, f"ogbg_molhiv/{file}.csv.gz", hashlib.sha256(text.encode()).hexdigest())
    return tmp_path


def rewrite(root: Path, file: str, text: str) -> None:
    (root / "ogbg_molhiv" / f"{file}.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_three_molecules_by_hand(root: Path) -> None:
    for _ in range(2):  # from the files, then from the cache
        dataset = load_molhiv(root)
        methanol, propane, sodium = dataset
        assert methanol.x[1].tolist() == [7, 0, 2, 5, 1, 0, 2, 0, 0]
        assert propane.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        assert propane.edge_attr.tolist() == [[1, 0, 0], [1, 0, 0], [2, 0, 1], [2, 0, 1]]
        assert propane.y.tolist() == [[1.0]]
        assert (sodium.num_nodes, sodium.num_edges) == (1, 0)
        assert sodium.edge_attr.shape == (0, 3)
        assert {part: index.tolist() for part, index in dataset.split.items()} == {"train": [1], "val": [2], "test": [0]}
        assert (dataset.task, dataset.num_targets, len(dataset.x_sizes), dataset.edge_sizes) == ("binary", 1, 9, (5, 6, 2))
        assert "no checksum of theirs is known" in dataset.note


def test_the_note_says_where_features_come_from(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("edge", "node"):
        assert "computed again" not in load_molhiv(root, cache=False).note
        known = f"raw/{part}-feat"
        monkeypatch.setitem(REGENERATED, f"ogbg_molhiv/{known}.csv.gz", hashlib.sha256(CSV[known].encode()).hexdigest())
    assert "computed again from the SMILES with RDKit 2022.09.5" in load_molhiv(root, cache=False).note


@pytest.mark.parametrize("file", [file for file in CSV if "feat" not in file])
def test_altered_files_are_named(file: str, root: Path) -> None:
    load_molhiv(root)
    rewrite(root, file, CSV[file].replace("1", "0", 1) if "1" in CSV[file] else CSV[file] * 2)
    with pytest.raises(ValueError, match=rf"{file.split('/')[-1]}.csv.gz must be the published file"):
        load_molhiv(root)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("raw/node-feat", CSV["raw/node-feat"][:-20], r"node-feat.csv.gz must (be a table|have 6 lines)"),
        ("raw/node-feat", "5,0,4,5,3,0,2,0\n" * 6, r"node-feat.csv.gz must have 9 whole numbers .* \(got .* in line 1\)"),
        ("raw/node-feat", CSV["raw/node-feat"].replace("7,0", "119,0"), "node-feat.csv.gz must have categories from zero"),
        (
            "raw/node-feat",
            CSV["raw/node-feat"].replace("7,0,2", "7,0,3"),
            r"node-feat.csv.gz must agree with the bonds .* line 2\)",
        ),
        ("raw/edge-feat", "0,0,0\n1,0,0\n", r"edge-feat.csv.gz must have 3 lines \(got 2\)"),
        ("raw/edge-feat", "0,0,0\n1,0,0\n2,6,1\n", "edge-feat.csv.gz must have categories from zero"),
    ],
)
def test_features_must_fit_the_molecules(file: str, text: str, message: str, root: Path) -> None:
    load_molhiv(root)
    rewrite(root, file, text)
    with pytest.raises(ValueError, match=message):
        load_molhiv(root)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("raw/edge", "0,1\n0,1\n1,3\n", "edge.csv.gz must name atoms of the molecule"),
        ("raw/graph-label", "0\n1\n", r"graph-label.csv.gz must have 3 lines \(got 2\)"),
        ("raw/graph-label", "0\n1\n2\n", "graph-label.csv.gz must have zeros and ones only"),
        ("split/scaffold/train", "2\n", "must share the 3 molecules among them"),
    ],
)
def test_files_must_fit_each_other(file: str, text: str, message: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(root, file, text)
    monkeypatch.delitem(SHA256, f"ogbg_molhiv/{file}.csv.gz")
    with pytest.raises(ValueError, match=message):
        load_molhiv(root)


def test_a_cut_archive_is_named(root: Path) -> None:
    path = root / "ogbg_molhiv" / "raw" / "node-feat.csv.gz"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"node-feat.csv.gz is damaged"):
        load_molhiv(root)


def test_missing_files_are_named(root: Path, tmp_path: Path) -> None:
    (root / "ogbg_molhiv" / "raw" / "edge.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"edge.csv.gz is missing\); put its raw files under .*/ogbg_molhiv/raw"):
        load_molhiv(root)
    shutil.rmtree(root / "ogbg_molhiv")
    with pytest.raises(FileNotFoundError, match=r"'ogbg_molhiv' is not in .* could not be downloaded \(no network\)"):
        load_molhiv(root)


@pytest.mark.slow
def test_counts_are_ogbs(data_root: Path) -> None:
    for _ in range(2):
        dataset = load_molhiv(data_root)
        counts = statistics(dataset)
        assert (counts["num_graphs"], counts["num_nodes"], counts["num_edges"]) == (41127, 1049163, 1129688)
        assert counts["num_arcs"] == 2 * 1129688
        y = torch.cat([graph.y for graph in dataset]).view(-1)
        assert {part: (len(index), int(y[index].sum())) for part, index in dataset.split.items()} == {
            "train": (32901, 1232),
            "val": (4113, 81),
            "test": (4113, 130),
        }
        assert "computed again" in dataset.note
