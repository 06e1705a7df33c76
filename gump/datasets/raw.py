"""Raw files: where they are, how they get there, and whether they are whole."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gump.datasets.checksums import MD5, SHA256

Location = str | os.PathLike[str]
TIMEOUT_S = 30


class NotHereError(FileNotFoundError):
    """A dataset of which there is no file; one that lacks some of its files is another matter."""


def cache_folder(cache: Location | bool | None = None) -> Path:
    """The folder that we may write into: the given one, or ``GUMP_CACHE``, or ``~/.cache/torch-gump``."""
    if cache is None or isinstance(cache, bool):
        return Path(os.environ.get("GUMP_CACHE") or "~/.cache/torch-gump").expanduser()
    return Path(cache)


def find_raw(
    name: str,
    files: Sequence[str],
    root: Location | None,
    cache: Location | bool | None,
    fetch: Callable[[Path], None] | None,
) -> Path:
    """Returns the folder of a dataset's raw files, downloading them if they are nowhere.

    Looks in ``root`` or, without one, in the folder that the environment variable ``GUMP_DATA`` names, then among earlier downloads, which
    lie in the cache. Nothing is ever written elsewhere.

    Args:
        name: The dataset's folder.
        files: The paths under it that must be there.
        root: The folder that holds the dataset's folder.
        cache: As for :func:`cache_folder`.
        fetch: Downloads the files into a folder; ``None`` to do without.
    """
    if not name or Path(name).name != name:
        raise ValueError(f"'name' must be the name of a folder (got {name!r})")
    downloads = cache_folder(cache) / "raw"
    given = root if root is not None else os.environ.get("GUMP_DATA")
    home = Path(given) if given else downloads
    if not home.is_dir() and given:
        raise NotHereError(
            f"'{name}' is not in {home}, which is no folder; put its raw files under {(home / name / files[0]).parent}"
        )
    for folder in dict.fromkeys([home / name, downloads / name]):
        missing = [folder / file for file in files if not (folder / file).is_file()]
        if not missing:
            return folder
        if len(missing) < len(files):
            raise FileNotFoundError(
                f"'{name}' is not in {folder.parent} ({missing[0]} is missing); put its raw files under {missing[0].parent}"
            )
    target, hint = (home / name / files[0]).parent, "" if given else f", or set GUMP_DATA to the folder that holds {name}"
    if fetch is None:
        raise NotHereError(
            f"'{name}' is not in {home}; put its raw files under {target}{hint}; `gump run` downloads it where it can"
        )
    try:
        _fetch_into(downloads / name, files, fetch)
    except (OSError, http.client.HTTPException, zipfile.BadZipFile) as error:
        raise NotHereError(
            f"'{name}' is not in {home} and could not be downloaded ({_reason(error)}); put its raw files under {target} "
            f"({', '.join(Path(file).name for file in files)}){hint}"
        ) from error
    return downloads / name


def _fetch_into(folder: Path, files: Sequence[str], fetch: Callable[[Path], None]) -> None:
    """Downloads beside the place where the files belong, then moves them there as a whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        fetched = Path(temporary) / folder.name
        fetched.mkdir()
        fetch(fetched)
        missing = [file for file in files if not (fetched / file).is_file()]
        if missing:
            raise FileNotFoundError(f"{missing[0]} was not among what was downloaded")
        if folder.exists():
            shutil.rmtree(folder)  # has none of the files, or it would not have come to this
        fetched.rename(folder)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code}"
    if isinstance(error, urllib.error.URLError | TimeoutError):
        return "no network"
    return str(error)


def download_file(url: str, path: Path, md5: str | None = None) -> None:
    """Downloads a file; one that is shorter than announced, or has another MD5 than the given one, is an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, path.open("wb") as file:
        shutil.copyfileobj(answer, file)
        announced = answer.headers.get("Content-Length")
    if announced is not None and path.stat().st_size != int(announced):
        raise OSError(f"{url} broke off after {path.stat().st_size:,} of {int(announced):,} bytes")
    if md5 is not None and hashlib.md5(path.read_bytes()).hexdigest() != md5:
        raise OSError(f"{url} is not the file that was expected, whose MD5 is {md5}")


def unpack(archive: Path, folder: Path) -> None:
    """Puts the files of a zip archive that lie in one common folder under another."""
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            parts = Path(member.filename).parts[1:]
            if member.is_dir() or not parts or ".." in parts:
                continue
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with content.open(member) as source, path.open("wb") as file:
                shutil.copyfileobj(source, file)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file as it lies there."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_raw(path: Path, known: str | None = None) -> bytes:
    """Reads a raw file, unpacked if it is a ``.gz``, and makes sure that it is whole.

    Args:
        path: The file.
        known: Its name in the tables of :mod:`gump.datasets.checksums`. A file that is in none is not compared with anything.
    """
    content = path.read_bytes()
    if known in MD5:
        _compare(path, "MD5", MD5[known], hashlib.md5(content).hexdigest())
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is damaged ({error}); fetch it again") from error
    if known in SHA256:
        _compare(path, "SHA-256", SHA256[known], hashlib.sha256(content).hexdigest())
    return content


def _compare(path: Path, kind: str, expected: str, found: str) -> None:
    if found != expected:
        raise ValueError(
            f"{path} must be the published file, with {kind} {expected[:12]}… (got {found[:12]}…): it was truncated or altered; fetch it again"
        )


def parse_table(path: Path, text: bytes, kind: type[int] | type[float] = int, num_columns: int | None = None) -> np.ndarray:
    """The numbers of a text file: a line for each row, commas between the columns, nothing left out.

    Args:
        path: Where the text comes from, to be named if it is not a table.
        text: The text, which may begin with a byte-order mark.
        kind: Whether the numbers are whole; they are finite in any case.
        num_columns: How many there must be in every line; by default as many as in the first.
    """
    lines = [line.decode("ascii", errors="replace") for line in text.removeprefix(codecs.BOM_UTF8).splitlines()]
    table = _rows(lines, kind)
    if table is not None and num_columns in (None, table.shape[1]):
        return table
    width = num_columns or (lines[0].count(",") + 1 if lines else 1)
    what = "whole" if kind is int else "finite"
    each = f"a {what} number" if width == 1 else f"{width} {what} numbers with commas between them"
    got = "an empty file"
    for number, line in enumerate(lines, 1):
        row = _rows([line], kind)
        if row is None or row.shape[1] != width:
            got = f"{repr(short(line)) if line.strip() else 'nothing'} in line {number}"
            break
    raise ValueError(f"{path} must have {each} in every line (got {got})")


def short(line: str) -> str:
    """A line as errors show it."""
    return line if len(line) <= 40 else f"{line[:40]}..."


def _rows(lines: Sequence[str], kind: type[int] | type[float]) -> np.ndarray | None:
    """The numbers of lines, a row for each; ``None`` where a line has something else, or not as many as the others."""
    if not lines or not all(map(str.strip, lines)):  # which NumPy would pass over
        return None
    try:
        rows = np.loadtxt(lines, dtype=np.int64 if kind is int else np.float64, delimiter=",", ndmin=2, comments=None)
    except ValueError:
        return None
    return rows if np.isfinite(rows).all() else None
