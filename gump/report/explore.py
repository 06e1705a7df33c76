"""One page on one graph, for a person to play with."""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gump.files import write_atomically

TYPES = {"i": "int32", "f": "float64"}


def write_explore(content: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Writes a page on which a signal spreads over a graph: one file that needs no network.

    The same content gives the same bytes.

    Args:
        content: What is shown, as :func:`gump.experiment.explore.exploration` computes it.
        path: Where to write.
    """
    template = files("gump.report").joinpath("explore.html").read_text(encoding="utf-8")
    head, _, tail = template.partition("{{content}}")
    head = head.replace("{{title}}", html.escape(content["title"]))
    packed = json.dumps(content, default=_pack, allow_nan=False).replace("<", "\\u003c")  # or a name could end the script
    write_atomically(Path(path), (head + packed + tail).encode())
    return Path(path)


def _pack(array: np.ndarray) -> dict[str, str]:
    """An array as a browser reads it back without loss."""
    kind = TYPES[array.dtype.kind]
    return {"type": kind, "base64": base64.b64encode(array.astype(f"<{np.dtype(kind).str[1:]}").tobytes()).decode()}
