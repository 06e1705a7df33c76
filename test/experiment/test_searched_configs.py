"""Configurations that take their settings from elsewhere have them as their first lines say."""

import re
from pathlib import Path
from typing import Any

import pytest

from gump.experiment.config import load_config
from gump.report.page import read_records
from gump.report.ranking import rank

ROOT = Path(__file__).parents[2]
PATHS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "configs").rglob("*.toml"))]


def source(path: str, pattern: str) -> str | None:
    """The configuration that the comments at the head name, after some words."""
    comments = " ".join(line.removeprefix("# ") for line in (ROOT / path).read_text().split("title = ")[0].splitlines())
    found = re.search(rf"{pattern} configs/([\w/]+)\.toml", comments)
    return found and found[1]


def settings_of(path: str, variant: str = "", **changes: Any) -> dict[str, Any]:
    """What a configuration sets, or one point of it; its title, how many runs, and their seed are left out."""
    (config,) = [config for config in load_config(ROOT / path) if config.variant == variant]
    settings = {key: dict(table) if isinstance(table, dict) else table for key, table in config.settings.items() if key != "title"}
    settings["protocol"] = {key: value for key, value in settings["protocol"].items() if key not in ("num_runs", "seed")}
    for key, value in changes.items():
        table, name = key.split("__")
        settings[table][name] = value
    return settings


WINNERS = {path: search for path in PATHS if (search := source(path, "best of"))}


def test_there_are_winners() -> None:
    assert {"configs/best/enzymes_gin_gump_long.toml", "configs/planetoid/cora_gump_64.toml"} <= set(WINNERS)


@pytest.mark.parametrize("path", WINNERS)
def test_a_winner_is_the_best_of_its_search_on_validation(path: str) -> None:
    best = rank(read_records(ROOT / "records" / WINNERS[path]))[0]
    own = settings_of(path)
    changes = {"dataset__name": own["dataset"]["name"]} if "nci109" in path else {}  # which takes NCI1's
    changes |= {"model__num_layers": own["model"]["num_layers"]} if "planetoid" in path else {}  # searched at one depth
    changes |= {"train__epochs": own["train"]["epochs"]} if "lrgb" in path else {}  # searched with fewer epochs
    assert settings_of(f"configs/{WINNERS[path]}.toml", best.variant, **changes) == own


FAMILIES = sorted({Path(path).stem.rsplit("_", 1)[0] for path in WINNERS if path.endswith("_long.toml") and "nci109" not in path})


SEARCHED_AGAIN = {
    "mutag_gcn_gump": "small",
    "mutag_gin_gump": "small",
    "proteins_gcn_gump": "log",
    "proteins_gin": "log",
    "proteins_gin_gump": "jk",
}
"""Which of several configurations the tables take for a system's settings from a search, where it is not the first, ``long``."""


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_tables_take_is_of_the_search_that_is_best_on_the_splits_that_all_have(family: str) -> None:
    """Which point of a search is its best, all of its own splits say."""
    points: dict[tuple[str, str], dict[int, float]] = {}
    kinds = ("long", "sum", "five", "dropout", "jk", "base", "log", "log_base", "small")
    for folder in [ROOT / "records" / "search" / f"{family}_{kind}" for kind in kinds]:
        for record in read_records(folder) if folder.is_dir() else []:
            points.setdefault((record.name, record.variant), {})[record.index] = record.results["last"]["val"]
    shared = set.intersection(*map(set, points.values()))
    assert len(shared) >= 5
    best = max(points, key=lambda point: sum(points[point][index] for index in shared))
    assert WINNERS[f"configs/best/{family}_{SEARCHED_AGAIN.get(family, 'long')}.toml"] == best[0]


CONTROLS = {path: other for path in PATHS if (other := source(path, "The same search for a GIN of five layers as"))}


@pytest.mark.parametrize("path", CONTROLS)
def test_the_search_for_a_control_differs_in_the_model_alone(path: str) -> None:
    own, other = load_config(ROOT / path), load_config(ROOT / f"configs/{CONTROLS[path]}.toml")
    assert [config.variant for config in own] == [config.variant for config in other]
    for one, two in zip(own, other, strict=True):
        assert one.settings["model"]["kind"] == "MPNN"
        assert one.settings | {"title": "", "model": None} == two.settings | {"title": "", "model": None}
        shared = ("conv", "hidden_channels", "residual", "dropout")
        assert [one.settings["model"].get(key) for key in shared] == [two.settings["model"].get(key) for key in shared]


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("configs/attributes/")])
def test_node_attributes_are_all_that_differs_from_the_configuration_that_is_named(path: str) -> None:
    other = source(path, "The settings of")
    assert settings_of(f"configs/{other}.toml", dataset__use_node_attr=True) == settings_of(path)


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("configs/encodings/")])
def test_encodings_are_all_that_differs_from_the_configuration_that_is_named(path: str) -> None:
    named, own = settings_of(f"configs/{source(path, 'The settings of')}.toml"), settings_of(path)
    assert own.pop("transform")
    assert not named.pop("transform")
    assert named == own
