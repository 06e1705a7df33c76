"""Configurations small enough to train in a test."""

from pathlib import Path
from typing import Any

from gump.experiment.config import Config, make_configs

TINY: dict[str, dict[str, Any]] = {
    "dataset": {"kind": "fake", "num_graphs": 20, "num_nodes": 6},
    "protocol": {"kind": "official", "num_runs": 2},
    "model": {"kind": "GUMP", "hidden_channels": 4, "num_layers": 2},
    "train": {"epochs": 3, "batch_size": 4, "lr": 0.01},
}


def tiny_tables(**changes: dict[str, Any]) -> dict[str, Any]:
    """The tables of a tiny configuration, with other settings in some of them."""
    tables = {table: TINY.get(table, {}) | changes.get(table, {}) for table in {**TINY, **changes}}
    if tables["dataset"].get("level") == "link" and "protocol" not in changes:
        tables["protocol"] |= {"kind": "links"}  # the only one for them
    return tables


def tiny_config(**changes: dict[str, Any]) -> Config:
    return make_configs("test/tiny", tiny_tables(**changes))[0]


def write_toml(path: Path, tables: dict[str, Any]) -> Path:
    """Writes tables of plain values as TOML."""
    lines = []
    for table, settings in tables.items():
        lines += [f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in settings.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
