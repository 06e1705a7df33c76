from pathlib import Path

import numpy as np
import pytest

from gump.datasets.table import Table


@pytest.mark.parametrize(
    ("columns", "name", "found"),
    [
        (["id", "SMILES"], "smiles", "SMILES"),
        (["id", "smiles"], "Smiles", "smiles"),
        (["SMILES", "smiles"], "smiles", "smiles"),
        (["SMILES", "smiles"], "Smiles", None),
        (["SMILES", "Smiles"], "smiles", None),
        (["my smiles"], "smiles", None),
    ],
)
def test_a_column_is_found_by_its_name_or_by_one_that_differs_in_capitals_only(
    columns: list[str], name: str, found: str | None
) -> None:
    assert Table(Path("a.csv"), {column: ["C"] for column in columns}, np.array([2])).find(name) == found
