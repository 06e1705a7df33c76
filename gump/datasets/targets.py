"""What a table asks about its rows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from gump.datasets.dataset import TASKS
from gump.datasets.table import MISSING, Table, parse_number, shown_lines

LOST = 1e-3
"""Which share of their spread the steps of single precision may be before numbers are warned of."""

COMPARISON = "<>~=%≤≥≈‰"
SEPARATORS = ",' \N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
"""What may stand with a number in another notation."""

SIGNS = "+-_±.()/*\N{MINUS SIGN}\N{EN DASH}"
"""What may stand in it, or between several."""

EXPONENT = re.compile(r"(?<=\d)[eE](?=[-+]?\d)")


def choose_targets(table: Table, targets: str | Sequence[str] | None, others: Sequence[str | None]) -> list[str]:
    """The columns that are asked for: the given ones, or else those that can be meant.

    Without names it is the only column of numbers, or all of them where they hold nothing but zeros and ones. Of several other ones some may
    be numbers of rows or properties that are known, which nobody but the user can tell.

    Args:
        table: The table.
        targets: Names of columns.
        others: Columns that are something else.
    """
    if targets is None:
        return _only_targets(table, others)
    names = [targets] if isinstance(targets, str) else list(targets) if isinstance(targets, Iterable) else [targets]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"'targets' must be the name of a column or a list of names (got {targets!r}; there are: {table.names(others)})"
        )
    if not names or len(set(names)) < len(names):
        raise ValueError(f"'targets' must name a column at least, and none twice (got {names})")
    for name in names:
        if name not in table.columns or name in others:
            raise ValueError(f"'targets' must be columns of {table.path} (got {name!r}; there are: {table.names(others)})")
        if all(cell.lower() in MISSING for cell in table.columns[name]):
            raise ValueError(f"'targets' must be columns with values (got {name!r}, which is empty in {table.path})")
    return names


def _only_targets(table: Table, others: Sequence[str | None]) -> list[str]:
    found = {name: numbers for name in table.columns if name not in others and (numbers := table.numbers(name)) is not None}
    found = {name: numbers for name, numbers in found.items() if not np.isnan(numbers).all()}
    meant = [
        name for name in table.columns if name not in others and table.numbers(name) is None and _may_mean_numbers(table, name)
    ]
    if found and meant:
        raise ValueError(
            f"'targets' must name the columns that are asked for, since beside numbers ({', '.join(map(repr, found))}) {table.path} has "
            f"what may be such in another notation: {meant[0]!r} has {_first_word(table, meant[0])}"
        )
    if len(found) == 1 or (found and all(_are_labels(numbers).all() for numbers in found.values())):
        return list(found)
    several = f"{table.path} has several columns of numbers: {', '.join(map(repr, found))}"
    rest = [
        f"{name!r} has {_first_word(table, name)}" for name in table.columns if name not in others and table.numbers(name) is None
    ]
    empty = "the others are empty" if table.names(others) else "it has no other column at all"
    none = f"{table.path} has no other column of numbers: {', '.join(rest) or empty}"
    raise ValueError(f"'targets' must name the columns that are asked for, since {several if found else none}")


def choose_task(table: Table, targets: Sequence[str], task: str | None) -> str:
    """The given task, or else the one that the values of the targets show.

    Zeros and ones are labels (``"binary"``, or ``"multilabel"`` of several columns); fractions, or several columns of other numbers,
    ``"regression"``; words ``"multiclass"``. Whole numbers in a single column can be classes or counts: that is for the user to say. So can what
    looks like numbers and cannot be read as such: ``1,200``, ``<5`` or ``5%``.
    """
    if task is not None:
        if task not in TASKS:
            raise ValueError(f"'task' must be one of {', '.join(map(repr, TASKS))} (got {task!r})")
        if task in ("binary", "multiclass") and len(targets) > 1:
            raise ValueError(f"'task' must be 'multilabel' or 'regression' for several targets (got {task!r} for {len(targets)})")
        return task
    columns = [table.numbers(name) for name in targets]
    numbers = [column for column in columns if column is not None]
    if len(numbers) < len(columns):
        if len(targets) > 1:
            return "regression"  # which refuses words by their line
        if any(table.number(cell) is not None for cell in table.columns[targets[0]] if cell.lower() not in MISSING):
            raise ValueError(
                f"'task' must be given for {targets[0]!r}, of whose values some are numbers and some are not (got {_first_word(table, targets[0])}): "
                "'multiclass' if these are classes, 'regression' after they are corrected"
            )
        if alike := [row for row, cell in enumerate(table.columns[targets[0]]) if _looks_like_numbers(cell)]:
            raise ValueError(
                f"'task' must be given for {targets[0]!r}, of whose values some look like numbers in another notation (got "
                f"{_cell(table, targets[0], alike[0])}): write numbers with a decimal point and nothing else, as 1200 or 0.5, or pass "
                "task='multiclass' (task = \"multiclass\" in a configuration) if these are names of classes"
            )
        return "multiclass"
    if all(_are_labels(column).all() for column in numbers):
        return "binary" if len(targets) == 1 else "multilabel"
    known = numbers[0][~np.isnan(numbers[0])]
    if len(targets) > 1 or (known != np.floor(known)).any():
        return "regression"
    raise ValueError(
        f"'task' must be given for {targets[0]!r}, whose whole numbers may be classes or amounts: 'multiclass' or 'regression' (got none)"
    )


def answers(table: Table, targets: Sequence[str], task: str) -> np.ndarray:
    """The targets as a :class:`~gump.datasets.dataset.Dataset` has them; refuses values that the task does not have.

    Args:
        table: The table.
        targets: Names of columns.
        task: What they are.
    """
    lines = table.lines
    if task == "multiclass":
        return _classes(table, targets[0])
    columns = []
    for name in targets:
        column = table.numbers(name)
        if column is None:
            raise ValueError(
                f"{name!r} must hold numbers for task {task!r} (got {_first_word(table, name)} of {table.path}); write them as 1200 or 0.5, "
                "and leave cells empty that have none"
            )
        columns.append(column)
    y = np.stack(columns, axis=1)
    missing = np.isnan(y)
    if task == "regression":
        with np.errstate(over="ignore"):
            infinite = ~missing & ~np.isfinite(y.astype(np.float32))
        _refuse(infinite, lines, targets, f"must be finite in single precision in every line of {table.path} (not so in {{}})")
    else:
        wrong = ~_are_labels(y)
        _refuse(wrong, lines, targets, f"must be 0, 1 or empty in every line of {table.path} for task {task!r} (not so in {{}})")
    if task == "binary" and np.unique(y[~missing]).size < 2:
        raise ValueError(f"{targets[0]!r} must have both zeros and ones for task 'binary' (got one of them in all of {table.path})")
    return y.astype(np.float32)


def warn_of_lost_digits(table: Table, targets: Sequence[str]) -> None:
    """Warns of numbers whose differences single precision hardly tells, such as total energies.

    Args:
        table: The table.
        targets: Names of columns of numbers.
    """
    for name in targets:
        column = table.numbers(name)
        numbers = np.empty(0) if column is None else column[~np.isnan(column)]
        step, spread = np.spacing(np.float32(np.abs(numbers).max(initial=0))), numbers.std() if numbers.size else 0.0
        if step > LOST * spread > 0:
            warnings.warn(
                f"{name!r} of {table.path} has a spread of {spread:.3g} around {numbers.mean():.6g}, where single precision goes by steps of "
                f"{step:.2g}; subtract a constant from it",
                stacklevel=3,
            )


def _classes(table: Table, name: str) -> np.ndarray:
    """The classes of a column in the order of their numbers or, if they are words, of the alphabet."""
    column, cells = table.numbers(name), np.array(table.columns[name])
    values, lines = cells if column is None else column, table.lines
    missing = np.isin(np.char.lower(cells), list(MISSING))
    words = ", ".join(f"'{word}'" for word in sorted(MISSING) if word)
    message = f"must have a class in every line of {table.path} for task 'multiclass' (got none in {{}})"
    _refuse(missing, lines, [name], f"{message}; {words} and empty cells are none, so a class of such a name must have another")
    if column is not None:
        fractions = ~np.isfinite(values) | (values != np.floor(values))
        _refuse(fractions, lines, [name], f"must be whole numbers or words in {table.path} for task 'multiclass' (not so in {{}})")
    classes, y = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"{name!r} must have two classes at least for task 'multiclass' (got {len(classes)} in {table.path})")
    return y.astype(np.int64)


def class_names(table: Table, name: str) -> list[str]:
    """The classes of a column, in the order in which they are numbered."""
    first = np.unique(_classes(table, name), return_index=True)[1]
    return [table.columns[name][row] for row in first.tolist()]


def _are_labels(numbers: np.ndarray) -> np.ndarray:
    return np.isnan(numbers) | (numbers == 0) | (numbers == 1)


def _first_word(table: Table, name: str) -> str:
    """The first cell of a column that is no number, and its line."""
    return _cell(table, name, next(row for row, cell in enumerate(table.columns[name]) if table.number(cell) is None))


def _cell(table: Table, name: str, row: int) -> str:
    return f"{table.columns[name][row]!r} in line {table.lines[row]}"


def _looks_like_numbers(cell: str) -> bool:
    """Whether a cell has digits and nothing else than what stands with them: one number, or several, in whatever notation.

    Example:
        >>> [_looks_like_numbers(cell) for cell in ("1,200", "<5", "5 %", "1,5e-3", "1-2", "A1", "3-methyl", "-")]
        [True, True, True, True, True, False, False, False]
    """
    rest = set(EXPONENT.sub("", cell)) - set(COMPARISON + SEPARATORS + SIGNS)
    return bool(rest) and all(letter.isdigit() for letter in rest)


def _may_mean_numbers(table: Table, name: str) -> bool:
    """Whether every cell of a column is empty, a number, or one that is compared or has separators; no dates, and no numbers of registries."""
    marks = str.maketrans("", "", COMPARISON + SEPARATORS)
    return all(table.number(cell) is not None or parse_number(cell.translate(marks)) is not None for cell in table.columns[name])


def _refuse(wrong: np.ndarray, lines: np.ndarray, targets: Sequence[str], message: str) -> None:
    """Refuses a table by the first target that has something wrong."""
    for name, column in zip(targets, wrong.reshape(len(lines), -1).T, strict=True):
        if column.any():
            raise ValueError(f"{name!r} {message.format(shown_lines(lines[column]))}")
