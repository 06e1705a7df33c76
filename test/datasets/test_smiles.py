import gzip
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from gump.datasets import load_smiles, read_smiles, smiles
from gump.experiment.task import TASKS

pytest.importorskip("rdkit")

MOLECULES = ["CCO", "c1ccccc1", "[Na+]", "CCN", "CC(=O)[O-].[Na+]"]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def table(path: Path, **columns: list[Any]) -> Path:
    rows = zip(*columns.values(), strict=True)
    return write(path, ",".join(columns), *(",".join(map(str, row)) for row in rows))


def answers(dataset: Any) -> Any:
    return torch.cat([graph.y for graph in dataset]).tolist()


def test_a_regression_on_molecules_among_them_single_atoms_and_salts(tmp_path: Path) -> None:
    path = table(tmp_path / "esol.csv", smiles=MOLECULES, solubility=[1.5, -2, 3, 1.25, 0])
    for _ in range(2):  # from the file, then from the cache
        dataset = load_smiles(path)
        assert repr(dataset) == "Dataset('esol', 5 graphs, regression of graphs, num_targets=1)"
        assert answers(dataset) == [[1.5], [-2], [3], [1.25], [0]]
        assert (dataset.split, dataset.note, dataset.num_features, dataset.num_edge_features) == (None, "", 9, 3)
        for text, graph in zip(MOLECULES, dataset, strict=True):
            alone = read_smiles(text)
            assert all(torch.equal(alone[key], graph[key]) for key in ("x", "edge_index", "edge_attr"))
    assert (dataset[2].num_nodes, dataset[2].num_edges) == (1, 0)


@pytest.mark.parametrize(
    ("cells", "task", "found", "expected"),
    [
        (["0", "1", "", "1", "0"], None, "binary", [[0], [1], [None], [1], [0]]),
        (["False", "true", "False", "True", "TRUE"], None, "binary", [[0], [1], [0], [1], [1]]),
        (["0", "1", "0", "1", "0"], "multilabel", "multilabel", [[0], [1], [0], [1], [0]]),
        (["0", "1", "0", "1", "0"], "multiclass", "multiclass", [0, 1, 0, 1, 0]),
        (["0.5", "1", "2e1", "-1", "0"], None, "regression", [[0.5], [1], [20], [-1], [0]]),
        (["10", "9", "9", "10", "-1"], "multiclass", "multiclass", [2, 1, 1, 2, 0]),
        (["10", "9", "9", "10", "-1"], "regression", "regression", [[10], [9], [9], [10], [-1]]),
        (["toxic", "safe", "safe", "odd", "toxic"], None, "multiclass", [2, 1, 1, 0, 2]),
    ],
)
def test_the_task_is_told_from_the_values_or_given(
    tmp_path: Path, cells: list[str], task: str | None, found: str, expected: list[Any]
) -> None:
    dataset = load_smiles(table(tmp_path / "a.csv", smiles=MOLECULES, y=cells), targets="y", task=task)
    y = [[None if value != value else value for value in row] if isinstance(row, list) else row for row in answers(dataset)]
    assert (dataset.task, y) == (found, expected)
    assert dataset.num_targets == (max(expected) + 1 if found == "multiclass" else 1)


def test_labels_that_are_missing_count_for_nothing(tmp_path: Path) -> None:
    path = table(tmp_path / "tox.csv", id=list("abcde"), a=[0, 1, "", "NaN", 1], smiles=MOLECULES, b=["nan", 1, 0, 1, "NA"])
    dataset = load_smiles(path)
    assert (dataset.task, dataset.num_targets) == ("multilabel", 2)
    y = torch.cat([graph.y for graph in dataset])
    assert y.isnan().sum(dim=0).tolist() == [2, 2]
    out = torch.zeros(5, 2, requires_grad=True)
    loss = TASKS[dataset.task].loss(out, y)
    assert loss.item() == pytest.approx(torch.tensor(2.0).log().item())
    loss.backward()
    assert (out.grad == 0).equal(y.isnan())
    assert TASKS[dataset.task].judge(out, y).isfinite()


def test_numbers_that_are_missing_are_not_known(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=MOLECULES, a=[0.5, "", "NaN", 1, 2], b=["", 3, 4.5, "n/a", "null"])
    dataset = load_smiles(path, targets=["a", "b"])
    assert (dataset.task, dataset.num_targets) == ("regression", 2)
    y = torch.cat([graph.y for graph in dataset])
    assert y.nan_to_num(-9).tolist() == [[0.5, -9], [-9, 3], [-9, 4.5], [1, -9], [2, -9]]
    assert load_smiles(path, targets="b").task == "regression", "told from the numbers that there are"


def test_every_graph_knows_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "smiles,y", "C,0.5", "", "X,1", "N,1.5", ",", "O,2")
    with pytest.warns(UserWarning, match=r"1 of 4 molecules .* \(line 4\)"):
        dataset = load_smiles(path, skip_invalid=True)
    assert dataset.lines.tolist() == [2, 5, 7]
    lines = path.read_text().splitlines()
    assert [lines[line - 1] for line in dataset.lines] == ["C,0.5", "N,1.5", "O,2"]


def test_targets_are_taken_in_the_order_that_they_are_named_in(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", row=range(5), smiles=MOLECULES, a=[1, 2, 3, 4, 5], b=[6, 7, 8, 9, 0])
    dataset = load_smiles(path, targets=["b", "a"])
    assert (dataset.task, answers(dataset)[0]) == ("regression", [6, 1])


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".CSV"])
def test_files_as_they_come(tmp_path: Path, ending: str) -> None:
    between = "\t" if "tsv" in ending else ","
    rows = [["", "SMILES", "y"], ["0", '"CCO"', "1.5"], ["1", "C", "2"], ["", "", ""]]
    text = "\ufeff" + "\r\n".join(between.join(row) for row in rows) + "\r\n\r\n"
    path = tmp_path / f"my.data{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
    dataset = load_smiles(str(path))
    assert (dataset.name, len(dataset), answers(dataset)) == ("my.data", 2, [[1.5], [2]])


def test_the_split_is_read_from_its_column(tmp_path: Path) -> None:
    parts = ["train", "valid", "test", "Train", "val"]
    path = table(tmp_path / "a.csv", smiles=MOLECULES, y=[1.5, 2, 3, 4, 5], split=parts)
    for dataset in (load_smiles(path), load_smiles(path, split="split")):
        assert {part: index.tolist() for part, index in dataset.split.items()} == {"train": [0, 3], "val": [1, 4], "test": [2]}
    assert load_smiles(path, split=None).split is None
    named = table(tmp_path / "b.csv", smiles=MOLECULES, y=[1.5, 2, 3, 4, 5], part=parts)
    assert load_smiles(named).split is None
    assert load_smiles(named, split="part").split["test"].tolist() == [2]


def test_the_column_of_the_split_may_be_written_in_capitals_unless_there_are_two(tmp_path: Path) -> None:
    parts, y = ["train", "val", "test", "train", "val"], [1.5, 2, 3, 4, 5]
    one = table(tmp_path / "a.csv", smiles=MOLECULES, y=y, Split=parts)
    assert load_smiles(one).split["test"].tolist() == [2]
    beside = table(tmp_path / "b.csv", smiles=MOLECULES, y=y, split=parts, SPLIT=list("abcde"))
    assert load_smiles(beside, targets="y").split["test"].tolist() == [2], "the very name comes first"
    two = table(tmp_path / "c.csv", smiles=MOLECULES, y=y, Split=parts, SPLIT=parts)
    assert load_smiles(two, targets="y").split is None
    with pytest.raises(
        ValueError, match=r"'split' must be a column of .*c.csv \(got 'sPlit'; there are: 'smiles', 'y', 'Split', 'SPLIT'\)"
    ):
        load_smiles(two, targets="y", split="sPlit")


TWICE = ["CCO", "c1ccccc1", "OCC", "C1=CC=CC=C1", "N", "C(O)C"]


def test_molecules_in_several_lines_are_told_however_they_are_written(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv", smiles=TWICE, y=[1.5, 2, 1.5, 3, 4, 1.5], split=["train", "train", "val", "val", "test", "test"]
    )
    note = "2 of 3 molecules stand in several lines, 1 of them with targets that differ"
    for _ in range(2):  # from the file, then from the cache
        with pytest.warns(
            UserWarning,
            match=rf"a.csv: {note} \(again in lines 4, 5, 7\); a random split may .* duplicates='first' \(duplicates = \"first\" in a",
        ) as warned:
            dataset = load_smiles(path)
        assert (len(warned), warned[0].filename) == (1, __file__)
        assert (len(dataset), dataset.note) == (6, note)
        with pytest.warns(UserWarning, match=rf"{note}; of each the first was kept \(again in lines 4, 5, 7\)$"):
            dataset = load_smiles(path, duplicates="first")
        assert (answers(dataset), dataset.note) == ([[1.5], [2], [4]], f"{note}; of each the first was kept")
        assert [graph.num_nodes for graph in dataset] == [3, 6, 1]
        assert dataset.lines.tolist() == [2, 3, 6]
        assert [index.tolist() for index in dataset.split.values()] == [[0, 1], [], [2]]
        assert (dataset.scaffolds.tolist()[0] == dataset.scaffolds.tolist()[2], len(dataset.scaffolds)) == (True, 3)
    with pytest.raises(
        ValueError,
        match=rf"a.csv must have a line for each molecule and no more, .*\(got one in which {note} \(again in lines 4, 5, 7\)\); remove",
    ):
        load_smiles(path, duplicates="refuse")


def test_repeats_of_what_is_left_out_do_not_count_and_both_are_noted(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["X", "C", "X", "[CH4]"], y=[0.5] * 4)
    with pytest.warns(UserWarning, match="molecules") as warned:
        dataset = load_smiles(path, skip_invalid=True)
    assert len(warned) == 2
    assert "stand in several lines (again in line 5)" in str(warned[1].message), "and no targets that differ"
    assert dataset.note == "2 of 4 molecules were left out, which RDKit could not read; 1 of 1 molecules stand in several lines"


def test_mirror_images_and_what_has_one_scaffold_are_other_molecules(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="error"):
        path = table(tmp_path / "a.csv", smiles=["C[C@H](N)O", "C[C@@H](N)O", "Cc1ccccc1", "Nc1ccccc1"], y=[0.5] * 4)
        assert len(load_smiles(path, duplicates="refuse")) == 4


def test_what_can_be_done_about_duplicates_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'duplicates' must be one of 'keep', 'first', 'refuse' \(got 'drop'\)"):
        load_smiles(tmp_path / "a.csv", duplicates="drop")


def test_molecules_with_one_scaffold_have_one_number(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["Cc1ccccc1", "CC", "X", "Nc1ccccc1", "[Na+]", "C1CC1"], y=[0.5] * 6)
    with pytest.warns(UserWarning, match="1 of 6"):
        scaffolds = load_smiles(path, skip_invalid=True).scaffolds.tolist()
    assert [scaffolds.index(scaffold) for scaffold in scaffolds] == [0, 1, 0, 1, 4]


def test_what_rdkit_cannot_read_is_named_or_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cells, parts = ["CCO", "C(C", "", "c1cc", "N"], ["train", "train", "val", "val", "test"]
    path = table(tmp_path / "a.csv", smiles=cells, y=[1.5, 2, 3, 4, 5], split=parts)
    for _ in range(2):  # from the file, then from the cache
        with pytest.raises(
            ValueError,
            match=r"in its column 'smiles' \(got 'C\(C' in line 3, '' in line 4, 'c1cc' in line 5, of 5\); correct .*skip_invalid=True",
        ):
            load_smiles(path)
        with pytest.warns(UserWarning, match=r"a.csv: 3 of 5 molecules were left out, .* read \(lines 3, 4, 5\)") as warned:
            dataset = load_smiles(path, skip_invalid=True)
        assert (len(warned), warned[0].filename) == (1, __file__)
        assert (len(dataset), answers(dataset)) == (2, [[1.5], [5]])
        assert [index.tolist() for index in dataset.split.values()] == [[0], [], [1]]
        assert dataset.note == "3 of 5 molecules were left out, which RDKit could not read"
    assert "SMILES" not in capfd.readouterr().err, "RDKit is silent"


def test_many_lines_are_named_by_the_first_and_their_number(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["C", *["X"] * 8], y=[0.5] * 9)
    with pytest.raises(ValueError, match=r"'X' in line 6, 'X' in line 7 and 3 more, of 9\)"):
        load_smiles(path)


@pytest.mark.parametrize("skip_invalid", [False, True])
def test_where_no_molecule_can_be_read_none_is_left_to_skip_to(tmp_path: Path, skip_invalid: bool) -> None:
    with pytest.raises(
        ValueError, match=r"in its column 'smiles' \(got 'X' in line 2, of 1\); correct them, or name another .* 'smiles'$"
    ):
        load_smiles(table(tmp_path / "b.csv", smiles=["X"], y=[0.5]), skip_invalid=skip_invalid)


def test_values_of_molecules_that_are_left_out_do_not_matter(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["C", "N", "X"], y=["b", "c", "a"])
    with pytest.warns(UserWarning, match="1 of 3 molecules"):
        dataset = load_smiles(path, targets="y", skip_invalid=True)
    assert (dataset.num_targets, answers(dataset)) == (2, [0, 1])


def test_numbers_of_molecules_that_are_left_out_do_not_decide_what_is_asked(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["C", "X", "N"], y=[2, "bad", 10])
    with pytest.warns(UserWarning, match="1 of 3 molecules"):
        dataset = load_smiles(path, targets="y", task="multiclass", skip_invalid=True)
    assert (answers(dataset), dataset.target_names) == ([0, 1], ("2", "10"))
    path = table(tmp_path / "b.csv", smiles=["C", "X", "N"], y=[0.5, "bad", 1.5])
    with pytest.warns(UserWarning, match="1 of 3 molecules"):
        assert load_smiles(path, skip_invalid=True).task == "regression"


def test_a_number_that_cannot_be_read_makes_no_classes(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["C", "N", "O"], ic50=[0.5, ">100", 2.5])
    with pytest.raises(ValueError, match=r"'task' must be given for 'ic50', .* \(got '>100' in line 3\)"):
        load_smiles(path, targets="ic50")
    assert load_smiles(path, targets="ic50", task="multiclass").target_names == ("0.5", "2.5", ">100")


@pytest.mark.parametrize(
    ("ending", "cells", "shown"),
    [
        (".tsv", ["1,5", "2,25", "3,5"], "'1,5' in line 2"),
        (".tsv", ["1,200", "12,000", "3,500"], "'1,200' in line 2"),
        (".csv", ['"1,200"', '"2,300"', '"3,400"'], "'1,200' in line 2"),
        (".csv", ["<5", ">10", "n.d."], "'<5' in line 2"),
        (".csv", ["-", "5%", "7 %"], "'5%' in line 3"),
        (".csv", ["", "1.2 ± 0.1", "~3"], "'1.2 ± 0.1' in line 3"),
        (".csv", ["1 200", "1\u202f300", "1'400"], "'1 200' in line 2"),
        (".tsv", ["1,5e-3", "−1,5E+2", "2–3"], "'1,5e-3' in line 2"),
    ],
)
def test_numbers_in_another_notation_are_classes_only_if_the_task_says_so(
    tmp_path: Path, ending: str, cells: list[str], shown: str
) -> None:
    between = "\t" if ending == ".tsv" else ","
    path = write(tmp_path / f"a{ending}", f"smiles{between}y", *map(between.join, zip("CNO", cells, strict=True)))
    with pytest.raises(
        ValueError,
        match=rf"'task' must be given for 'y', .* another notation \(got {re.escape(shown)}\): write .* point .* or pass task='multiclass' \(task",
    ):
        load_smiles(path, targets="y")
    if "" not in cells:
        dataset = load_smiles(path, targets="y", task="multiclass")
        assert sorted(dataset.target_names) == sorted(cell.strip('"') for cell in cells)
    with pytest.raises(ValueError, match=r"'y' must hold numbers for task 'regression' .*; write them as 1200 or 0.5"):
        load_smiles(path, targets="y", task="regression")


@pytest.mark.parametrize("cells", [["A1", "B2", "A1"], ["3-methyl", "2-ethyl", "1e"], ["?", "-", "+"], ["5 mM", "E5", "e"]])
def test_codes_with_digits_and_signs_without_any_are_words(tmp_path: Path, cells: list[str]) -> None:
    dataset = load_smiles(table(tmp_path / "a.csv", smiles=["C", "N", "O"], y=cells), targets="y")
    assert (dataset.task, set(dataset.target_names)) == ("multiclass", set(cells))


@pytest.mark.parametrize("cells", [["<5", "6.5", ""], ["1,5", "2,5", "3,5"], ["5%", "2%", "1%"]])
def test_numbers_beside_those_in_another_notation_are_not_taken_for_the_only_ones(tmp_path: Path, cells: list[str]) -> None:
    path = write(
        tmp_path / "a.tsv",
        "smiles\tmass\ty",
        *(f"{s}\t{i}.5\t{cell}" for i, (s, cell) in enumerate(zip("CNO", cells, strict=True))),
    )
    with pytest.raises(
        ValueError,
        match=rf"'targets' must name .* beside numbers \('mass'\) .*a.tsv has .* notation: 'y' has '{cells[0]}' in line 2",
    ):
        load_smiles(path)
    assert load_smiles(path, targets="mass").task == "regression"


@pytest.mark.parametrize(
    "cells", [["64-17-5", "50-00-0", "67-56-1"], ["2020-01-31", "31.01.2020", ""], ["1.1.1.1", "x", ""], [""] * 3]
)
def test_numbers_of_registries_and_dates_beside_numbers_are_none(tmp_path: Path, cells: list[str]) -> None:
    assert load_smiles(table(tmp_path / "a.csv", smiles=["C", "N", "O"], cas=cells, y=[0.5, 1, 2])).target_names == ("y",)


def test_the_steps_of_single_precision_are_warned_of_once(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["C", "N", "O", "O"], y=[-1000000.5, -1000000.75, -1000000, -1000000])
    for duplicates in ("keep", "first"):
        with pytest.warns(UserWarning, match="single precision") as warned:
            load_smiles(path, duplicates=duplicates)
        assert [(each.filename, "has a spread of" in str(each.message)) for each in warned] == [(__file__, False), (__file__, True)]


def test_targets_are_called_as_in_the_file(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["C", "N", "O"], b=[1, 0, 1], a=[0, 1, 1], size=["small", "large", "small"])
    assert load_smiles(path).target_names == ("b", "a")
    assert load_smiles(path, targets="size").target_names == ("large", "small")


def test_semicolons_and_decimal_commas_of_spreadsheets(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfSMILES;y;Split\r\nC;1,5;train\r\nCN;-2,25;val\r\nCO;3;test\r\n")
    dataset = load_smiles(tmp_path / "a.csv")
    assert answers(dataset) == [[1.5], [-2.25], [3]]
    assert dataset.split is not None
    assert dataset.split["val"].tolist() == [1]


def test_a_column_of_splits_may_be_asked_about_where_it_is_not_in_use(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["C", "N"], split=["train", "test"])
    assert load_smiles(path, targets="split", split=None).target_names == ("test", "train")


def test_molecules_are_read_once_for_each_content_column_and_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = smiles._read
    monkeypatch.setattr(smiles, "_read", lambda t, column: read.append(column) or real(t, column))
    path = table(tmp_path / "a.csv", smiles=MOLECULES, other=MOLECULES, y=[0, 1, 0, 1, 0])
    load_smiles(path)
    load_smiles(path, task="multiclass")
    assert read == ["smiles"]
    load_smiles(path, smiles="other", targets="y")
    assert read == ["smiles", "other"]
    table(path, smiles=MOLECULES[:3], y=[0, 1, 0])
    assert len(load_smiles(path)) == 3
    monkeypatch.setattr(smiles, "rdkit_version", lambda: None)  # not installed
    assert len(load_smiles(path)) == len(read) == 3
    monkeypatch.setattr(smiles, "rdkit_version", lambda: "1999.1")
    load_smiles(path)
    load_smiles(path, cache=False)
    assert len(read) == 5


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        ({"y": [1, 2, 3]}, {}, r"'task' must be given for 'y', whose whole .*: 'multiclass' or 'regression' \(got none\)"),
        ({"y": [0, 1, 0]}, {"task": "labels"}, r"'task' must be one of 'multiclass', .* \(got 'labels'\)"),
        ({"a": [1, 2, 3], "b": [0, 1, 0]}, {}, r"'targets' must name .*, since .*a.csv has several columns of numbers: 'a', 'b'"),
        ({"a": ["x", "y", "z"]}, {}, r"'targets' must name .*, since .*a.csv has no other column of numbers: 'a'"),
        ({}, {}, "it has no other column at all"),
        ({"a": [0, 1, 0]}, {"targets": "b"}, r"'targets' must be columns of .*a.csv \(got 'b'; there are: 'a'\)"),
        ({"a": [0, 1, 0]}, {"targets": "smiles"}, r"\(got 'smiles'; there are: 'a'\)"),
        ({"a": [0, 1, 0]}, {"targets": ["a", "a"]}, r"'targets' must name a column at least, and none twice \(got \['a', 'a'\]\)"),
        ({"a": [0, 1, 0]}, {"targets": []}, "'targets' must name a column at least"),
        ({"a": [0, 1, 0]}, {"targets": 0}, r"'targets' must be the name of a column or a list of names \(got 0; there are: 'a'\)"),
        ({"a": [0, 1, 0]}, {"targets": ["a", 0]}, r"'targets' must be the name of a column or a list of names \(got \['a', 0\]"),
        ({"a": ["", "", "na"]}, {"targets": "a"}, r"'targets' must be columns with values \(got 'a', which is empty in"),
        ({"a": [0.5, 1, "1e60"]}, {}, r"'a' must be finite in single precision in every line of .* \(not so in line 4\)"),
        ({"a": [0.5, "inf", 1]}, {}, r"'a' must be finite in single precision .* \(not so in line 3\)"),
        ({"a": [0.5, 1, "x"]}, {"targets": "a", "task": "regression"}, r"'a' must hold numbers .* \(got 'x' in line 4 of .*a.csv"),
        ({"a": [1, 2, 3], "b": ["x", 1, 2]}, {"targets": ["a", "b"]}, r"'b' must hold numbers .* \(got 'x' in line 2 of"),
        ({"a": [0, 1, 2]}, {"task": "binary"}, r"'a' must be 0, 1 or empty in every line of .* 'binary' \(not so in line 4\)"),
        ({"a": [0, 0, ""]}, {}, "'a' must have both zeros and ones for task 'binary'"),
        (
            {"a": [0, 1, 0], "b": [1, 1, 0]},
            {"task": "binary"},
            r"'task' must be 'multilabel' or 'regression' .* \(got 'binary' for 2\)",
        ),
        ({"a": ["x", "", "y"]}, {"targets": "a"}, r"'a' must have a class in every line of .* \(got none in line 3\)"),
        (
            {"a": ["low", "none", "y"]},
            {"targets": "a"},
            r"got none in line 3\); 'n/a', 'na', 'nan', 'none', 'null' and empty cells are none",
        ),
        ({"a": [0, 1.5, 2]}, {"task": "multiclass"}, r"'a' must be whole numbers or words .* \(not so in line 3\)"),
        ({"a": ["x", "x", "x"]}, {"targets": "a"}, r"'a' must have two classes at least .* \(got 1 in"),
        ({"a": [0, 1, 0]}, {"smiles": "mol"}, r"'smiles' must be a column of .*a.csv \(got 'mol'; there are: 'smiles', 'a'\)"),
        ({"a": [0, 1, 0]}, {"split": "part"}, r"'split' must be a column of .*a.csv \(got 'part'; there are: 'smiles', 'a'\)"),
        (
            {"a": [0, 1, 0], "split": ["train", "2", "test"]},
            {},
            r"'split' must be a column that says 'train', .* \(got '2' in line 3\); pass split=None \(split = \"none\" in a configuration\)",
        ),
    ],
)
def test_tables_that_do_not_say_what_is_asked_are_refused(
    tmp_path: Path, columns: dict[str, list[Any]], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_smiles(table(tmp_path / "a.csv", smiles=["C", "N", "O"], **columns), **arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"smiles,y\nC,1,2\n", r"must have 2 values in every line, as many as the first one names \(got 3 in line 2\)"),
        (b"smiles,y\n\nC,1\nC\n", r"\(got 1 in line 4\)"),
        (b"smiles,y,y\nC,1,2\n", r"must name every column once in its first line \(got 'y' twice\)"),
        (b"smiles,y\n", "must have a first line with names and a line of values at least"),
        (b"", "must have a first line with names and a line of values at least"),
        (b'smiles,y\n"C,1\n', "must be a table with quotes that are closed"),
        (b"\xff\xfe\x00", r"must be text in UTF-8 \(got UTF-16\); save it as UTF-8, which spreadsheets call 'CSV UTF-8'"),
        (
            "smiles,y\nC,1.5\n".encode("utf-16-le"),
            r"must be text in UTF-8 \(got zero bytes, as UTF-16 has them\); save it as UTF-8",
        ),
        ("smiles,y\nC,1.5\nN,ü\n".encode("latin-1"), r"must be text in UTF-8 \(got other bytes in line 3\); save it as UTF-8"),
        ("smiles,y\nC\u2212,1.5\n".encode(), "must have molecules that RDKit understands"),
        (b"smiles,y\nC C(,1.5\n", "must have molecules that RDKit understands"),
        (b"smiles,y\nC,1_0.5\n", r"has no other column of numbers: 'y' has '1_0\.5' in line 2"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_smiles(tmp_path / "a.csv")


def test_files_of_another_kind_and_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'path' must end in .csv, .csv.gz, .tsv or .tsv.gz \(got '.*a.xlsx'\)"):
        load_smiles(tmp_path / "a.xlsx")
    with pytest.raises(
        FileNotFoundError, match=r"'path' must be a table, such as molecules.csv \(got '.*a.csv', which is no file\)"
    ):
        load_smiles(tmp_path / "a.csv")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"smiles,y\nC,0.5\n")[:-9])
    with pytest.raises(ValueError, match="is damaged"):
        load_smiles(tmp_path / "a.csv.gz")


def test_without_rdkit_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ImportError, match=r"pip install 'torch-gump\[mol\]'"):
        load_smiles(table(tmp_path / "a.csv", smiles=["C"], y=[0.5]))


def test_of_lines_that_are_the_same_molecule_one_with_a_value_is_kept(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["CCC", "C(C)C", "CCO", "OCC"], y=["", 2.5, 1.5, 4])
    with pytest.warns(UserWarning, match=r"of each the first was kept \(again in lines 2, 5\)"):
        dataset = load_smiles(path, duplicates="first")
    assert (answers(dataset), dataset.lines.tolist()) == ([[2.5], [1.5]], [3, 4])


@pytest.mark.parametrize(
    ("values", "message"), [((0, 1, 0), "must have both zeros and ones"), (("a", "b", "a"), "two classes at least")]
)
def test_what_is_left_without_duplicates_must_have_two_classes(values: tuple[object, ...], message: str, tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", smiles=["CCO", "OCC", "CCC"], y=list(values))
    with pytest.warns(UserWarning, match="1 of 2 molecules stand in several lines"):
        assert len(load_smiles(path, targets="y")) == 3
    with pytest.warns(UserWarning, match="of each the first was kept"), pytest.raises(ValueError, match=message):
        load_smiles(path, targets="y", duplicates="first")
