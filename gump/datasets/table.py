"""Tables of the user's own: named columns, as text."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gump.datasets.raw import read_raw

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""By the ending of a file, which may have a ``.gz`` behind it."""

SEMICOLON = ";"
"""Between values where spreadsheets write numbers with a decimal comma."""

SEPARATOR = re.compile(r'^"?sep=([^"\w\r\n])"?[ \t]*(?:[\r\n]|$)', re.IGNORECASE)
"""A first line that names what is between the values, as Excel writes and reads it."""

QUOTED = re.compile(r'(?<![^,;\t"\r\n])"[^"]*"')
"""What is in quotes, which open at the start of a value only; two of them within are one more such pair."""

DECIMAL_COMMA = re.compile(r"^([+-]?\d+),(\d+(?:[eE][+-]?\d+)?)$")

MISSING = frozenset({"", "na", "n/a", "nan", "none", "null"})
"""How a cell says that it has no value, in lower case."""

BOOLEANS = {"false": 0.0, "true": 1.0}
SHOWN = 5
"""How many lines an error names."""


class Table(NamedTuple):
    """A table with a name for every column.

    Args:
        path: The file.
        columns: The cells of each column, without spaces around them.
        lines: The line of every row in the file, counted from one.
        decimal_comma: Whether a comma may stand before the decimals of a number.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: np.ndarray
    decimal_comma: bool = False

    def number(self, cell: str) -> float | None:
        """The number in a cell, NaN if it is empty; ``None`` for what is no number."""
        return parse_number(DECIMAL_COMMA.sub(r"\1.\2", cell) if self.decimal_comma else cell)

    def numbers(self, column: str) -> np.ndarray | None:
        """The numbers of a column, NaN where there is none, and ones and zeros for true and false; ``None`` if something in it is no number."""
        numbers = [self.number(cell) for cell in self.columns[column]]
        return None if None in numbers else np.array(numbers, dtype=np.float64)

    def only(self, rows: np.ndarray) -> Table:
        """The table with those rows that a mask names."""
        kept = np.flatnonzero(rows).tolist()
        columns = {name: [cells[row] for row in kept] for name, cells in self.columns.items()}
        return self._replace(columns=columns, lines=self.lines[rows])

    def find(self, name: str) -> str | None:
        """A column's name as the file has it, where it may be written in capitals; ``None`` if there is none, or several that are not quite it."""
        alike = [own for own in self.columns if own.lower() == name.lower()]
        return name if name in alike else alike[0] if len(alike) == 1 else None

    def names(self, but: Sequence[str | None] = ()) -> str:
        """The columns, or those but some, for errors."""
        return ", ".join(repr(name) for name in self.columns if name not in but)


def read_table(path: Path) -> Table:
    """Reads a file of values with commas (``.csv``) or tabs (``.tsv``) between them, packed (``.gz``) or not, whose first line names the columns.

    Where the first line has semicolons, as spreadsheets write it in many countries, these are between the values, and a comma may stand before the
    decimals. Where it has commas or tabs as well, those separate that divide more lines into as many values as the first, then those that make more
    columns, then semicolons; what is in quotes does not count. A line such as ``sep=;`` before it settles it. Columns without a name, such as the
    row numbers that pandas writes, and rows without a value are left out.

    Args:
        path: The file.
    """
    if not is_table(path):
        raise ValueError(f"'path' must end in .csv, .csv.gz, .tsv or .tsv.gz (got '{path}')")
    if not path.is_file():
        raise FileNotFoundError(f"'path' must be a table, such as molecules.csv (got '{path}', which is no file)")
    text = _decoded(path)
    named = SEPARATOR.match(text)
    delimiter = named[1] if named else _separator(text, DELIMITERS[_ending(path)])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        if named:
            next(reader)
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ValueError(f"{path} must be a table with quotes that are closed ({error} in line {reader.line_num})") from error
    if twice := [name for i, name in enumerate(header) if name and name in header[:i]]:
        raise ValueError(f"{path} must name every column once in its first line (got {twice[0]!r} twice)")
    if wrong := [(line, len(row)) for line, row in rows if len(row) != len(header)]:
        raise ValueError(
            f"{path} must have {len(header)} values in every line, as many as the first one names (got {wrong[0][1]} in line {wrong[0][0]})"
        )
    if not rows:
        raise ValueError(f"{path} must have a first line with names and a line of values at least (got none)")
    cells = zip(*(row for _, row in rows), strict=True)
    columns = {name: [cell.strip() for cell in column] for name, column in zip(header, cells, strict=True) if name}
    return Table(path, columns, np.array([line for line, _ in rows]), decimal_comma=delimiter == SEMICOLON)


def _decoded(path: Path) -> str:
    """The text of a file, which must be UTF-8."""
    content = read_raw(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        line = content.count(b"\n", 0, error.start) + 1
        got = "UTF-16" if is_wide else f"other bytes in line {line}"
    else:
        if "\0" not in text:
            return text
        got = "zero bytes, as UTF-16 has them"
    raise ValueError(f"{path} must be text in UTF-8 (got {got}); save it as UTF-8, which spreadsheets call 'CSV UTF-8'")


def _separator(text: str, usual: str) -> str:
    """What is between the values: semicolons, or what is usual in such files."""
    if SEMICOLON not in (first := re.split(r"[\r\n]", QUOTED.sub("", text), maxsplit=1)[0]):
        return usual
    return max((SEMICOLON, usual), key=lambda each: _fit(text, each)) if usual in first else SEMICOLON  # of equals the first


def _fit(text: str, delimiter: str) -> tuple[int, int]:
    """How many lines have as many values as the first one, and how many these are."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        width = len(next(rows))
        return sum(len(row) == width for row in rows), width
    except csv.Error:  # of which whoever reads the table hears
        return 0, 0


def is_table(path: Path) -> bool:
    """Whether a file is a table by its name, whether it is there or not."""
    return _ending(path) in DELIMITERS


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def shown_lines(lines: np.ndarray) -> str:
    """The first of some lines, for errors.

    Example:
        >>> shown_lines(np.array([3])), shown_lines(np.arange(2, 12))
        ('line 3', 'lines 2, 3, 4, 5, 6 and 5 more')
    """
    first = ", ".join(map(str, lines[:SHOWN].tolist()))
    more = f" and {len(lines) - SHOWN:,} more" if len(lines) > SHOWN else ""
    return f"line{'s' if len(lines) > 1 else ''} {first}{more}"


def parse_number(cell: str) -> float | None:
    """The number in a cell, NaN if it is empty; ``None`` for what is no number."""
    word = cell.lower()
    if word in MISSING:
        return float("nan")
    if "_" in word:  # which Python would pass over
        return None
    try:
        return BOOLEANS[word] if word in BOOLEANS else float(word)
    except ValueError:
        return None
