"""What a run is called in a table."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gump.record import Record, format_indices

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
    name = _file(data) or data.get("task") or data.get("name") or "-".join(filter(None, [data.get("kind"), data.get("target")]))
    if not name:
        raise ValueError(f"a record must name its dataset in settings['dataset']['name'] (got none in {record.name!r})")
    kind = " (random features)" if data.get("random_features") is True else " (links)" if data.get("level") == "link" else ""
    if targets := data.get("targets"):
        kind = f" ({targets if isinstance(targets, str) else ', '.join(map(str, targets))})"
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


SEARCH = "search"
"""The folder of this project's searches."""


def is_search(record: Record) -> bool:
    """Whether a run is one of a search, whose numbers are no results: it says so, or lies in the folder of searches."""
    return bool(record.provenance.get("search")) or label(record).table == SEARCH


AGAIN = "out/again"
"""The folder for what is run again: where there is a record, nothing is trained."""


def command(records: Sequence[Record]) -> str:
    """The command that runs a row again: a line for runs that were made on one kind of device, with as many side by side.

    Runs of one configuration that were trained side by side are so again, also those of a group whose records are not here.

    Example:
        >>> from gump.record import Record
        >>> command([Record("tu/mutag_gin_gump", i, {}, "accuracy", variant="train.epochs=2") for i in range(5)])
        'gump run configs/tu/mutag_gin_gump.toml --splits 0-4 --set train.epochs=2 --records out/again'
    """
    alike: dict[tuple[str, ...], dict[tuple[int, ...], None]] = {}
    for record in records:
        group = tuple(sorted([record.index, *record.provenance.get("side_by_side_with", [])]))
        alike.setdefault((config_path(record), *_place(record, len(group))), {})[group] = None
    settings = [word for pair in split_variant(records[0].variant).items() for word in ("--set", _assignment(records[0], *pair))]
    lines = [
        shlex.join(["gump", "run", path, "--splits", format_indices(runs), *place, *settings, "--records", AGAIN])
        for (path, *place), groups in alike.items()
        for runs in _as_cut(sorted(groups))
    ]
    return "\n".join(lines)


def _as_cut(groups: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """The runs of groups of one size: all at once if these are the groups into which they are cut in their order, otherwise group by group."""
    flat = [index for group in groups for index in group]
    return [flat] if flat == sorted(flat) else [list(group) for group in groups]


def config_path(record: Record) -> str:
    """The file of a record's configuration; where that of the repository is, in records that do not say."""
    return str(record.provenance.get("config") or f"configs/{record.name}.toml")


def _place(record: Record, num_replicas: int) -> list[str]:
    """The options that say where a run was made, and how many with it."""
    kind, colon, _ = str(record.provenance.get("device") or "").partition(":")
    num_devices = record.provenance.get("num_devices") or 1
    words = ["--device", kind] if colon else []
    words += ["--devices", str(num_devices)] if num_devices > 1 else []
    side_by_side = num_replicas > 1 or record.provenance.get("program") == "replicas"
    return words + (["--replicas", str(num_replicas)] if side_by_side else [])


def _assignment(record: Record, key: str, text: str) -> str:
    """A setting as ``--set`` reads it. Numbers are told by the folder's name, where they have all their digits; it cannot hold every sign."""
    try:
        value = look_up(record.settings, key)
    except KeyError:
        return f"{key}={text}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{key}={text if is_number else _as_toml(value)}"


def look_up(settings: Any, key: str) -> Any:
    """The value of a setting by its dotted name."""
    for part in key.split("."):
        if isinstance(settings, list) and part.isdigit() and int(part) < len(settings):
            settings = settings[int(part)]
        elif isinstance(settings, dict) and part in settings:
            settings = settings[part]
        else:
            raise KeyError(key)
    return settings


def _as_toml(value: Any) -> str:
    """A value as ``--set`` reads it."""
    if value is None:
        return "none"
    if isinstance(value, str) and not _reads_otherwise(value):
        return value
    return json.dumps(value)


def _reads_otherwise(text: str) -> bool:
    """Whether a string would be taken for another value without quotation marks."""
    try:
        return bool(tomllib.loads(f"value = {text}"))
    except tomllib.TOMLDecodeError:
        return text != text.strip()


def _file(data: dict[str, Any]) -> str:
    """What data of the user's own are called: their file, without folder and ending."""
    name = re.split(r"[/\\]", str(data.get("path") or ""))[-1]
    return re.sub(r"\.[a-z]+(\.gz)?$", "", name, flags=re.IGNORECASE)


def longer_names(records: Sequence[Record]) -> list[str]:
    """What the datasets of records are called beside each other: files of one name that hold different data have as many folders before it as tell
    them apart, or else their endings, too.

    Example:
        >>> from gump.record import Record
        >>> made = {"a/new.csv": "11", "b/new.csv": "22", "b/new.tsv": "11"}
        >>> records = [Record("x", 0, {"dataset": {"path": path}}, "mae", provenance={"data": data}) for path, data in made.items()]
        >>> longer_names(records[:2]), longer_names(records[1:]), longer_names(records[::2])
        (['a/new', 'b/new'], ['b/new.csv', 'b/new.tsv'], ['new', 'new'])
    """
    names = [label(record).dataset for record in records]
    data: dict[str, dict[str, set[str]]] = {}
    files = [str((record.settings.get("dataset") or {}).get("path") or "") for record in records]
    for name, file, record in zip(names, files, records, strict=True):
        if file:
            data.setdefault(name, {}).setdefault(file, set()).add(str(record.provenance.get("data") or file))
    longer = {name: _told_apart(name, found) for name, found in data.items()}
    return [longer.get(name, {}).get(file, name) for name, file in zip(names, files, strict=True)]


def _told_apart(name: str, data: Mapping[str, set[str]]) -> dict[str, str]:
    """Names of those files, of several of one name, whose data none of the others has."""
    alone = [file for file in data if not any(data[file] & data[other] for other in data if other != file)]
    folders = {file: re.split(r"[/\\]", file)[:-1] for file in alone}
    if len(data) == 1:
        return {}
    for depth in range(1, max(map(len, folders.values()), default=0) + 1):
        longer = {file: "/".join([*folders[file][-depth:], name]) for file in alone}
        if len(set(longer.values())) == len(longer):
            return longer
    return {file: name.replace(_file({"path": file}), file, 1) for file in alone}


def _without_dataset(stem: str, data: dict[str, Any]) -> str:
    """Cuts the dataset off the front of a file's name, however it is written there."""
    heads, kind = [], data.get("kind")
    names = [name for name in (_file(data), data.get("task"), data.get("name"), kind) if name]
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
