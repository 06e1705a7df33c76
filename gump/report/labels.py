"""What a run is called in a table."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gump.record import Record

BASES = ("gcn", "gin")
"""The base GNNs by which the paper's table groups its methods; it ranks a method among those of the same base."""


class Label(NamedTuple):
    """Where the runs of one configuration stand.

    Args:
        table: The folder of the configuration, ``"tu"``: one table of the report.
        dataset: A column of it.
        method: A row of it: the configuration's title or, without one, its file's name less the dataset.
        base: The base GNN, if the file's name tells it; otherwise empty.
        overrides: What was set otherwise than in the file, and the number of vertices if the dataset is made to measure.
    """

    table: str
    dataset: str
    method: str
    base: str
    overrides: dict[str, str]


def label(record: Record) -> Label:
    """Reads from a record how its row is called.

    Example:
        >>> from gump.record import Record
        >>> label(Record("tu/mutag_gin_gump", 0, {"dataset": {"name": "MUTAG"}}, "accuracy"))
        Label(table='tu', dataset='MUTAG', method='gin_gump', base='gin', overrides={})
    """
    folder, _, stem = record.name.rpartition("/")
    data = record.settings.get("dataset")
    data = data if isinstance(data, dict) else {}
    name = data.get("task") or data.get("name") or "-".join(filter(None, [data.get("kind"), data.get("target")]))
    if not name:
        raise ValueError(f"a record must name its dataset in settings['dataset']['name'] (got none in {record.name!r})")
    kind = " (random features)" if data.get("random_features") is True else " (links)" if data.get("level") == "link" else ""
    made = ("task" in data or data.get("kind") == "transfer") and data.get("num_nodes") is not None
    title, rest = record.settings.get("title"), _without_dataset(stem, data)
    words = rest.split("_")
    return Label(
        table=folder or "records",
        dataset=f"{name}{kind}",
        method=title if isinstance(title, str) and title else rest,
        base=words[0] if words[0] in BASES else "",
        overrides=({"dataset.num_nodes": str(data["num_nodes"])} if made else {}) | split_variant(record.variant),
    )


def split_variant(variant: str) -> dict[str, str]:
    """Splits what was set otherwise into settings and values.

    Example:
        >>> split_variant("model.sizes=[8,16],train.lr=0.01")
        {'model.sizes': '[8,16]', 'train.lr': '0.01'}
    """
    pairs = (part.partition("=") for part in re.split(r",(?=[\w.\-]+=)", variant) if part)
    return {key.strip(): value.strip() for key, _, value in pairs}


def command(records: Sequence[Record]) -> str:
    """The command that runs a row again.

    Example:
        >>> from gump.record import Record
        >>> command([Record("tu/mutag_gin_gump", i, {}, "accuracy", variant="train.epochs=2") for i in range(5)])
        'gump run configs/tu/mutag_gin_gump.toml --splits 0-4 --set train.epochs=2'
    """
    first = records[0]
    words = ["gump", "run", f"configs/{first.name}.toml", "--splits", _ranges(record.index for record in records)]
    for key, value in split_variant(first.variant).items():
        words += ["--set", f"{key}={_as_toml(_look_up(first.settings, key, value))}"]
    return shlex.join(words)


def _look_up(settings: Any, key: str, default: Any) -> Any:
    """The value of a setting by its dotted name; the folder's name, which the default comes from, cannot hold every sign."""
    for part in key.split("."):
        if isinstance(settings, list) and part.isdigit() and int(part) < len(settings):
            settings = settings[int(part)]
        elif isinstance(settings, dict) and part in settings:
            settings = settings[part]
        else:
            return default
    return settings


def _as_toml(value: Any) -> str:
    """A value as ``--set`` reads it."""
    if value is None:
        return "none"
    return json.dumps(value) if isinstance(value, bool | list | tuple) else str(value)


def _ranges(indices: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for i in sorted(indices):
        if parts and parts[-1][-1] == i - 1:
            parts[-1].append(i)
        else:
            parts.append([i])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _without_dataset(stem: str, data: dict[str, Any]) -> str:
    """Cuts the dataset off the front of a file's name, however it is written there."""
    heads, kind = [], data.get("kind")
    names = [name for name in (data.get("task"), data.get("name"), kind) if name]
    for name in names + [f"{kind}-{name}" for name in names if kind]:
        parts = [part.lower() for part in re.findall(r"[A-Z]+[a-z0-9]*|[a-z0-9]+", str(name))]
        heads += ["_".join(parts), "".join(parts), parts[-1]] if parts else []
        heads += [re.sub(r"[^a-z0-9]+", "_", str(name).lower())]
    extra = ["random_features", "random"] if data.get("random_features") is True else []
    extra += [str(data["num_nodes"])] if data.get("num_nodes") is not None else []
    for head in sorted(set(heads), key=len, reverse=True):
        if head and stem.startswith(f"{head}_"):
            stem = stem.removeprefix(f"{head}_")
            break
    else:
        return stem
    for _ in range(2):  # in any order, before the method or behind it
        for word in extra:
            stem = stem.removeprefix(f"{word}_").removesuffix(f"_{word}")
    return stem
