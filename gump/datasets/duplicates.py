"""Molecules that stand in several lines of a table, which a random split may put on both sides."""

from __future__ import annotations

import warnings

import numpy as np

from gump.datasets.table import Table, shown_lines

DUPLICATES = ("keep", "first", "refuse")
"""What can be done about them."""


def check_duplicates(duplicates: str) -> None:
    """Refuses what cannot be done."""
    if duplicates not in DUPLICATES:
        raise ValueError(f"'duplicates' must be one of {', '.join(map(repr, DUPLICATES))} (got {duplicates!r})")


def without_duplicates(table: Table, molecules: np.ndarray, y: np.ndarray, duplicates: str) -> tuple[np.ndarray, str]:
    """Which rows to keep, and what has to be said beside numbers that come of them; it is a warning, too.

    Args:
        table: The table.
        molecules: A number for the molecule in every row, equal where it is the same.
        y: The answers of every row.
        duplicates: ``"keep"`` all rows, of each molecule the ``"first"`` with the fewest missing values, or ``"refuse"`` a table with several.
    """
    order = np.isnan(y.reshape(molecules.size, -1).astype(np.float64)).sum(1).argsort(kind="stable")
    first = np.zeros(molecules.size, dtype=bool)
    first[order[np.unique(molecules[order], return_index=True)[1]]] = True
    if first.all():
        return first, ""
    note = f"{(np.bincount(molecules) > 1).sum():,} of {first.sum():,} molecules stand in several lines"
    if num_contradicting := contradicting(molecules, y).sum():
        note += f", {num_contradicting:,} of them with targets that differ"
    lines = f"(again in {shown_lines(table.lines[~first])})"
    if duplicates == "refuse":
        raise ValueError(
            f"{table.path} must have a line for each molecule and no more, since duplicates='refuse' (got one in which {note} {lines}); remove "
            "lines, or pass 'first' to keep one of each"
        )
    if duplicates == "first":
        note += "; of each the first was kept"
        warnings.warn(f"{table.path}: {note} {lines}", stacklevel=3)
        return first, note
    warnings.warn(
        f"{table.path}: {note} {lines}; a random split may learn from a molecule and test on it: pass duplicates='first' (duplicates = \"first\" in "
        "a configuration) to keep one line of each, or split by scaffold",
        stacklevel=3,
    )
    return np.ones_like(first), note


def contradicting(molecules: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which molecules have answers that differ from row to row; one that is missing (NaN) differs from none.

    Example:
        >>> contradicting(np.array([0, 1, 0, 1]), np.array([[1.0], [2.0], [1.5], [np.nan]]))
        array([ True, False])
    """
    rows = y.reshape(molecules.size, -1)
    low = np.full((molecules.max() + 1, rows.shape[1]), np.inf)
    high = -low
    np.fmin.at(low, molecules, rows)
    np.fmax.at(high, molecules, rows)
    return np.any(low < high, axis=1)
