"""Record: one run, its settings and what came of it."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from gump.files import write_atomically

FORMAT = 1
"""The version of the layout of a record."""

RULES = ("loss", "metric", "last")
"""How the epoch that counts is chosen: by the best validation loss, by the best validation measure, or as the last one."""


@dataclass
class Record:
    """One trained model: every setting in force, where it ran, and what it reached.

    Args:
        name: The configuration, as its path without ending: ``"tu/mutag_gin_gump"``.
        variant: What was set otherwise than in the file, such as ``"train.epochs=2"``; empty if nothing.
        index: The split or seed.
        settings: The tables of the configuration with every default filled in.
        published: The number to compare with: ``value``, ``interval`` (half its width, as printed), ``source``, and ``others``.
        metric: The name of the measure, such as ``"accuracy"``.
        higher_is_better: Whether more of it is better.
        results: By selection rule (``"loss"``, ``"metric"``: the epoch with the best validation loss or measure; ``"last"``): ``epoch``, and
            ``train_loss``, ``val_loss``, ``test_loss``, ``val`` and ``test`` (the measure) there.
        history: One list per series, an entry per epoch.
        predictions: By selection rule, what was predicted for each answer of the test set, in the order of ``test_index``; as ``"target"`` what
            was right.
        test_index: The numbers of the test set's graphs or vertices; of a pair of vertices u < v that may be linked, u times the number of
            vertices plus v.
        provenance: ``config`` (its file), the starts of checksums of ``data`` and of the ``split`` that may come with them, ``commit``, ``clean``,
            ``versions``, ``device``, ``num_devices``, ``num_threads``, ``path`` (kernel or plain), ``precision``, ``host``, the ``program`` (replicas
            or plain), the runs it was trained ``side_by_side_with`` and, of other configurations, ``and_with``; of a run that several commits
            have made, the first epoch of each (``commits``); of a point of a grid that this is a ``search``; a checksum of the ``code`` of models
            and transforms that are not the library's.
        cost: ``time_s``, ``epoch_time_s``, ``peak_memory_bytes``, ``num_parameters``.
        note: What has to be said beside the number.
        status: ``"finished"``, or ``"diverged"`` with the reason in ``note``.
    """

    name: str
    index: int
    settings: dict[str, Any]
    metric: str
    variant: str = ""
    higher_is_better: bool = True
    published: dict[str, Any] = field(default_factory=dict)
    results: dict[str, dict[str, float]] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    predictions: dict[str, list[Any]] = field(default_factory=dict)
    test_index: list[int] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    note: str = ""
    status: str = "finished"
    format: int = FORMAT

    @property
    def select(self) -> str:
        """The rule by which the number counts, the setting ``train.select``; by loss in records that are older than it."""
        return str(self.settings.get("train", {}).get("select", RULES[0]))

    @property
    def title(self) -> str:
        """The name of the configuration with what was set otherwise."""
        return title_of(self.name, self.variant)

    def path(self, root: str | os.PathLike[str]) -> Path:
        """Where the record lies under a folder of records."""
        return record_path(root, self.name, self.variant, self.index)

    def save(self, root: str | os.PathLike[str]) -> Path:
        """Writes the record under a folder of records; a reader sees the old file or the new one, never half of one."""
        path = self.path(root)
        write_atomically(path, _text(plain(asdict(self))).encode())
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a record."""
        try:
            content = json.loads(Path(path).read_text())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a record: {error}; remove it, and gump run makes it again") from error
        known = {f.name for f in fields(cls)}
        if not isinstance(content, dict) or not {"name", "index", "settings", "metric"} <= set(content) <= known:
            raise ValueError(f"{path} is not a record of torch-gump")
        if content.get("format") != FORMAT:
            raise ValueError(f"{path} must have format {FORMAT} (got {content.get('format')})")
        return cls(**content)


def title_of(name: str, variant: str) -> str:
    """The name of a configuration with what was set otherwise."""
    return f"{name} [{variant}]" if variant else name


def record_path(root: str | os.PathLike[str], name: str, variant: str, index: int) -> Path:
    """Where the record of a run lies under a folder of records."""
    return Path(root) / name / variant / f"{index:03d}.json"


def format_indices(indices: Iterable[int]) -> str:
    """Writes numbers of runs as :func:`parse_indices` reads them, in their order.

    Example:
        >>> format_indices([0, 1, 2, 3, 7])
        '0-3,7'
    """
    parts: list[list[int]] = []
    for i in indices:
        if parts and parts[-1][-1] == i - 1:
            parts[-1].append(i)
        else:
            parts.append([i])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def parse_indices(text: str, num_runs: int | None = None) -> list[int]:
    """Reads numbers of runs, of which there may be a number.

    Example:
        >>> parse_indices("0-3,7")
        [0, 1, 2, 3, 7]
    """
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ValueError(f"'--splits' must be numbers and ranges such as 0-9,12 (got '{text}')")
        if num_runs is not None and int(last or first) >= num_runs:
            raise ValueError(f"'--splits' must be below the protocol's number of runs, {num_runs} (got {last or first})")
        indices += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(indices))


def load_records(root: str | os.PathLike[str]) -> list[Record]:
    """Reads every record under a folder, in the order of their paths."""
    return [Record.load(path) for path in sorted(Path(root).rglob("*.json"))]


def _text(content: dict[str, Any]) -> str:
    """JSON with a line for every entry of a table and one for a whole list of numbers or words, which are most of a record."""
    lines = json.dumps(content, indent=1, allow_nan=False) + "\n"
    return re.sub(r"\[\n([^][{}]*)\n *\]", lambda found: "[" + re.sub(r"\n *", "", found[1]).lstrip() + "]", lines)


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers rounded to seven digits, more than float32 has, and null where there is none."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value
