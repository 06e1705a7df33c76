from typing import Any

import pytest

from gump.report.comparisons import comparisons
from gump.report.paired import paired_difference


def test_gump_is_compared_with_methods_of_its_base_and_changes_with_none(runs: Any) -> None:
    ours, plain = runs([0.9, 0.8, 0.85]), runs([0.7, 0.8, 0.75], name="tu/mutag_gin")
    changed = runs([0.6, 0.6, 0.7], variant="train.epochs=2")
    other = runs([0.5, 0.5, 0.5], name="tu/mutag_gcn") + runs([0.5, 0.5, 0.6], name="tu/enzymes_gin", dataset="ENZYMES")
    found = comparisons(ours + plain + changed + other)
    assert found[["first", "second"]].to_numpy().tolist() == [["gin_gump", "gin"], ["gin_gump, train.epochs=2", "gin_gump"]]
    for i, (a, b) in enumerate([(ours, plain), (changed, ours)]):
        expected = paired_difference(a, b).difference
        assert found["mean"].iloc[i] == pytest.approx(expected.mean)
        assert found["corrected_p_value"].iloc[i] == pytest.approx(expected.corrected_p_value)


def test_points_of_a_sweep_are_compared_at_the_same_point(runs: Any) -> None:
    records = [
        record
        for n in (4, 6)
        for method in ("gcn", "gcn_gump")
        for record in runs(
            [0.1, 0.2],
            name=f"transfer/ring_{method}",
            dataset={"kind": "transfer", "name": "Ring", "num_nodes": n},
            variant=f"dataset.num_nodes={n}",
        )
    ]
    found = comparisons(records)
    assert found["first"].tolist() == ["gcn_gump, dataset.num_nodes=4", "gcn_gump, dataset.num_nodes=6"]
    assert found["second"].tolist() == ["gcn, dataset.num_nodes=4", "gcn, dataset.num_nodes=6"]


def test_another_dataset_is_no_change_to_compare(runs: Any) -> None:
    assert comparisons(runs([0.9, 0.8]) + runs([0.7, 0.6], variant="dataset.use_attributes=True")).empty


def test_pairs_without_two_common_runs_are_left_out(runs: Any) -> None:
    assert comparisons(runs([0.9, 0.8]) + runs([0.7], name="tu/mutag_gin")).empty
    assert comparisons(runs([0.9, 0.8]) + runs([0.7, 0.7], name="tu/mutag_gin", test_index=[100])).empty
