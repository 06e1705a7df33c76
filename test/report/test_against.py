from pathlib import Path
from typing import Any

import pytest

from gump.report.against import against_first, read_configuration
from gump.report.paired import paired_difference
from gump.report.statistics import Summary


def test_every_other_configuration_is_compared_with_the_first(runs: Any) -> None:
    first, second = runs([0.7, 0.7, 0.7]), runs([0.8, 0.9, 0.7], name="tu/mutag_gin", settings={"train": {"select": "metric"}})
    third = runs([0.5, 0.6], name="tu/mutag_gcn", variant="train.epochs=2")
    found = against_first([first, second, third])
    assert [standing.summary for standing in found] == [Summary.of(group) for group in (first, second, third)]
    assert [standing.select for standing in found] == ["loss", "metric", "loss"]
    assert [standing.difference for standing in found] == [None, paired_difference(second, first), paired_difference(third, first)]
    assert found[1].difference is not None
    assert found[1].difference.difference.mean == pytest.approx(10)
    assert {standing.part for standing in found} == {"test"}


def test_a_rule_that_is_named_goes_for_all(runs: Any) -> None:
    first, second = runs([0.7, 0.7]), runs([0.8, 0.9], name="tu/mutag_gin", settings={"train": {"select": "metric"}})
    second[0].results["loss"]["test"] = 0.1
    found = against_first([first, second], "loss")
    assert [(standing.rule, standing.select) for standing in found] == [("loss", "loss")] * 2
    assert found[1].difference == paired_difference(second, first, "loss")


@pytest.mark.parametrize("fields", [{"name": "search/mutag_gin"}, {"provenance": {"search": True}}])
def test_beside_a_search_validation_alone_is_compared(fields: dict[str, Any], runs: Any) -> None:
    systems = [runs([0.9, 0.9]), runs([0.1, 0.2], **{"name": "tu/mutag_gin", **fields})]
    for records, value in zip(systems, (0.5, 0.6), strict=True):
        for record in records:
            record.results["loss"]["val"] = value
            record.predictions = {"loss": [0, 1], "target": [0, 1]}
    told = []
    for i, test in enumerate((0.3, 0.4)):
        systems[1][i].results["loss"]["test"] = test
        found = against_first(systems)
        told.append(found)
        assert [standing.part for standing in found] == ["val", "val"]
        assert [standing.summary.estimates["loss"].mean for standing in found] == pytest.approx([50, 60])
        assert found[1].difference is not None
        assert found[1].difference.difference.mean == pytest.approx(10)
        assert found[1].difference.num_answers == 0
    assert told[0] == told[1], "whatever the test sets say"


def test_number_of_runs_and_settings_that_are_newer_than_a_record_are_no_other_protocol(runs: Any) -> None:
    protocol = {"kind": "fresh", "train": 0.8, "val": 0.1, "num_runs": 5, "seed": 0}
    against_first([runs([0.7, 0.7]), runs([0.7, 0.8], settings={"protocol": protocol})])
    against_first(
        [runs([0.7, 0.7], settings={"protocol": protocol}), runs([0.7, 0.8], settings={"protocol": protocol | {"num_runs": 9}})]
    )


def test_what_cannot_be_compared_is_refused(runs: Any) -> None:
    def refused(*others: Any, match: str) -> None:
        with pytest.raises(ValueError, match=match):
            against_first([runs([0.5, 0.6], provenance={"data": "aa"}), *others])

    refused(match=r"'records' must be of two configurations or more \(got 1\)")
    refused(
        runs([0.5, 0.6], name="tu/enzymes_gin", dataset="ENZYMES"),
        match=r"be of one dataset \(got dataset.name 'MUTAG' in tu/mutag_gin_gump and 'ENZYMES' in tu/enzymes_gin\)",
    )
    refused(runs([0.5, 0.6], metric="auroc"), match="must have one measure .got 'accuracy' in .* and 'auroc'")
    refused(
        runs([0.5, 0.6], variant="protocol.train=0.5", settings={"protocol": {"kind": "fresh", "train": 0.5, "val": 0.1}}),
        match=r"have the same splits \(got protocol.train 0.8 in tu/mutag_gin_gump and 0.5 in tu/mutag_gin_gump \[protocol.train=0.5\]\)",
    )
    refused(runs([0.5, 0.6], provenance={"data": "bb"}), match="be of the same data .got the fingerprints aa in .* and bb in ")
    refused(
        runs([0.5]),
        match=r"must share two splits or more, .* by 'selected' \(got 1 of .*, which have the runs 0-1 and the runs 0\)",
    )
    refused(runs([0.5, 0.5], test_index=[100]), match=r"got 0 of .*, which have the runs 0-1 and the runs 0-1")
    refused(runs([0.5, None]), match="got 1 of")


def test_a_folder_is_read_as_it_stands_without_what_was_set_otherwise_below(runs: Any, tmp_path: Path) -> None:
    for record in runs([0.5, 0.6]) + runs([0.7], variant="train.epochs=2") + runs([0.8], name="tu/deep", variant="train.lr=0.1"):
        record.save(tmp_path)
    assert [record.results["loss"]["test"] for record in read_configuration(tmp_path / "tu/mutag_gin_gump")] == [0.5, 0.6]
    assert [record.variant for record in read_configuration(tmp_path / "tu/mutag_gin_gump/train.epochs=2")] == ["train.epochs=2"]
    assert [record.variant for record in read_configuration(tmp_path / "tu/deep")] == ["train.lr=0.1"], "the only one below"
    with pytest.raises(
        ValueError, match=r"folders of one configuration each \(got '.*', with 3 below it\); name one, such as .*/tu/deep/"
    ):
        read_configuration(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"'records' must be a folder of records \(got '.*nowhere', which is none\)"):
        read_configuration(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="must hold at least one record"):
        read_configuration(tmp_path / "empty")
