from pathlib import Path

import numpy as np
import pytest

from gump.datasets.table import Table, read_table


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


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('smiles;"logS, exp"\nCCO;-0,77\n', {"smiles": ["CCO"], "logS, exp": ["-0,77"]}),
        ("smiles;logS, exp\nCCO;-0,77\nC;1\n", {"smiles": ["CCO", "C"], "logS, exp": ["-0,77", "1"]}),
        ("smiles;logS, exp\nCCO;-0,77\nC;1,5\n", {"smiles": ["CCO", "C"], "logS, exp": ["-0,77", "1,5"]}),
        ('"logS, exp";"smiles, ""a"", b"\n1.5;C\n', {"logS, exp": ["1.5"], 'smiles, "a", b': ["C"]}),
        ('smiles;"logS,\nexp"\nC;1\n', {"smiles": ["C"], "logS,\nexp": ["1"]}),
        ('smiles;size in 1";y, z\nC;1;2\n', {"smiles": ["C"], 'size in 1"': ["1"], "y, z": ["2"]}),
        ('smiles,"a; b"\nC,"1; 2"\nN,"3; 4"\n', {"smiles": ["C", "N"], "a; b": ["1; 2", "3; 4"]}),
        ("smiles,a; b\nC,1\nN,2\n", {"smiles": ["C", "N"], "a; b": ["1", "2"]}),
        ("smiles,a; b,y\nC,1; 2,3\n", {"smiles": ["C"], "a; b": ["1; 2"], "y": ["3"]}),
        ("smiles,y\nC,1;5\n", {"smiles": ["C"], "y": ["1;5"]}),
    ],
)
def test_semicolons_or_commas_are_told_by_what_divides_the_lines_evenly(
    tmp_path: Path, text: str, columns: dict[str, list[str]]
) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert read_table(tmp_path / "a.csv").columns == columns


def test_a_line_of_another_length_does_not_make_another_separator(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles;logS, exp\nC;1,5\nN;2\nO\n")
    with pytest.raises(ValueError, match=r"must have 2 values in every line, .* \(got 1 in line 4\)"):
        read_table(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text('smiles;logS, exp\nC;1,5\nN;"2\n')
    with pytest.raises(ValueError, match="must be a table with quotes that are closed"):
        read_table(tmp_path / "b.csv")


@pytest.mark.parametrize(
    ("first", "between", "ending"),
    [("sep=;", ";", ".csv"), ('"sep=;"', ";", ".tsv"), ("SEP=\t", "\t", ".csv"), ("sep=,", ",", ".tsv"), ("sep=|", "|", ".csv")],
)
def test_a_first_line_may_name_the_separator(tmp_path: Path, first: str, between: str, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    rows = [["smiles", "y"], ["C", "1.5"], ["N", "2"]]
    path.write_bytes("\r\n".join(["\ufeff" + first, *map(between.join, rows)]).encode())
    table = read_table(path)
    assert table.columns == {"smiles": ["C", "N"], "y": ["1.5", "2"]}
    assert (table.lines.tolist(), table.decimal_comma) == ([3, 4], between == ";")


def test_a_column_may_be_called_like_a_separator(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sep=a,smiles\n1,C\n")
    assert list(read_table(tmp_path / "a.csv").columns) == ["sep=a", "smiles"]
