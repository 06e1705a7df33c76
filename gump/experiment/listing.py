"""What there is, as tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from gump.datasets import statistics
from gump.datasets.raw import NotHereError
from gump.experiment.config import config_files, load_config
from gump.experiment.find_graphs import BENCHMARKS
from gump.experiment.protocol import PROTOCOLS
from gump.experiment.registry import MODELS, TRANSFORMS

Rows = tuple[list[str], list[list[str]]]
Track = Callable[[Collection[str], str], Iterable[str]]
"""Goes through names, of what the second argument says, and may show how far it is."""

COUNTED = ("type", "num_graphs", "avg_nodes", "avg_edges", "avg_arcs", "max_degree", "num_features", "num_targets")


def _datasets(_: Path, track: Track) -> Rows:
    """The paper's table of statistics, counted in the data that is here; edges are counted once. Nothing is downloaded."""
    rows = []
    for name in track(BENCHMARKS, "datasets"):
        cells, wrong = [""] * len(COUNTED), ["", ""]
        try:
            counted = statistics(BENCHMARKS[name](download=False))
            cells = [_number(counted[column]) for column in COUNTED]
        except NotHereError as error:
            wrong = [str(error), ""]
        except (OSError, ImportError, ValueError) as error:
            wrong = ["", str(error)]
        rows.append([name, *cells, *wrong])
    return ["dataset", *COUNTED, "not here", "what is wrong"], rows


def _described(things: dict[str, Any]) -> Rows:
    rows = []
    for name, thing in sorted(things.items()):
        rows.append([name, plain_words((inspect.getdoc(thing) or "").split("\n\n")[0])])
    return ["name", "what it is"], rows


def plain_words(text: str) -> str:
    """Takes the markup out of a sentence of a docstring: roles, the addresses of links, and quotes of code.

    Example:
        >>> plain_words("Reads a :class:`~torch.Tensor`, as ``a.b`` does (`Ma et al. <https://arxiv.org/abs/2305.17589>`_).")
        'Reads a Tensor, as a.b does (Ma et al.).'
    """
    text = re.sub(r"``(.+?)``", r"\1", " ".join(text.split()))
    text = re.sub(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}", r"\1", re.sub(r":[\w:+-]+:(?=`)", "", text))
    return re.sub(r"`(?:~(?:\w+\.)*)?([^`]+)`_{0,2}", r"\1", text)


def _configs(folder: Path, _: Track) -> Rows:
    rows = []
    for path in config_files([folder]) if folder.is_dir() else []:
        config = load_config(path)[0]
        value, interval = config.published.get("value"), config.published.get("interval")
        rows.append([str(path), "" if value is None else f"{value}" + ("" if interval is None else f" ± {interval}")])
    return ["configuration", "published"], rows


TABLES: dict[str, Callable[[Path, Track], Rows]] = {
    "datasets": _datasets,
    "models": lambda *_: _described(MODELS),
    "transforms": lambda *_: _described(TRANSFORMS),
    "protocols": lambda *_: _described(PROTOCOLS),
    "configs": _configs,
}


def listing(name: str, configs: Path, track: Track = lambda names, _: names) -> Rows:
    """The columns and rows of one table.

    Args:
        name: The table.
        configs: The folder of configurations.
        track: Shows how far the datasets are, which are read for minutes the first time.
    """
    return TABLES[name](configs, track)


def _number(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
