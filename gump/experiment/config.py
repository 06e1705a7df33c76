"""Configurations: one TOML file per number that is claimed."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gump.experiment.outside import Kinds
from gump.experiment.protocol import PROTOCOLS, SplitRule
from gump.experiment.registry import DATASETS, ENCODINGS, HEADS, MODELS, TRANSFORMS, level_of, needs_out_channels
from gump.experiment.settings import bind, blaming, suggestion
from gump.experiment.training import Training, shared
from gump.record import title_of

LONGEST_NAME = 255
"""The longest name that common file systems give to a folder, in bytes."""

SETTABLE = ("dataset", "protocol", "model", "head", "embedding", "train", "transform")
WHEN = ("once", "batch")
"""When a transform is applied: to all graphs beforehand, which the cache then keeps, or to those of a batch whenever it is made."""

DATA = ("kind", "name", "task", "path", "targets")
"""The settings of a dataset that say which it is; a number that is published for it may hold at every size."""

TABLES = (*SETTABLE, "published", "sweep", "grid", "title")


@dataclass(frozen=True)
class Config:
    """The settings of one number, checked and complete.

    Every table holds arguments: ``dataset`` those of a loader, ``transform`` (a list) of transforms, ``model`` of a model, ``head`` of a
    predictor, ``protocol`` of a protocol, ``train`` of :class:`gump.experiment.training.Training`. Where there is a choice, ``kind`` names it.

    Args:
        name: The file's path below ``configs``, without its ending.
        variant: What was set otherwise than in the file.
        settings: The tables with every default filled in.
        published: The number to compare with.
        path: The file, from the present folder if it is below it; empty if there is none.
        is_search: Whether it is a point of a ``grid``, among which one is to be chosen.
    """

    name: str
    settings: dict[str, Any]
    variant: str = ""
    published: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    is_search: bool = False

    @property
    def title(self) -> str:
        """The name with what was set otherwise."""
        return title_of(self.name, self.variant)

    @property
    def place(self) -> str:
        """Where the settings stand, for errors about them."""
        return self.path or self.title

    @cached_property
    def protocol(self) -> SplitRule:
        """The protocol."""
        return build(self.settings["protocol"], PROTOCOLS)

    @cached_property
    def training(self) -> Training:
        """The settings of the trainer."""
        return Training(**self.settings["train"])


def load_config(path: str | Path, overrides: Mapping[str, Any] | None = None) -> list[Config]:
    """Reads a configuration; a ``sweep`` or a ``grid`` makes several of it.

    Args:
        path: A TOML file.
        overrides: Settings by their dotted names that take precedence, such as ``{"train.epochs": 2}``. They become part of the variant.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; it should be a configuration such as configs/tu/mutag_gin_gump.toml")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error
    with blaming(path):
        return [replace(config, path=_shown(path)) for config in make_configs(_name(path), tables, overrides or {})]


def load_configs(paths: Iterable[Path], overrides: Mapping[str, Any] | None = None) -> list[Config]:
    """Reads configurations, each once.

    Args:
        paths: TOML files, or folders of them.
        overrides: Settings that take precedence in all of them.
    """
    return [config for file in dict.fromkeys(map(Path.resolve, config_files(paths))) for config in load_config(file, overrides)]


def config_files(paths: Iterable[Path]) -> list[Path]:
    """The files among paths, and all TOML files below the folders among them."""
    return [file for path in paths for file in (sorted(path.rglob("*.toml")) if path.is_dir() else [path])]


def make_configs(name: str, tables: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> list[Config]:
    """Checks the tables of a configuration and makes one or, with a ``sweep`` or a ``grid``, several of it."""
    tables, overrides = dict(tables), dict(overrides or {})
    _check_tables(tables)
    sweep, grid = tables.pop("sweep", {}), tables.pop("grid", {})
    if both := sorted(sweep.keys() & grid.keys()):
        raise ValueError(f"'grid' must hold other settings than 'sweep' (got '{both[0]}' in both)")
    points = [point | cell for point in _sweep_points(sweep, overrides) for cell in _grid_points(grid, overrides)]
    rest = {key: overrides[key] for key in sorted(overrides) if key not in sweep and key not in grid}
    if any(key.startswith("dataset.") for key in rest):
        tables.pop("published", None)  # it was published for other data
    return [replace(_make(name, tables, point | rest), is_search=bool(grid)) for point in points]


def _sweep_points(sweep: Mapping[str, Any], overrides: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One point for each position in the lists; overrides pick some, or make a new one of the first."""
    lengths = {len(values) if isinstance(values, list) else -1 for values in sweep.values()}
    if len(lengths) > 1 or lengths & {0, -1}:
        raise ValueError("'sweep' must hold lists of one length, one for every setting that goes along")
    points = [dict(zip(sweep, values, strict=True)) for values in zip(*sweep.values(), strict=True)] or [{}]
    if chosen := {key: value for key, value in overrides.items() if key in sweep}:
        points = [p for p in points if all(p[k] == v for k, v in chosen.items())] or [points[0] | chosen]
    return points


def _grid_points(grid: Mapping[str, Any], overrides: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One point for each combination of values from the lists; an override is the only value of its setting, whether in the list or not."""
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"'grid' must hold lists of values by names such as \"train.lr\", in quotes (got {values!r} for '{key}')"
            )
        if twice := [value for i, value in enumerate(values) if value in values[:i]]:
            raise ValueError(f"'grid' must not name a value twice (got {twice[0]!r} for '{key}')")
    chosen = [
        [value for value in values if value == overrides[key]] or [overrides[key]] if key in overrides else values
        for key, values in grid.items()
    ]
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*chosen)]


def _check_tables(tables: Mapping[str, Any]) -> None:
    kinds: dict[str, tuple[type[Any], str]] = {
        "title": (str, "a string"),
        "transform": (list, "a list of tables, each under [[transform]]"),
    }
    for table, value in tables.items():
        if table not in TABLES:
            raise ValueError(f"'{table}' is not a table of a configuration{suggestion(table, TABLES)}")
        kind, what = kinds.get(table, (dict, "a table"))
        if not isinstance(value, kind) or (kind is list and not all(isinstance(item, dict) for item in value)):
            raise ValueError(f"'{table}' must be {what} (got {value!r})")
    bind("published", tables.get("published", {}), _published)


def _published(
    value: float | None = None, interval: float | None = None, source: str = "", others: list[dict[str, Any]] | None = None
) -> None:
    """The number to compare with, half the width of its interval, where it is from, and other numbers published for the same."""


def _make(name: str, tables: Mapping[str, Any], changes: Mapping[str, Any]) -> Config:
    changed = _changed(tables, changes)
    variant = ",".join(f"{key}={value}" for key, value in changes.items())
    if len(variant.encode()) > LONGEST_NAME:
        raise ValueError(
            f"what is set otherwise than in the file must take at most {LONGEST_NAME} bytes, as it names the folder of the records (got "
            f"{len(variant.encode())}: {variant[:40]}…); write some of it into the configuration"
        )
    before, after = (each.get("dataset", {}) for each in (tables, changed))
    published = tables.get("published", {}) if all(before.get(key) == after.get(key) for key in DATA) else {}
    return Config(name, complete(changed), variant.replace("/", "_"), published)


def complete(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the settings of a configuration, or of a record of it, and fills in the defaults."""
    settings: dict[str, Any] = {"title": tables["title"]} if tables.get("title") else {}
    settings["dataset"] = choose("dataset", tables.get("dataset"), DATASETS, given=("root", "cache", "download", "one_class"))
    settings["transform"] = [_transform(f"transform.{i}", table) for i, table in enumerate(tables.get("transform", []))]
    settings["protocol"] = choose("protocol", tables.get("protocol"), PROTOCOLS)
    settings["model"] = choose("model", tables.get("model"), MODELS, given=("in_channels", "out_channels"), needs="in_channels")
    level = level_of(settings["dataset"])
    if (settings["protocol"]["kind"] == "links") != (level == "link"):
        raise ValueError(
            f"'protocol.kind' must be 'links' for questions about links, and for no others (got {settings['protocol']['kind']!r} for {level}s); "
            "Cora, CiteSeer and PubMed ask about links with level = \"link\" in 'dataset'"
        )
    if settings["model"].get("directed"):
        raise ValueError("'model.directed' must be false in a configuration, whose datasets are undirected (got true)")
    head = HEADS[level]
    settings["head"] = bind("head", tables.get("head", {}), head, given=("encoder", "out_channels"))
    _check_width(settings["model"], answers=settings["head"]["num_layers"] == 0)
    settings["embedding"] = bind("embedding", tables.get("embedding", {}), _embedding)
    _embedding(**settings["embedding"])  # its own check, as the others have theirs
    settings["train"] = bind("train", tables.get("train", {}), Training)
    Training(**settings["train"])  # its own checks
    build(settings["protocol"], PROTOCOLS)
    return settings


def completed(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a record or a checkpoint with the defaults of those that are newer; as they are if some are settings no more."""
    try:
        return json.loads(json.dumps(complete(settings)))
    except ValueError:
        return settings


def _check_width(model: Mapping[str, Any], answers: bool) -> None:
    """A model that answers itself must be told how wide; one that must be told although a head comes after it is as wide as its layers."""
    kind, width = MODELS[model["kind"]], model.get("hidden_channels")
    if isinstance(width, int) and width < 1:
        raise ValueError(f"'model.hidden_channels' must be at least 1 (got {width})")
    if answers and "out_channels" not in inspect.signature(kind).parameters:
        raise ValueError(f"'head.num_layers' must be at least 1: {model['kind']} has no argument 'out_channels' (got 0)")
    if not answers and needs_out_channels(kind) and "hidden_channels" not in model:
        raise ValueError(
            f"'head.num_layers' must be 0 for {model['kind']}, whose 'out_channels' has no default, or else it must have 'hidden_channels'"
        )


def made_by(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a run depends on: all but what it is called, how many there are with it, and which of its epochs counts."""
    train = {key: value for key, value in settings.get("train", {}).items() if key != "select"}
    protocol = {key: value for key, value in settings.get("protocol", {}).items() if key != "num_runs"}
    return {key: value for key, value in settings.items() if key != "title"} | {"train": train, "protocol": protocol}


def side_by_side(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that runs must have in common to be trained side by side: all that they depend on but what each can have for itself."""
    made = made_by(settings)
    return made | {"train": shared(made["train"])}


def _transform(table: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A transform has a setting besides its arguments: ``when`` it is applied. Encodings are appended to ``x``, which is what models read."""
    when = settings.get("when", WHEN[0])
    if when not in WHEN:
        raise ValueError(f"'{table}.when' must be one of {WHEN} (got {when!r})")
    given = {key: value for key, value in settings.items() if key != "when"}
    if settings.get("kind") in ENCODINGS and (name := given.setdefault("attr_name", "none")) not in (None, "none"):
        raise ValueError(f"'{table}.attr_name' must be 'none', which appends to the features that models read (got {name!r})")
    return choose(table, given, TRANSFORMS) | {"when": when}


def _embedding(channels: int | None = None) -> None:
    """The width of the embedding of categories; by default that of the model."""
    if channels is not None and channels < 1:
        raise ValueError(f"'embedding.channels' must be at least 1 (got {channels}); leave it out for the width of the model")


def _changed(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the tables in which settings are replaced, by their dotted names."""
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in tables.items()}
    result["transform"] = [dict(transform) for transform in tables.get("transform", [])]
    for key, value in changes.items():
        table, _, name = key.partition(".")
        if table not in SETTABLE or not name:
            near = "" if table in SETTABLE else suggestion(table, SETTABLE)
            raise ValueError(f"'{key}' is not a setting{near}; settings are called TABLE.NAME, such as train.epochs")
        if table == "transform":
            position, _, name = name.partition(".")
            if not position.isdecimal() or not name:
                raise ValueError(f"'{key}' is not a setting; those of transforms are called transform.0.NAME, transform.1.NAME, …")
            if int(position) >= (count := len(result["transform"])):
                raise ValueError(
                    f"'{key}' must be a setting of a transform that the configuration has, counted from 0 (it has {count})"
                )
            result["transform"][int(position)][name] = value
        else:
            result.setdefault(table, {})[name] = value
    return result


def choose(
    table: str,
    settings: Any,
    kinds: Mapping[str, Callable[..., Any]],
    given: Sequence[str] = (),
    needs: str = "",
) -> dict[str, Any]:
    """Checks a table that names its ``kind`` and fills in the defaults; all kinds may need an argument that is no setting."""
    if not isinstance(settings, dict):
        raise ValueError(f"'{table}' is missing: a configuration needs a table of that name")
    rest = dict(settings)
    kind = rest.pop("kind", None)
    if kind not in kinds:
        what = f"must be one of {', '.join(sorted(kinds))}" if kind is None else f"cannot be {kind!r}{suggestion(str(kind), kinds)}"
        outside = "; a class that is not the library's is called 'module:Class'" if isinstance(kinds, Kinds) else ""
        raise ValueError(f"'{table}.kind' {what}{outside}")
    try:
        chosen = kinds[kind]
    except ValueError as error:
        raise ValueError(f"'{table}.kind' {error}") from error
    if needs and needs not in inspect.signature(chosen).parameters:
        raise ValueError(f"'{table}.kind' must be a class whose arguments have '{needs}' among them (got {kind})")
    bound = bind(table, rest, chosen, given)
    for name, value in bound.items():
        if not _is_plain(value):
            raise ValueError(
                f"'{table}.{name}' must be something that a record can keep (got {value!r}, which {kind} has by default)"
            )
    return {"kind": kind, **bound}


def _is_plain(value: Any) -> bool:
    """Whether a setting is a number, a string, true, false, nothing, or a list or table of such."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def build(settings: Mapping[str, Any], kinds: Mapping[str, Callable[..., Any]], **given: Any) -> Any:
    """Calls what a checked table names with its settings."""
    rest = {key: value for key, value in settings.items() if key not in ("kind", "when")}
    return kinds[settings["kind"]](**given, **rest)


def _shown(path: Path) -> str:
    """The path from the present folder, if it is below it."""
    path = path.resolve()
    return (path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path).as_posix()


def _name(path: Path) -> str:
    """The path below the nearest folder called ``configs``, or else the file's own name, without its ending."""
    parts = path.resolve().with_suffix("").parts
    below = len(parts) - 1 - parts[::-1].index("configs") if "configs" in parts[:-1] else len(parts) - 2
    return "/".join(parts[below + 1 :])
