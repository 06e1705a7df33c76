"""What there is no record of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from gump.record import Record
from gump.report.table import labels_of, natural

UNAVAILABLE = {"peptides-structural": "the targets of Peptides-struct, a file of their own, were not available"}
"""Datasets that could not be had, and why, as a sentence goes on."""


def missing(planned: Sequence[Record], records: Iterable[Record]) -> pd.DataFrame:
    """Finds the configurations that have no record: one row each, or for every point that lacks one.

    ``table``, ``dataset`` and ``method`` are as in :func:`gump.report.table.table`; ``variant`` is the point, and empty if the whole
    configuration is missing.

    Args:
        planned: Of every configuration, with every point of its sweep, a record without results.
        records: The runs.
    """
    done = {(record.name, record.variant) for record in records}
    begun = {name for name, _ in done}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for plan, found in zip(planned, labels_of(planned) if planned else [], strict=True):
        if (plan.name, plan.variant) not in done:
            variant = plan.variant if plan.name in begun else ""
            rows[plan.name, variant] = {**found._asdict(), "variant": variant}
    return pd.DataFrame(rows.values(), columns=["table", "dataset", "method", "variant"])


def told(frame: pd.DataFrame) -> list[str]:
    """Says in sentences what is missing, methods together that lack the same datasets.

    Args:
        frame: Rows of :func:`missing`.
    """
    lines = []
    here = frame[~frame["dataset"].isin(UNAVAILABLE)]
    methods: dict[tuple[str, ...], list[str]] = {}
    for method, rows in here[here["variant"] == ""].groupby("method", sort=False):
        methods.setdefault(tuple(sorted(set(rows["dataset"]), key=natural)), []).append(str(method))
    parts = [f"{_names(names)} on {', '.join(datasets)}" for datasets, names in methods.items()]
    for (method, dataset), rows in here[here["variant"] != ""].groupby(["method", "dataset"], sort=False):
        parts.append(f"{_names([method])} on {dataset} at {' and '.join(rows['variant'])}")
    if parts:
        lines.append(f"Not run yet: {'; '.join(parts)}.")
    for dataset, reason in UNAVAILABLE.items():
        if not (rows := frame[frame["dataset"] == dataset]).empty:
            lines.append(f"Not run: {_names(set(rows['method']))} on {dataset}, because {reason}.")
    return lines


def _names(methods: Iterable[str]) -> str:
    """Methods one after the other, marked off since their names may hold commas."""
    return ", ".join(f"*{method}*" for method in sorted(methods, key=natural))
