"""Checks of the arguments that models share."""

from collections.abc import Collection


def check_name(argument: str, name: str | None, known: Collection[str], optional: bool = False) -> None:
    """Refuses a name that is not known, and none unless it is optional."""
    if name not in known and not (optional and name is None):
        names = [f"'{k}'" for k in known] + (["None"] if optional else [])
        raise ValueError(f"'{argument}' must be one of {', '.join(names)} (got {name!r})")
