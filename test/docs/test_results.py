"""RESULTS.md is what the records say."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_summary_was_written_from_the_records_that_are_there() -> None:
    (number,) = re.findall(r"from ([\d,]+) records", (ROOT / "RESULTS.md").read_text())
    assert int(number.replace(",", "")) == len(list((ROOT / "records").rglob("*.json"))), "make results writes it anew"
