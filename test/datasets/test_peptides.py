import csv
import gzip
import hashlib
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gump.datasets import load_peptides, peptides, read_smiles, statistics
from gump.datasets.checksums import MD5, SHA256
from gump.datasets.molecule import molecule_arrays, read_molecule, read_molecules
from gump.datasets.peptides import _rows, standardize
from gump.datasets.raw import read_raw

pytest.importorskip("rdkit")

SMILES = ["NCC(=O)O", "CC(N)C(=O)O", "NC(CO)C(=O)O", "NC(CS)C(=O)O", "CC(C)C(N)C(=O)O"]
LABELS = [[int(i == k) for k in range(10)] for i in range(5)]
SPLIT = {"train": [0, 2, 4], "val": [1], "test": [3]}


def packed(rows: list[dict[str, object]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(text.getvalue().encode())


def structure(i: int) -> dict[str, object]:
    return {name: i * i + k for k, name in enumerate(peptides.STRUCTURE)}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five amino acids as if they were the published files."""
    functional = packed([{"": i, "smiles": s, "labels": LABELS[i]} for i, s in enumerate(SMILES)])
    structural = packed([{"smiles": s} | structure(i) for i, s in enumerate(SMILES)])
    files = {f"peptides-functional/raw/{peptides.CSV['peptides-functional']}": functional}
    for part, index in SPLIT.items():
        files[f"peptides-functional/{peptides.SPLIT[part]}"] = gzip.compress("".join(f"{i}\n" for i in index).encode())
    files[f"peptides-structural/raw/{peptides.CSV['peptides-structural']}"] = structural
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
        if "structural" in file:
            monkeypatch.setitem(MD5, file, hashlib.md5(content).hexdigest())
        else:
            monkeypatch.setitem(SHA256, file, hashlib.sha256(gzip.decompress(content)).hexdigest())
    return tmp_path


def test_functions(root: Path) -> None:
    for _ in range(2):  # from the files, then from the cache
        dataset = load_peptides("functional", root)
        assert repr(dataset) == "Dataset('peptides-func', 5 graphs, multilabel of graphs, num_targets=10)"
        assert torch.cat([graph.y for graph in dataset]).tolist() == LABELS
        assert {part: index.tolist() for part, index in dataset.split.items()} == SPLIT
        glycine = dataset[0]
        assert glycine.edge_index.tolist() == [[0, 1, 1, 2, 2, 3, 2, 4], [1, 0, 2, 1, 3, 2, 4, 2]]
        assert glycine.x.tolist() == read_molecule(SMILES[0]).atoms.tolist()
        assert (glycine.x.dtype, glycine.edge_attr.dtype, glycine.y.dtype) == (torch.long, torch.long, torch.float)
        assert glycine.edge_attr[0::2].equal(glycine.edge_attr[1::2])


def test_a_molecule_by_itself_is_the_graph_that_the_loader_has(root: Path) -> None:
    graphs = load_peptides("functional", root)
    for smiles, graph in zip(SMILES, graphs, strict=True):
        alone = read_smiles(smiles)
        assert all(torch.equal(alone[key], graph[key]) for key in ("x", "edge_index", "edge_attr"))
    assert read_smiles("C").edge_index.shape == (2, 0)


def test_another_version_of_rdkit_is_another_entry_of_the_cache_and_without_rdkit_any_will_do(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_peptides("functional", root)
    read: list[int] = []
    real = peptides._read
    monkeypatch.setattr(peptides, "_read", lambda *arguments: read.append(1) or real(*arguments))
    load_peptides("functional", root)
    assert not read
    monkeypatch.setattr(peptides, "rdkit_version", lambda: None)  # not installed
    load_peptides("functional", root)
    assert not read
    monkeypatch.setattr(peptides, "rdkit_version", lambda: "1999.1")
    load_peptides("functional", root)
    assert read == [1]


def test_structure_is_standardized_by_the_training_set(root: Path) -> None:
    dataset = load_peptides("structural", root)
    y = torch.cat([graph.y for graph in dataset])
    assert (dataset.name, dataset.task, dataset.num_targets) == ("peptides-struct", "regression", 11)
    train = np.array([0.0, 4.0, 16.0])
    assert torch.allclose(y[:, 5], torch.tensor((np.array([0, 1, 4, 9, 16]) - train.mean()) / train.std(ddof=1)).float())
    assert torch.allclose(y[dataset.split["train"]].mean(dim=0), torch.zeros(11), atol=1e-6)


def test_descriptors_are_standardized_and_said_to_be_none_of_the_benchmark(root: Path) -> None:
    dataset = load_peptides("descriptors", root)
    raw = np.stack([read_molecule(smiles).descriptors for smiles in SMILES])
    assert np.allclose(torch.cat([graph.y for graph in dataset]), standardize(raw, np.array(SPLIT["train"])))
    assert (dataset.name, dataset.task, dataset.num_targets) == ("peptides-descriptors", "regression", 5)
    assert "not Peptides-struct" in dataset.note


def test_a_constant_column_stays_finite() -> None:
    assert standardize(np.ones((3, 1)), np.array([0, 1])).tolist() == [[0], [0], [0]]


def test_the_missing_file_of_structure_is_named(root: Path) -> None:
    (root / "peptides-structural" / "raw" / peptides.CSV["peptides-structural"]).unlink()
    with pytest.raises(
        FileNotFoundError,
        match=rf"could not be downloaded \(no network\); put its raw files under {root}/peptides-structural/raw \(peptide_structure_normalized",
    ):
        load_peptides("structural", root)


@pytest.mark.parametrize("target", ["functional", "structural"])
def test_altered_files_are_named(target: str, root: Path) -> None:
    load_peptides(target, root)
    path = root / f"peptides-{target}" / "raw" / peptides.CSV[f"peptides-{target}"]
    content = path.read_bytes()
    unpacked = gzip.decompress(content)
    for damaged in (
        content[:-1],
        content[: len(content) // 2],
        gzip.compress(unpacked[:-9]),
        gzip.compress(unpacked.replace(b"1", b"0", 1)),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"{path.name} (is damaged|must be the published file)"):
            load_peptides(target, root)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('smiles,labels\nC,"[0, 1]"\n', "must have 10 zeros and ones in every line of its column 'labels'"),
        (f'smiles,labels\nC,"{json.dumps([2] * 10)}"\n', "must have 10 zeros and ones"),
        ('smiles,labels\nC,"[0, 1"\n', "must have lists of equal length in its column 'labels'"),
        ("smiles\nC\n", "must have lists of equal length in its column 'labels'"),
        ("smiles,labels\nC\n", "must have a value in every column of every line"),
        ("labels\n[0]\n", "must have a value in every column of every line, SMILES among them"),
        ("", "must have a value in every column"),
        (f'smiles,labels\nC,"{json.dumps([0] * 10)}"\n', "must share the 1 rows of"),
    ],
)
def test_tables_must_be_whole(rows: str, message: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"peptides-functional/raw/{peptides.CSV['peptides-functional']}"
    (root / file).write_bytes(gzip.compress(rows.encode()))
    monkeypatch.delitem(SHA256, file)
    with pytest.raises(ValueError, match=message):
        load_peptides("functional", root)


def test_columns_of_structure_must_be_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"peptides-structural/raw/{peptides.CSV['peptides-structural']}"
    monkeypatch.delitem(MD5, file)
    (root / file).write_bytes(packed([{"smiles": s, "length_a": 1} for s in SMILES]))
    with pytest.raises(ValueError, match="must have numbers in its columns Inertia_mass_a"):
        load_peptides("structural", root)
    (root / file).write_bytes(packed([{"smiles": s} | structure(i) | {"length_a": "nan"} for i, s in enumerate(SMILES)]))
    with pytest.raises(ValueError, match="must have finite numbers only"):
        load_peptides("structural", root)


def test_download(root: Path, monkeypatch: pytest.MonkeyPatch, network_of_files: Callable[[dict[str, Path]], list[str]]) -> None:
    archive = root / "split.pickle"
    archive.write_bytes(pickle.dumps(SPLIT))
    monkeypatch.setattr(peptides, "MD5_SPLIT", hashlib.md5(archive.read_bytes()).hexdigest())
    served = {peptides.URLS[name]: root / name / "raw" / peptides.CSV[name] for name in peptides.URLS} | {
        peptides.URL_SPLIT: archive
    }
    asked = network_of_files(served)
    assert len(load_peptides("structural")) == 5
    assert sorted(asked) == sorted(served)
    assert len(load_peptides("functional")) == 5
    assert len(asked) == 3  # nothing twice


def test_refuses() -> None:
    with pytest.raises(ValueError, match=r"'target' must be one of 'functional', 'structural', 'descriptors' \(got 'func'\)"):
        load_peptides("func")


def test_real_peptides(data_root: Path) -> None:
    path = data_root / "peptides-functional" / "raw" / peptides.CSV["peptides-functional"]
    rows = _rows(path, read_raw(path, f"peptides-functional/raw/{path.name}"))
    assert len(rows) == 15535
    arrays = molecule_arrays(read_molecules([row["smiles"] for row in rows[:100]], read_molecule))
    assert arrays["num_nodes"].size == 100
    assert arrays["x"].shape == (arrays["num_nodes"].sum(), 9)
    assert arrays["edge_index"].shape == (2, arrays["num_edges"].sum())
    assert arrays["num_nodes"].mean() == pytest.approx(151, rel=0.2)


@pytest.mark.slow
def test_counts_are_the_benchmarks(data_root: Path) -> None:
    for target in ("functional", "descriptors"):
        dataset = load_peptides(target, data_root)
        counts = statistics(dataset)
        assert (counts["num_graphs"], counts["num_nodes"], counts["num_arcs"]) == (15535, 2344859, 4773974)
        assert [len(dataset.split[part]) for part in ("train", "val", "test")] == [10873, 2331, 2331]
