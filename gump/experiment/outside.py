"""Models and transforms that are not the library's: a configuration names them as ``module:Class``."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

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


_DIGESTS: MutableMapping[type, str] = WeakKeyDictionary()
"""Of classes from outside, taken when they are first asked about, right after they were imported: what is written to a file later does not run."""


def outside_code(classes: Iterable[type]) -> str:
    """Tells versions of classes apart that are not the library's; empty if all are ours.

    What counts are the files of the modules that define them and what they inherit, and of all that was imported from the same package or folder.
    """
    bases = dict.fromkeys(base for each in classes for base in each.__mro__)
    outside = [base for base in bases if base.__module__.partition(".")[0] not in OURS]
    for base in outside:
        if base not in _DIGESTS:
            _DIGESTS[base] = _digest(base.__module__)
    digests = sorted({_DIGESTS[base] for base in outside})
    return hashlib.sha256(repr(digests).encode()).hexdigest()[:16] if outside else ""


def _digest(name: str) -> str:
    """Of the files of a module and of its neighbors, as far as they are imported: those of its package or, of a single file, of its folder."""
    digest = hashlib.sha256()
    try:
        own = Path(inspect.getfile(sys.modules[name])).resolve()
        digest.update(own.read_bytes())
    except (KeyError, TypeError, OSError):
        return os.urandom(16).hex()  # nobody can tell: it is never the same
    package = name.partition(".")[0]
    for other, module in sorted(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "").resolve()
        beside = "." not in name and file.is_relative_to(own.parent) and not {"site-packages", "dist-packages"} & set(file.parts)
        if (other.startswith(f"{package}.") or beside) and file != own and file.suffix == ".py" and file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _imported(name: str, base: type[T]) -> type[T]:
    """The class that ``module:Class`` names, of an installed module or of one in the present folder."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except (ImportError, ValueError, TypeError) as error:  # what else goes wrong in the module is its author's to see
        raise ValueError(
            f"'{name}' cannot be imported ({error}); it must name a class as 'module:Class', of a module that is installed or in the present folder"
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        got = "nothing of that name" if found is None else repr(found)
        raise ValueError(f"'{name}' must be a class that inherits from {base.__module__}.{base.__qualname__} (got {got})")
    outside_code([found])  # while its file is what was imported
    return found
