"""The time of a hundred epochs, as ``benchmarks/epochs.py`` prints it, beside the published one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from gump.report.layout import NONE, markdown

HEADING = "Time of a hundred epochs"
REMARK = (
    "Seconds for the training steps of a hundred epochs, from ten steps that were timed three times (*Literal*: one batch, five times); evaluation "
    "is not counted. GCN and Kiani et al. have the depth, width and batch of GCN-GUMP; GCN has neither its base GNN nor its norms. *Step by "
    "step* launches every operation by itself, as one writes it; *one program* records a step and repeats it, which is `gump run --replicas 1`, "
    "where GUMP has kernels of its own. *Literal* is Algorithms 2 and 3 of the paper as they read, step by step, with one base layer, no norms, and "
    "no batch to assemble. A matched batch holds as many states as GCN's batch has vertices; the paper's formula counts an edge as two "
    "states, and three of the five batches that it prints fit only if it counts as four, so both are here. The paper's numbers are from another "
    "machine, with an RTX 4090: compare the columns of one machine."
)

PUBLISHED = {
    "MUTAG": (4.39, 7.21, 3, 37.9),
    "PROTEINS": (20.57, 26.19, 8, 203.7),
    "ENZYMES": (11.26, 20.29, 2, 160.2),
    "NCI1": (71.79, 82.02, 7, 187.7),
    "NCI109": (74.56, 93.38, 7, 213.5),
}
"""The paper's table of training times: GCN, GUMP with the same batch, the matched batch, and GUMP with it."""


def times(path: str | os.PathLike[str]) -> Iterator[str]:
    """The part of the summary that has the times.

    Args:
        path: What ``benchmarks/epochs.py`` printed: the versions on the first line, one JSON object on the last.
    """
    lines = Path(path).read_text().splitlines()
    try:
        found: dict[str, dict[str, float]] = json.loads(lines[-1])
        rows = [_row(name, seconds) for name, seconds in found.items()]
    except (IndexError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"'--times' must be what benchmarks/epochs.py printed (got '{path}': {error!r})") from error
    yield f"## {HEADING}"
    yield REMARK
    yield markdown(pd.DataFrame(rows))
    yield f"All rows: {lines[0].split(';')[0]}. To run it again: `python benchmarks/epochs.py --device cuda`."


def _row(name: str, seconds: dict[str, float]) -> dict[str, str]:
    gcn, same, batch, matched = PUBLISHED.get(name, (None,) * 4)
    ours = {
        "step by step": (seconds["GCN"], seconds["GUMP"]),
        "one program": (seconds["GCN, one program"], seconds["GUMP, one program"]),
    }
    return {
        "Dataset": name,
        "Batch": f"{seconds['batch']:.0f}",
        **{f"GCN, {how}": _seconds(one) for how, (one, _) in ours.items()},
        "GCN, published": _seconds(gcn),
        **{f"GUMP, {how}": f"{_seconds(two)} ({two / one:.2f} of GCN)" for how, (one, two) in ours.items()},
        "GUMP, published": f"{_seconds(same)} ({same / gcn:.2f} of GCN)" if same and gcn else NONE,
        "Kiani et al., step by step": _seconds(seconds["Kiani et al."]),
        "Literal": _seconds(seconds["literal"]),
        **{
            f"GUMP, matched{mark}, step by step": f"{_seconds(seconds[f'GUMP, matched batch{key}'])} (batch {seconds[f'matched batch{key}']:.0f})"
            for mark, key in (("", ""), (" as printed", ", as printed"))
        },
        "GUMP, matched, published": f"{_seconds(matched)} (batch {batch})" if matched else NONE,
    }


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
