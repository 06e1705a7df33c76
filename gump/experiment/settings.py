"""Settings are arguments: a table of a configuration is checked against the signature of what it is handed to."""

from __future__ import annotations

import difflib
import inspect
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

NONE = "none"
"""How a configuration says that an optional argument is not given, since TOML has no word for it."""


def bind(table: str, settings: Mapping[str, Any], function: Callable[..., Any], given: Collection[str] = ()) -> dict[str, Any]:
    """Checks a table of settings against a function's signature and fills in the defaults.

    Args:
        table: The name of the table, for errors.
        settings: What the user wrote.
        function: A function or class that will take the settings as keyword arguments.
        given: Arguments that the caller supplies, which are no settings.

    Example:
        >>> def train(epochs: int = 100, lr: float = 1e-3): ...
        >>> bind("train", {"epochs": 2}, train)
        {'epochs': 2, 'lr': 0.001}
        >>> bind("train", {"learning_rate": 1}, train)
        Traceback (most recent call last):
        ...
        ValueError: 'train.learning_rate' is not a setting (did you mean 'train.lr'?)
    """
    hints = _hints(getattr(function, "__init__") if isinstance(function, type) else function)  # noqa: B009
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in given and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    bound = {}
    for name, value in settings.items():
        if name not in parameters:
            raise ValueError(f"'{table}.{name}' is not a setting{suggestion(name, parameters, table)}")
        bound[name] = _convert(f"{table}.{name}", value, hints.get(name, Any))
    for name, parameter in parameters.items():
        if name not in bound:
            if parameter.default is parameter.empty:
                raise ValueError(f"'{table}.{name}' is missing: {_name(function)} needs it")
            bound[name] = parameter.default
    return {name: bound[name] for name in parameters}


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's arguments, as far as they can be told."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):  # names that its module imports for type checkers only
        return {}


def suggestion(name: str, known: Collection[str], table: str = "") -> str:
    """The rest of an error about an unknown name: what may have been meant, or what there is."""
    prefix = f"{table}." if table else ""
    known = [other for other in known if other != name]  # which may be a table where a setting was meant
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6) or _abbreviated(name, known)
    if close:
        return f" (did you mean '{prefix}{close[0]}'?)"
    return f" (there are: {', '.join(sorted(known))})"


def _abbreviated(name: str, known: Collection[str]) -> list[str]:
    """Names that are the initials of this one, as ``lr`` is of ``learning_rate``, or the other way round."""

    def initials(words: str) -> str:
        return "".join(word[:1] for word in words.split("_"))

    return [k for k in known if "_" in name and initials(name) == k] or [k for k in known if "_" in k and initials(k) == name]


@contextmanager
def blaming(place: object) -> Iterator[None]:
    """Errors about settings say where these stand."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def parse_assignment(text: str) -> tuple[str, Any]:
    """Reads ``KEY=VALUE`` as TOML would read ``KEY = VALUE``; what is no TOML value is a string.

    Example:
        >>> parse_assignment("train.lr=1e-3"), parse_assignment("model.coin=polar")
        (('train.lr', 0.001), ('model.coin', 'polar'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"'--set' must be KEY=VALUE (got '{text}')")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def differences(old: Any, new: Any, key: str = "") -> list[str]:
    """What differs between two trees of settings."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [d for k in sorted({*old, *new}) for d in differences(old.get(k), new.get(k), f"{key}.{k}" if key else k)]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for i, pair in enumerate(zip(old, new, strict=True)) for d in differences(*pair, f"{key}.{i}" if key else f"{i}")]
    if isinstance(old, float) and isinstance(new, float) and f"{old:.7g}" == f"{new:.7g}":  # what a record keeps of a number
        return []
    return [] if old == new else [f"{key} was {old!r}, is {new!r}"]


def _convert(key: str, value: Any, hint: Any) -> Any:
    """Returns the value if it is of the type, as TOML can say it; a whole number is a number too."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if value is None or (value == NONE and type(None) in options):
        return None
    for option in options:
        if _fits(value, option):
            return float(value) if option is float else tuple(value) if typing.get_origin(option) is tuple else value
    raise ValueError(f"'{key}' must be {' or '.join(map(_type_name, options))} (got {value!r})")


def _fits(value: Any, option: Any) -> bool:
    origin = typing.get_origin(option) or option
    if origin is Any:
        return True
    if origin is Literal:
        return value in typing.get_args(option)
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin in (list, tuple):
        inner = typing.get_args(option)[:1] or (Any,)
        return isinstance(value, list | tuple) and all(_fits(item, inner[0]) for item in value)
    return isinstance(origin, type) and isinstance(value, origin)


def _type_name(option: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false", type(None): f"'{NONE}'"}
    if typing.get_origin(option) is Literal:
        return " or ".join(map(repr, typing.get_args(option)))
    return words.get(option, getattr(option, "__name__", str(option)))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", str(function))
