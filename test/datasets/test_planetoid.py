import pickle
import shutil
from pathlib import Path

import pytest
import torch
from torch_geometric.io import read_planetoid_data
from torch_geometric.utils import is_undirected, to_undirected

from gump.datasets import load_planetoid
from gump.datasets.checksums import SHA256
from gump.datasets.planetoid import PARTS, PLANETOID

COUNTS = {"Cora": (2708, 5278, 1433, 7), "CiteSeer": (3327, 4552, 3703, 6)}


@pytest.mark.parametrize("name", COUNTS)
def test_equals_what_pyg_reads(name: str, data_root: Path) -> None:
    for _ in range(2):  # from the files, then from the cache
        dataset = load_planetoid(name, data_root)
        (data,) = dataset
        num_nodes, num_edges, num_features, num_classes = COUNTS[name]
        assert (data.num_nodes, data.num_edges, data.num_features) == (num_nodes, 2 * num_edges, num_features)
        assert (dataset.level, dataset.task, dataset.num_targets) == ("node", "multiclass", num_classes)
        assert is_undirected(data.edge_index)
        assert not data.has_self_loops()
        pyg = read_planetoid_data(str(data_root / name / "raw"), name.lower())
        assert data.x.equal(pyg.x)
        assert data.y.equal(pyg.y)
        assert data.edge_index.equal(to_undirected(pyg.edge_index))
        for part, index in dataset.split.items():
            assert index.equal(pyg[f"{part}_mask"].nonzero().view(-1))
        assert [len(dataset.split[part]) for part in ("train", "val", "test")] == [20 * num_classes, 500, 1000]


def test_classes_have_twenty_papers_each_to_train_on(data_root: Path) -> None:
    dataset = load_planetoid("Cora", data_root)
    assert dataset[0].y[dataset.split["train"]].bincount().tolist() == [20] * 7
    assert torch.cat(list(dataset.split.values())).unique().numel() == 1640


def test_links_have_no_labels_and_no_split(data_root: Path) -> None:
    dataset = load_planetoid("Cora", data_root, level="link")
    assert (dataset.level, dataset.task, dataset.num_targets, dataset.split) == ("link", "binary", 1, None)
    assert "y" not in dataset[0]


@pytest.mark.parametrize("part", PARTS)
def test_altered_files_are_named_and_never_unpickled(
    part: str, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(data_root / "Cora", tmp_path / "Cora", copy_function=shutil.copyfile)
    path = tmp_path / "Cora" / "raw" / f"ind.cora.{part}"
    content = path.read_bytes()
    for damaged in (
        content[:-1],
        content[: len(content) // 2],
        content[:100] + b"\x00" + content[101:],
        b"cos\nsystem\n(S'echo evil'\ntR.",
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"ind.cora.{part} must be the published file, with SHA-256"):
            load_planetoid("Cora", tmp_path)


def test_a_pickle_of_unknown_sum_is_not_read(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SHA256, "Cora/raw/ind.cora.graph")
    with pytest.raises(ValueError, match=r"ind.cora.graph is a pickle of unknown checksum, which is not read"):
        load_planetoid("Cora", data_root)


def test_the_sums_of_all_files_are_known() -> None:
    for name in PLANETOID:
        for part in PARTS:
            assert len(SHA256[f"{name}/raw/ind.{name.lower()}.{part}"]) == 64


def test_another_file_in_place_of_pubmeds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PubMed" / "raw").mkdir(parents=True)
    for part in PARTS:
        (tmp_path / "PubMed" / "raw" / f"ind.pubmed.{part}").write_bytes(pickle.dumps([]))
    with pytest.raises(ValueError, match=r"ind.pubmed.x must be the published file"):
        load_planetoid("PubMed", tmp_path)


def test_a_missing_dataset_is_named_with_the_place_for_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=rf"'PubMed' is not in {tmp_path} .* under {tmp_path}/PubMed/raw \(ind.pubmed.x, "):
        load_planetoid("PubMed", tmp_path)


def test_refuses() -> None:
    with pytest.raises(ValueError, match=r"'name' must be one of 'Cora', 'CiteSeer', 'PubMed' \(got 'cora'\)"):
        load_planetoid("cora")
    with pytest.raises(ValueError, match=r"'level' must be 'node' or 'link' \(got 'graph'\)"):
        load_planetoid("Cora", level="graph")
