"""The page about the baselines keeps up with the code."""

import ast
import json
import re
from pathlib import Path

import pytest

from gump import transforms
from gump.nn.models import ENCODERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "baselines.md").read_text()
TESTS = re.findall(r"`(test/[\w/]+\.py)::(\w+)`", PAGE)
RATIOS = json.loads((ROOT / "benchmarks" / "results" / "baselines.txt").read_text().splitlines()[-1])
ROWS = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if row.startswith("| ")}


@pytest.mark.parametrize("name", [*ENCODERS, *transforms.__all__])
def test_every_model_and_every_transform_is_on_the_page(name: str) -> None:
    assert re.search(rf"`{name}\b", PAGE)


@pytest.mark.parametrize(("file", "test"), TESTS, ids=[test for _, test in TESTS])
def test_every_test_that_is_named_exists(file: str, test: str) -> None:
    functions = [node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)]
    assert test in functions


@pytest.mark.parametrize("system", RATIOS)
def test_times_are_those_of_the_benchmark(system: str) -> None:
    assert f"| {RATIOS[system]['NCI1']:.2f} / {RATIOS[system]['PROTEINS']:.2f} |" in ROWS[system]


def test_every_row_has_a_time_and_every_system_a_test() -> None:
    assert set(ROWS) - {"system", "---"} == set(RATIOS)
    shown = set(re.findall(r"^- ([^:]+): `test/", PAGE, re.MULTILINE))
    assert {re.sub(r".*\(\+layer\)$", "+layer", re.sub(r".*GUMP.*", "GUMP", system)) for system in RATIOS} <= shown


def test_notes_are_there_and_pointed_to() -> None:
    notes = re.findall(r"^(\d+)\. ", PAGE.split("## Notes")[1], re.MULTILINE)
    cited = {number for row in ROWS.values() for number in re.findall(r"\((\d+)\) \|", row)}
    assert cited == set(notes)
