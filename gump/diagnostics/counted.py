"""How many of something."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Writes a number and what it counts.

    Example:
        >>> counted(1, "vertex"), counted(2000, "vertex"), counted(0, "hub")
        ('1 vertex', '2,000 vertices', '0 hubs')
    """
    plural = {"vertex": "vertices"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"
