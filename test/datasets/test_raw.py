import gzip
import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gump.datasets.checksums import MD5, REGENERATED, SHA256
from gump.datasets.raw import NotHereError, cache_folder, download_file, find_raw, parse_table, read_raw, unpack


def nothing(folder: Path) -> None:
    raise OSError("nothing to fetch")


def test_cache_is_where_one_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache_and_no_network: Path) -> None:
    assert cache_folder(tmp_path) == cache_folder(str(tmp_path)) == tmp_path
    assert cache_folder() == cache_folder(False) == own_cache_and_no_network
    monkeypatch.delenv("GUMP_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "torch-gump"


def test_the_folder_of_data_comes_before_downloads(tmp_path: Path) -> None:
    def fetch(folder: Path) -> None:
        (folder / "raw").mkdir()
        (folder / "raw" / "a").write_text("downloaded")

    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    assert find_raw("toy", ["raw/a"], data, cache, fetch) == cache / "raw" / "toy"
    assert find_raw("toy", ["raw/a"], data, cache, nothing) == cache / "raw" / "toy"  # not again
    assert not list(data.iterdir())
    (data / "toy" / "raw").mkdir(parents=True)
    (data / "toy" / "raw" / "a").write_text("here")
    assert find_raw("toy", ["raw/a"], data, cache, nothing) == data / "toy"


def test_what_is_not_here_is_said_without_a_download_and_what_lacks_a_file_is_another_error(tmp_path: Path) -> None:
    with pytest.raises(NotHereError, match=rf"'toy' is not in {tmp_path}; put its raw files under {tmp_path}/toy/raw; `gump run`"):
        find_raw("toy", ["raw/a", "raw/b"], tmp_path, tmp_path / "cache", None)
    with pytest.raises(NotHereError, match="which is no folder"):
        find_raw("toy", ["raw/a"], tmp_path / "nowhere", tmp_path / "cache", None)
    with pytest.raises(NotHereError, match="could not be downloaded"):
        find_raw("toy", ["raw/a"], tmp_path, tmp_path / "cache", nothing)
    (tmp_path / "toy/raw").mkdir(parents=True)
    (tmp_path / "toy/raw/a").touch()
    with pytest.raises(FileNotFoundError, match="raw/b is missing") as raised:
        find_raw("toy", ["raw/a", "raw/b"], tmp_path, tmp_path / "cache", None)
    assert not isinstance(raised.value, NotHereError)


def test_a_download_that_lacks_a_file_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"'toy' is not in .* could not be downloaded \(raw/a was not among what was downloaded\)"
    ):
        find_raw("toy", ["raw/a"], tmp_path, tmp_path / "cache", lambda folder: None)
    assert not list((tmp_path / "cache" / "raw").iterdir())


def test_download_checks_the_sum(tmp_path: Path, network_of_files: Callable[[dict[str, Path]], list[str]]) -> None:
    source, url = tmp_path / "source", "https://example.org/file"
    source.write_bytes(b"content")
    network_of_files({url: source})
    download_file(url, tmp_path / "target", hashlib.md5(b"content").hexdigest())
    assert (tmp_path / "target").read_bytes() == b"content"
    with pytest.raises(OSError, match="is not the file that was expected, whose MD5 is 00"):
        download_file(url, tmp_path / "target", "00")


def test_a_download_that_breaks_off_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = io.BytesIO(b"only this")
    answer.headers = {"Content-Length": "100"}  # type: ignore[attr-defined]
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: answer)
    with pytest.raises(OSError, match="broke off after 9 of 100 bytes"):
        download_file("https://example.org/file", tmp_path / "target")


def test_unpacking_stays_in_its_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("top/raw/inside.txt", "1")
        file.writestr("top/../../outside.txt", "1")
        file.writestr("loose.txt", "1")
    unpack(tmp_path / "a.zip", tmp_path / "out")
    assert [p.relative_to(tmp_path).as_posix() for p in sorted(tmp_path.rglob("*.txt"))] == ["out/raw/inside.txt"]


def test_a_known_file_must_be_the_known_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n"))
    assert read_raw(path) == read_raw(path, "unknown") == b"1,2\n"
    monkeypatch.setitem(SHA256, "a", hashlib.sha256(b"1,2\n").hexdigest())
    assert read_raw(path, "a") == b"1,2\n"
    path.write_bytes(gzip.compress(b"1,2\n", compresslevel=1))  # packed otherwise, the same inside
    assert read_raw(path, "a") == b"1,2\n"
    path.write_bytes(gzip.compress(b"1,3\n"))
    with pytest.raises(ValueError, match=r"a.csv.gz must be the published file, with SHA-256 .*: it was truncated or altered"):
        read_raw(path, "a")
    monkeypatch.setitem(MD5, "b", "00")
    with pytest.raises(ValueError, match=r"a.csv.gz must be the published file, with MD5 00"):
        read_raw(path, "b")


def test_every_cut_of_a_packed_file_is_an_error(tmp_path: Path) -> None:
    content = gzip.compress(b"1,2\n" * 50)
    path = tmp_path / "a.csv.gz"
    for length in range(1, len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"a.csv.gz is damaged"):
            read_raw(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"^a must have 2 whole numbers with commas between them in every line \(got an empty file\)$"),
        (b"1,2\n3\n", r"\(got '3' in line 2\)"),
        (b"1,2\r\n3,\r\n", r"\(got '3,' in line 2\)"),
        (b"1,2\r3,4.5\n", r"\(got '3,4.5' in line 2\)"),
        (b"1,2\n \n3,4\n", r"\(got nothing in line 2\)"),
        (b"1,2\x0c\n3,\xff\n", r"\(got '3,\ufffd' in line 2\)"),
        (b"1\n", r"\(got '1' in line 1\)"),
        (b"1,2\n" + b"x" * 99, r"\(got 'x{40}\.\.\.' in line 2\)"),
    ],
)
def test_what_is_no_table_is_named(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_table(Path("a"), text, int, 2)


def test_tables() -> None:
    assert parse_table(Path("a"), b"1, 2\r\n3, -4\n").tolist() == [[1, 2], [3, -4]]
    assert parse_table(Path("a"), b"1.5\n2", float).tolist() == [[1.5], [2.0]]
    assert parse_table(Path("a"), b"1\n").dtype == np.int64
    assert parse_table(Path("a"), b"\xef\xbb\xbf1\n2\n").tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1,2,3\n1,2\n", r"a must have 3 finite numbers with commas between them in every line \(got '1,2' in line 2\)"),
        (b"1\n-inf\n", r"a must have a finite number in every line \(got '-inf' in line 2\)"),
        (b"1,\n", r"a must have 2 finite numbers with commas between them in every line \(got '1,' in line 1\)"),
        (b"", r"a must have a finite number in every line \(got an empty file\)"),
    ],
)
def test_as_many_numbers_as_in_the_first_line_are_in_all(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_table(Path("a"), text, float)


def test_the_table_of_sums_is_that_of_the_files(data_root: Path) -> None:
    for name, expected in (SHA256 | REGENERATED).items():
        path = data_root / name
        if path.is_file() and "molhiv/raw" not in name:  # molhiv is read as a whole in its own test
            assert hashlib.sha256(read_raw(path)).hexdigest() == expected, name
