from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from gump.datasets.cache import Arrays, cached, to_graphs


def arrays() -> Arrays:
    return {
        "num_nodes": np.array([2, 1]),
        "num_edges": np.array([2, 0]),
        "x": np.array([[1.0, 0.0], [0.0, 1.0], [0.25, 3.0]], dtype=np.float32),
        "edge_index": np.array([[0, 1], [1, 0]]),
        "edge_attr": np.array([[300], [-2]]),
        "y": np.array([[1.0], [np.nan]], dtype=np.float32),
        "empty": np.zeros((0, 3)),
        "big": np.array([2**40]),
    }


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt"
    path.write_text("content")
    return path


def fail() -> Arrays:
    raise AssertionError("was to come from the cache")


def assert_same(first: Arrays, second: Arrays) -> None:
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype
        assert np.array_equal(array, second[name], equal_nan=array.dtype.kind == "f")


def test_comes_back_as_it_was(tmp_path: Path, raw: Path) -> None:
    assert_same(cached(tmp_path / "c", "toy", {}, [raw], arrays), arrays())
    assert_same(cached(tmp_path / "c", "toy", {}, [raw], fail), arrays())


def test_is_not_a_pickle(tmp_path: Path, raw: Path) -> None:
    cached(tmp_path / "c", "toy", {}, [raw], arrays)
    (path,) = (tmp_path / "c" / "graphs").iterdir()
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
        assert file["edge_index"].dtype == np.uint8  # and is narrow


def test_settings_name_and_files_are_part_of_the_key(tmp_path: Path, raw: Path) -> None:
    calls = []

    def build() -> Arrays:
        calls.append(1)
        return arrays()

    cache = tmp_path / "c"
    for _ in range(2):
        cached(cache, "toy", {"a": 1}, [raw], build)
        cached(cache, "toy", {"a": 2}, [raw], build)
        cached(cache, "other", {"a": 1}, [raw], build)
    assert len(calls) == 3
    raw.write_text("CONTENT")  # of the same length
    cached(cache, "toy", {"a": 1}, [raw], build)
    assert len(calls) == 4


def test_every_version_of_a_reader_has_an_entry_and_who_has_none_takes_any(tmp_path: Path, raw: Path) -> None:
    with pytest.raises(AssertionError, match="was to come from the cache"):
        cached(tmp_path / "cache", "name", {}, [raw], fail, reader=None)
    built = {version: arrays() | {"version": np.array([number])} for number, version in enumerate(("1.9", "2.0"))}
    for version, content in built.items():
        cached(tmp_path / "cache", "name", {}, [raw], lambda content=content: content, reader=version)
    for version, content in built.items():
        assert_same(cached(tmp_path / "cache", "name", {}, [raw], fail, reader=version), content)
    assert_same(cached(tmp_path / "cache", "name", {}, [raw], fail, reader=None), built["2.0"])
    next((tmp_path / "cache").rglob("*-2.0.npz")).write_bytes(b"damaged")
    assert_same(cached(tmp_path / "cache", "name", {}, [raw], fail, reader=None), built["1.9"])


def test_a_damaged_file_is_built_again(tmp_path: Path, raw: Path) -> None:
    cached(tmp_path / "c", "toy", {}, [raw], arrays)
    (path,) = (tmp_path / "c" / "graphs").iterdir()
    content = path.read_bytes()
    middle = len(content) // 2
    for damaged in (b"", b"PK", content[:middle], content[:-1], content[:60] + b"XYZ" + content[63:], b"\x93NUMPY"):
        path.write_bytes(damaged)
        assert_same(cached(tmp_path / "c", "toy", {}, [raw], arrays), arrays())
        assert_same(cached(tmp_path / "c", "toy", {}, [raw], fail), arrays())
    np.save(path.with_suffix(".npy"), np.ones(2))
    path.with_suffix(".npy").rename(path)
    assert_same(cached(tmp_path / "c", "toy", {}, [raw], arrays), arrays())


def test_every_altered_byte_is_harmless(tmp_path: Path, raw: Path) -> None:
    small = {"num_nodes": np.array([2, 1]), "y": np.array([0, 1])}
    cached(tmp_path / "c", "toy", {}, [raw], lambda: small)
    (path,) = (tmp_path / "c" / "graphs").iterdir()
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        assert_same(cached(tmp_path / "c", "toy", {}, [raw], lambda: small), small)


def test_without_a_cache_nothing_is_kept(raw: Path, own_cache_and_no_network: Path) -> None:
    cached(False, "toy", {}, [raw], arrays)
    assert not list(own_cache_and_no_network.iterdir())
    cached(None, "toy", {}, [raw], arrays)
    assert len(list((own_cache_and_no_network / "graphs").iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, raw: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="toy could not be kept in the cache"):
        assert_same(cached(tmp_path / "file", "toy", {}, [raw], arrays), arrays())


def test_what_is_kept_can_be_read_by_whom_other_files_can(tmp_path: Path, raw: Path) -> None:
    cached(tmp_path / "c", "toy", {}, [raw], arrays)
    (path,) = (tmp_path / "c" / "graphs").iterdir()
    assert path.stat().st_mode == raw.stat().st_mode


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, raw: Path) -> None:
    with pytest.raises(AssertionError):
        cached(tmp_path / "c", "toy", {}, [raw], fail)
    assert not (tmp_path / "c").exists()


def test_graphs_by_hand() -> None:
    first, second = to_graphs(arrays())
    assert first.x.tolist() == [[1, 0], [0, 1]]
    assert first.edge_index.tolist() == [[0, 1], [1, 0]]
    assert (second.num_nodes, second.num_edges) == (1, 0)
    assert first.y.tolist() == [[1.0]]
    batch = Batch.from_data_list([first, second])
    assert batch.x.equal(torch.from_numpy(arrays()["x"]))
    assert batch.y.shape == (2, 1)
