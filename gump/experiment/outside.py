"""Models and transforms that are not the library's: a configuration names them as ``module:Class``."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

OURS = ("gump", "torch", "torch_geometric", "abc", "builtins", "typing")
"""Packages whose versions a record tells; their files say nothing more."""


class Kinds(dict[str, type[T]], Generic[T]):
    """Classes by the names that a configuration has for them; ``module:Class`` is a name of any other class of that sort.

    Args:
        base: What all of them are.
        known: The library's, by name.
    """

    def __init__(self, base: type[T], known: Mapping[str, type[T]]) -> None:
        super().__init__(known)
        self.base = base

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and ":" in name)

    def __missing__(self, name: str) -> type[T]:
        if ":" not in name:
            raise KeyError(name)
        return _imported(name, self.base)


def outside_code(classes: Iterable[type]) -> str:
    """Tells versions of classes apart that are not the library's, by the files that define them and what they inherit; empty if all are ours."""
    digest, any_outside = hashlib.sha256(), False
    for kind in dict.fromkeys(base for each in classes for base in each.__mro__):
        if kind.__module__.partition(".")[0] not in OURS:
            any_outside = True
            try:
                digest.update(Path(inspect.getfile(kind)).read_bytes())
            except (TypeError, OSError):
                digest.update(os.urandom(16))  # nobody can tell: it is never the same
    return digest.hexdigest()[:16] if any_outside else ""


def _imported(name: str, base: type[T]) -> type[T]:
    """The class that ``module:Class`` names, of an installed module or of one in the present folder."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except (ImportError, ValueError) as error:  # what else goes wrong in the module is its author's to see
        raise ValueError(
            f"'{name}' must name a class as 'module:Class', of a module that is installed or in the present folder ({error})"
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        got = "nothing of that name" if found is None else repr(found)
        raise ValueError(f"'{name}' must be a class that inherits from {base.__module__}.{base.__qualname__} (got {got})")
    return found
