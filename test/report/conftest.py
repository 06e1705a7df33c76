from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gump.record import Record

Runs = Callable[..., list[Record]]


@pytest.fixture
def runs() -> Runs:
    """Makes the runs of one configuration by hand: a value of the measure for each, all else as it may be in a record."""

    def make(
        values: Sequence[float | None], name: str = "tu/mutag_gin_gump", dataset: Any = "MUTAG", **fields: Any
    ) -> list[Record]:
        dataset = dataset if isinstance(dataset, dict) else {"kind": "tu", "name": dataset}
        fields = {"metric": "accuracy", "settings": {}, "cost": {"time_s": 10.0}, **fields}
        settings = {"dataset": dataset, "protocol": {"kind": "fresh", "train": 0.8, "val": 0.1}, **fields.pop("settings")}
        return [
            Record(
                name=name,
                index=i,
                settings=settings,
                results={} if value is None else {rule: {"epoch": 10 * (i + 1), "test": value} for rule in ("loss", "metric")},
                **{"test_index": [2 * i, 2 * i + 1], **fields},
            )
            for i, value in enumerate(values)
        ]

    return make
