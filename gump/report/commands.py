"""As few commands as run some rows again."""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

import pandas as pd

from gump.record import Record
from gump.report.labels import config_path

SET = "--set"


def condensed(rows: pd.DataFrame, planned: Sequence[Record] = ()) -> list[str]:
    """Puts commands together that differ only in their configuration, and those of all points of a sweep.

    Files are named by a folder or a pattern where it stands for just these.

    Args:
        rows: Rows of :func:`gump.report.table.table`.
        planned: Of every configuration that there is, with every point of its sweep, a record without results; without them no
            sweep is known to be complete and no pattern to be right.
    """
    sweeps: dict[str, set[str]] = {}
    for plan in planned:
        sweeps.setdefault(plan.name, set()).add(plan.variant)
    files: dict[tuple[str, ...], dict[str, None]] = {}
    for name, group in rows.groupby("name", sort=False):
        lines = {row["variant"]: [shlex.split(line) for line in row["command"].split("\n")] for _, row in group.iterrows()}
        points = sweeps.get(str(name), set()) - {""}
        if points and points <= set(lines):
            whole = [[_without_settings(words) for words in lines[variant]] for variant in lines if variant in points]
            if all(words == whole[0] for words in whole):
                lines = {"": whole[0]} | {variant: words for variant, words in lines.items() if variant not in points}
        for words in (words for found in lines.values() for words in found):
            files.setdefault(tuple(words[3:]), {})[words[2]] = None
    known = sorted({config_path(plan) for plan in planned})
    return [" ".join(["gump run", *_patterns(list(paths), known), shlex.join(options)]) for options, paths in files.items()]


def _without_settings(words: Sequence[str]) -> list[str]:
    return [word for word, before in zip(words, ["", *words], strict=False) if SET not in (word, before)]


def _patterns(paths: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names for files: a folder if they are all that is in it, a pattern for those that end alike, or each one's own."""
    folders = {str(PurePosixPath(path).parent) for path in paths}
    if len(paths) > 1 and len(folders) == 1 and set(paths) == {path for path in known if path.startswith(f"{min(folders)}/")}:
        return [shlex.quote(min(folders))]
    found: dict[str, None] = {}
    for path in paths:
        folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
        pattern = f"{folder}/*_{name.partition('_')[2]}"
        matched = fnmatch.filter(known, pattern)
        is_sound = len(matched) > 1 and set(matched) <= set(paths) and shlex.quote(path) == path
        found[pattern if is_sound else shlex.quote(path)] = None
    return list(found)
