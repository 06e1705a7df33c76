from typing import Any

from gump.record import Record
from gump.report.missing import missing, told


def plan(name: str, dataset: Any, variant: str = "", published: bool = True, title: str = "GCN") -> Record:
    data = dataset if isinstance(dataset, dict) else {"kind": "tu", "name": dataset}
    return Record(name, 0, {"dataset": data, "title": title}, "", variant, published={"value": 80.0} if published else {})


def test_what_has_no_record_is_missing(runs: Any) -> None:
    planned = [
        plan("tu/mutag_gcn", "MUTAG"),
        plan("tu/nci109_gcn", "NCI109"),
        plan("tu/nci1_gcn", "NCI1"),
        plan("tu/mutag_gin", "MUTAG", title="GIN"),
        plan("tu/mutag_drew", "MUTAG", published=False, title="DRew"),
    ]
    found = missing(planned, runs([0.9], name="tu/mutag_gcn"))
    assert found.to_numpy().tolist() == [
        ["tu", "NCI109", "GCN", ""],
        ["tu", "NCI1", "GCN", ""],
        ["tu", "MUTAG", "GIN", ""],
        ["tu", "MUTAG", "DRew", ""],
    ]
    assert told(found) == ["Not run yet: *GCN* on NCI1, NCI109; *DRew*, *GIN* on MUTAG."]
    assert told(missing([], [])) == []


def test_points_are_named_only_where_a_sweep_was_begun(runs: Any) -> None:
    planned = [plan(f"depth/nci1_{m}", "NCI1", f"model.num_layers={n}", title=m) for m in ("gcn", "fosr") for n in (2, 4, 8)]
    found = missing(planned, runs([0.9], name="depth/nci1_gcn", variant="model.num_layers=4"))
    assert told(found) == ["Not run yet: *fosr* on NCI1; *gcn* on NCI1 at model.num_layers=2 and model.num_layers=8."]


def test_a_dataset_that_cannot_be_had_is_told_with_the_reason() -> None:
    planned = [plan(f"lrgb/{t}_gcn", {"kind": "peptides", "target": t}) for t in ("functional", "structural")]
    first, second = told(missing(planned, []))
    assert first == "Not run yet: *GCN* on peptides-functional."
    assert second.startswith("Not run: *GCN* on peptides-structural, because the targets of Peptides-struct")
