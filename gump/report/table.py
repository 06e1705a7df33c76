"""Ours beside the published numbers, one row for each configuration that was run."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from gump.record import Record, parse_indices
from gump.report.labels import Label, command, label, longer_names
from gump.report.statistics import COLUMNS, SELECTED, Summary, without_measure
from gump.report.sweep import find_points


def group_records(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Puts the runs of one configuration together, by name and variant, in the order of their index."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.name, record.variant, record.index)):
        groups.setdefault((record.name, record.variant), []).append(record)
    return groups


def table(records: Sequence[Record]) -> pd.DataFrame:
    """Sets the runs of every configuration beside the published number, one row each.

    Only what has a record is in it. Measures are in the unit in which they are published, so accuracies are in percent; see
    :data:`gump.report.statistics.PERCENT`. The columns:

    - ``table``, ``dataset``, ``method``, ``base``: where the row belongs, see :class:`gump.report.labels.Label`.
    - ``setting``, ``name``, ``variant``: what was set otherwise than in the file, spelled out; the file; and the record's own words.
    - ``metric``, ``higher_is_better``, ``num_runs``, ``num_diverged``, and ``num_planned``, the runs of the protocol.
    - For each selection rule, ``loss_mean``, ``loss_std``, ``loss_interval``, ``loss_corrected``, ``loss_epoch``, ``loss_runs``: see
      :class:`gump.report.statistics.Estimate`; the median epoch; and how many runs left a number. ``select`` is the rule that the configuration
      names, and ``selected_mean`` and so on are what it gives: the headline.
    - ``published``, ``published_interval``, ``source``, and ``others``, a list of more such numbers.
    - ``difference``: ours, the headline, less the published number. ``verdict`` compares ours with the better of all published
      numbers: ``"at or above"``, ``"within"`` if it falls short by no more than our plain interval, or ``"short"``.
    - ``selected_rank``, ``loss_rank`` and so on: the mean over the table's datasets of the method's place among those with the same base GNN,
      as in the paper's table; ties share their places. Only methods as configured, with a number on every dataset of the table, are ranked,
      and only where there are two.
    - ``axis``, ``x``, ``line``: where the row lies on a curve, if it is a point of one; ``chance``: what guessing gives.
    - ``device`` with the code path, ``hardware`` without, ``time_s`` (all runs together), ``epoch_time_s``, ``peak_memory_bytes``,
      ``num_parameters``, ``commit``, ``notes``, ``command``.
    - ``side_by_side``: how many runs were trained as one program, such as ``"100"`` or ``"1 to 100"``; empty where each was by itself. Then
      the times are a run's share of the program's, and the memory is the program's.

    Args:
        records: The runs, in any order.
    """
    if not records:
        raise ValueError("'records' must hold at least one record (got none)")
    groups = list(group_records(records).values())
    labels = labels_of([group[0] for group in groups])
    frame = pd.DataFrame([_row(group, found) for group, found in zip(groups, labels, strict=True)])
    for (name, dataset), rows in frame.groupby(["table", "dataset"]):
        if len(metrics := sorted(set(rows["metric"]))) > 1:
            raise ValueError(
                f"the records of one dataset in one table must have one measure (got {', '.join(map(repr, metrics))} for "
                f"{dataset} in '{name}'); keep configurations with another measure in a folder of their own"
            )
    _mark_curves(frame, labels)
    for rule in COLUMNS:
        frame[f"{rule}_rank"] = _ranks(frame, f"{rule}_mean")
    order = frame.assign(varied=frame["setting"] != "").sort_values(
        ["table", "dataset", "varied", "base", "method", "line", "x", "setting"],
        kind="stable",
        key=lambda column: column.map(natural) if column.name in ("dataset", "method") else column,
    )
    return order.drop(columns="varied").reset_index(drop=True)


def natural(text: str) -> str:
    """A key that sorts numbers within names by their size.

    Example:
        >>> sorted(["GCN, 16 layers", "GCN, 2 layers"], key=natural)
        ['GCN, 2 layers', 'GCN, 16 layers']
    """
    return re.sub(r"\d+", lambda digits: digits[0].zfill(9), text)


def _row(group: list[Record], found: Label) -> dict[str, Any]:
    summary, first = Summary.of(group), group[0]
    row: dict[str, Any] = {
        "table": found.table,
        "dataset": found.dataset,
        "method": found.method,
        "base": found.base,
        "setting": ", ".join(f"{key}={value}" for key, value in found.overrides.items()),
        "name": first.name,
        "variant": first.variant,
        "metric": first.metric,
        "higher_is_better": first.higher_is_better,
        "select": ", ".join(dict.fromkeys(record.select for record in group)),
        "num_runs": summary.num_runs,
        "num_diverged": summary.num_diverged,
        "num_planned": max(r.settings.get("protocol", {}).get("num_runs") or 0 for r in group) or math.nan,
    }
    for rule in COLUMNS:
        estimate = summary.estimates.get(rule)
        row[f"{rule}_mean"] = estimate.mean if estimate else math.nan
        row[f"{rule}_std"] = estimate.std if estimate else math.nan
        row[f"{rule}_interval"] = estimate.interval if estimate else math.nan
        row[f"{rule}_corrected"] = estimate.corrected_interval if estimate else math.nan
        row[f"{rule}_epoch"] = summary.epochs.get(rule, math.nan)
        row[f"{rule}_runs"] = estimate.num_runs if estimate else 0
    row |= _beside(row, first.published)
    classes = first.settings.get("dataset", {}).get("num_classes")
    return row | {
        "chance": 100 / classes if first.metric == "accuracy" and isinstance(classes, int) and classes > 0 else math.nan,
        "device": _all(group, _device),
        "hardware": _all(group, hardware),
        "time_s": summary.time_s,
        "epoch_time_s": _mean(group, "epoch_time_s"),
        "peak_memory_bytes": max((r.cost["peak_memory_bytes"] for r in group if r.cost.get("peak_memory_bytes")), default=math.nan),
        "num_parameters": _mean(group, "num_parameters"),
        "side_by_side": side_by_side(group),
        "commit": _all(group, commit),
        "notes": _notes(group),
        "command": command(group),
    }


def _beside(row: dict[str, Any], published: dict[str, Any]) -> dict[str, Any]:
    """The published numbers, and how ours compares."""
    numbers = [_published_entry(entry, row["name"]) for entry in [published, *(published.get("others") or [])] if entry]
    main, others = (numbers[0], numbers[1:]) if numbers else (_published_entry({}, ""), [])
    sign = 1 if row["higher_is_better"] else -1
    ours = row[f"{SELECTED}_mean"]
    values = [sign * number["published"] for number in numbers if not math.isnan(number["published"])]
    shortfall = max(values) - sign * ours if values else math.nan
    verdict = "at or above" if shortfall <= 0 else "within" if shortfall <= row[f"{SELECTED}_interval"] else "short"
    return {
        **main,
        "others": others,
        "difference": ours - main["published"],
        "verdict": "" if math.isnan(shortfall) else verdict,
    }


def _published_entry(entry: Any, name: str) -> dict[str, Any]:
    if not isinstance(entry, dict) or any(isinstance(entry.get(key), str | bool | list) for key in ("value", "interval")):
        raise ValueError(f"'published' must hold numbers as 'value' and 'interval' (got {entry!r} in {name!r})")
    value, interval = entry.get("value"), entry.get("interval")
    return {
        "published": math.nan if value is None else float(value),
        "published_interval": math.nan if interval is None else float(interval),
        "source": "" if value is None else str(entry.get("source") or ""),
    }


def labels_of(records: Sequence[Record]) -> list[Label]:
    """What the rows are called, given a record of each: methods that would otherwise be one row have the base GNN added, or else the file's name;
    tables of molecules that would be one dataset, though they are several, have folders added."""
    labels = [found._replace(dataset=name) for found, name in zip(map(label, records), longer_names(records), strict=True)]
    bases: dict[tuple[str, str], set[str]] = {}
    for found in labels:
        bases.setdefault((found.table, found.method), set()).add(found.base)
    labels = [
        found._replace(method=f"{found.method} ({found.base.upper()})")
        if found.base and len(bases[found.table, found.method]) > 1
        else found
        for found in labels
    ]
    keys = [(found.table, found.dataset, found.method, tuple(found.overrides.items())) for found in labels]
    counts = Counter(keys)
    return [
        found if counts[key] == 1 else found._replace(method=f"{found.method} ({record.name.rpartition('/')[2]})")
        for found, key, record in zip(labels, keys, records, strict=True)
    ]


def _mark_curves(frame: pd.DataFrame, labels: Sequence[Label]) -> None:
    frame["axis"], frame["x"], frame["line"] = "", math.nan, ""
    for _, rows in frame.groupby(["table", "dataset", "method"]):
        for i, point in zip(rows.index, find_points([labels[i].overrides for i in rows.index]), strict=True):
            if point is not None:
                line = f"{frame.at[i, 'method']}, {point.rest}" if point.rest else frame.at[i, "method"]
                frame.loc[i, ["axis", "x", "line"]] = [point.setting, point.value, line]


def _ranks(frame: pd.DataFrame, column: str) -> pd.Series:
    ranks = pd.Series(math.nan, index=frame.index)
    plain = frame[(frame["setting"] == "") & frame[column].notna()]
    for _, rows in plain.groupby(["table", "base"]):
        datasets = frame.loc[(frame["table"] == rows["table"].iloc[0]) & (frame["setting"] == ""), "dataset"].nunique()
        rows = rows[rows.groupby("method")["dataset"].transform("nunique") == datasets]
        if rows["method"].nunique() > 1:
            goodness = rows[column].where(rows["higher_is_better"], -rows[column])
            places = goodness.groupby(rows["dataset"]).rank(ascending=False)
            ranks.update(places.groupby(rows["method"]).transform("mean"))
    return ranks


def _notes(group: Sequence[Record]) -> list[str]:
    """What has to be said beside a row, with what the records themselves give away."""
    notes = list(dict.fromkeys(r.note.strip() for r in group if r.note.strip() and r.status != "diverged"))
    notes += [f"Run {r.index} diverged{': ' + r.note.strip() if r.note.strip() else ''}." for r in group if r.status == "diverged"]
    if reason := without_measure(group):
        notes.append(f"{reason}.")
    if (published := group[0].published).get("value") is None and published.get("source"):
        notes.append(f"Published: {published['source']}.")
    if other := sorted({key for r in group[1:] for key in differing(group[0].settings, r.settings)} - {"protocol.num_runs"}):
        notes.append(f"The runs were not all made with the same settings: {', '.join(other)} differ.")
    if len({json.dumps(r.published, sort_keys=True) for r in group}) > 1:
        notes.append("The runs do not carry the same published number; that of the first one is shown.")
    if len({r.provenance.get("code", "") for r in group}) > 1:
        notes.append("The runs were not all made with the same code of models and transforms from outside of the library.")
    if any(len({r.provenance[key] for r in group if key in r.provenance}) > 1 for key in ("data", "split")):
        notes.append("The runs were not all made on the same data, or not on the same split of them.")
    if any(r.provenance.get("clean") is False for r in group):
        notes.append("Some runs were made with changes that were not committed.")
    for commits in dict.fromkeys(tuple((r.provenance.get("commits") or {}).items()) for r in group):
        if commits:
            parts = (f"{name[:7] or 'unknown'} from epoch {epoch}" for name, epoch in commits)
            notes.append(f"Some runs were made by more than one commit: {', '.join(parts)}.")
    return notes


def differing(a: Any, b: Any, prefix: str = "") -> list[str]:
    """The settings that differ. One that a table lacks is newer than the record, and had its default: `gump run` takes no others together."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        a, b = dict(enumerate(a)), dict(enumerate(b))
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [key for key in {**a, **b} if not prefix or (key in a and key in b)]
        return [k for key in keys for k in differing(a.get(key), b.get(key), f"{prefix}.{key}" if prefix else str(key))]
    return [] if a == b else [prefix]


def _all(group: Sequence[Record], name: Callable[[Record], str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, map(name, group))))


def _device(record: Record) -> str:
    device, path = record.provenance.get("device"), record.provenance.get("path")
    return f"{device} ({path})" if device and path else str(device or "")


def hardware(record: Record) -> str:
    """The device as a person calls it; a CPU, which has no name there, by its threads."""
    kind, _, name = str(record.provenance.get("device") or "").partition(": ")
    threads, many = record.provenance.get("num_threads"), record.provenance.get("num_devices") or 1
    if kind == "cpu":
        name = "CPU" + (f" with {threads} thread{'' if threads == 1 else 's'}" if threads else "")
    return f"{many} × {name}" if many > 1 else name or kind


def side_by_side(group: Sequence[Record]) -> str:
    """With how many a run was trained, such as ``"1 to 100"``; empty where each was by itself."""
    sizes = [_company(record.provenance) for record in group]
    least, most = min(sizes), max(sizes)
    return "" if most == 1 else f"{most}" if least == most else f"{least} to {most}"


def _company(provenance: Mapping[str, Any]) -> int:
    """With how many a run was trained, itself included: those of its configuration, and those of others, which are given as ``"0-4,7"``."""
    others = (provenance.get("and_with") or {}).values()
    return 1 + len(provenance.get("side_by_side_with") or []) + sum(len(parse_indices(numbers)) for numbers in others)


def commit(record: Record) -> str:
    """The commit that a run was made with, in short."""
    return str(record.provenance.get("commit") or "")[:7]


def _mean(group: Sequence[Record], key: str) -> float:
    values = [value for record in group if (value := record.cost.get(key)) is not None]
    return sum(values) / len(values) if values else math.nan
