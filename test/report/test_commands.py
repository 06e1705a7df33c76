import fnmatch
import shlex
from typing import Any

import pytest

from gump.record import Record
from gump.report.commands import condensed
from gump.report.table import table


def plan(name: str, variant: str = "", published: Any = None) -> Record:
    settings = {"dataset": {"kind": "tu", "name": "MUTAG"}}
    return Record(name, 0, settings, "", variant, published=published or {}, provenance={"config": f"configs/{name}.toml"})


def test_files_with_the_same_options_are_one_command(runs: Any) -> None:
    records = runs([0.9, 0.8]) + runs([0.9, 0.8], name="tu/mutag_gin") + runs([0.9], name="tu/mutag_gcn")
    assert condensed(table(records)) == [
        "gump run configs/tu/mutag_gcn.toml --splits 0 --records out/again",
        "gump run configs/tu/mutag_gin.toml configs/tu/mutag_gin_gump.toml --splits 0-1 --records out/again",
    ]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], "configs/tu"),
        (["tu/mutag_gcn"], "configs/tu/*_gin.toml"),
        (["tu/nci1_gin"], "configs/tu/enzymes_gin.toml configs/tu/mutag_gin.toml"),
        (["tu/mutag_plain_gin"], "configs/tu/enzymes_gin.toml configs/tu/mutag_gin.toml"),
    ],
)
def test_a_folder_or_a_pattern_stands_for_just_the_files_that_were_run(runs: Any, others: list[str], expected: str) -> None:
    names = ["tu/enzymes_gin", "tu/mutag_gin"]
    records = runs([0.9], name=names[0], dataset="ENZYMES") + runs([0.9], name=names[1])
    known = [f"configs/{name}.toml" for name in names + others]
    [command] = condensed(table(records), [plan(name) for name in names + others])
    assert command == f"gump run {expected} --splits 0 --records out/again"
    meant = {path for word in shlex.split(expected) for path in known if fnmatch.fnmatch(path, word) or path.startswith(f"{word}/")}
    assert meant == {f"configs/{name}.toml" for name in names}


def test_a_sweep_is_one_command_if_every_point_was_run_alike(runs: Any) -> None:
    sizes = ["dataset.num_nodes=4,model.num_layers=3", "dataset.num_nodes=6,model.num_layers=4"]
    records = [record for variant in [*sizes, "train.epochs=2"] for record in runs([0.9], name="tu/mutag_gcn", variant=variant)]
    whole = condensed(table(records), [plan("tu/mutag_gcn", variant) for variant in sizes])
    path = "gump run configs/tu/mutag_gcn.toml --splits 0"
    assert whole == [f"{path} --records out/again", f"{path} --set train.epochs=2 --records out/again"]
    begun = condensed(table(records[1:]), [plan("tu/mutag_gcn", variant) for variant in sizes])
    assert f"{path} --set dataset.num_nodes=6 --set model.num_layers=4 --records out/again" in begun
    assert f"{path} --records out/again" not in begun
    records += runs([0.9, 0.8], name="tu/mutag_gcn", variant=sizes[0])[1:]
    assert len(condensed(table(records), [plan("tu/mutag_gcn", variant) for variant in sizes])) == 3, "a point has a run more"


def test_names_with_spaces_are_quoted(runs: Any) -> None:
    [command] = condensed(table(runs([0.9], provenance={"config": "my files/tiny.toml"})))
    assert shlex.split(command)[2] == "my files/tiny.toml"
