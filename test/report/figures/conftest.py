from typing import Any

import pytest

from gump.record import Record
from gump.report.figures import ablation, depth, transfer


@pytest.fixture
def all_records(runs: Any) -> list[Record]:
    """Runs of every configuration that a figure draws, with numbers that differ from system to system."""
    wanted = [
        *depth.WANTED,
        *(w for task in transfer.TASKS for suffix in transfer.FEATURES for w in transfer._wanted(task, suffix)),
    ]
    records = []
    for i, line in enumerate(wanted):
        for x in line.values:
            variant = ",".join(f"{key}={x}" for key in line.along)
            records += runs([0.5 + 0.01 * i, 0.52 + 0.01 * i - 0.001 * x], line.config, variant=variant)
    for i, config in enumerate(ablation.CONFIGS):
        records += runs([0.7 + 0.01 * i, 0.72], config, published={"value": 75.5} if "full" in config else {})
    return records


@pytest.fixture
def measured() -> dict[str, Any]:
    """Jacobians as they might have been measured."""
    names = ["GUMP", "GUMP (paper)", "GCN", "GIN", "DIGL", "SDRF", "FoSR", "GTR", "DRew", "A-DGN", "UnitaryGCN"]
    panels = [
        {
            "weights": weights,
            "about": {"graph": 0, "source": 0, "target": 4, "distance": 10, "seeds": [0, 1, 2]},
            "lines": [
                {"name": n, "x": [2, 20], "mean": [0.0, 0.4 / (i + 1)], "low": [0.0, 0.01], "high": [0, 1 / (i + 1)]}
                for i, n in enumerate(names)
                if weights == "own" or n not in ("DRew", "A-DGN", "UnitaryGCN")
            ],
        }
        for weights in ("own", "he", "glorot")
    ]
    return {"figure": "jacobian", "rows": [panels]}
