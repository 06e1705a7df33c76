import dataclasses
import math
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from gump.report.table import table

PUBLISHED = {
    "value": 86.72,
    "interval": 1.53,
    "source": "appendix",
    "others": [{"value": 87.11, "interval": 7.61, "source": "main table"}],
}

DATASETS = ("MUTAG", "PROTEINS", "ENZYMES", "NCI1", "NCI109")
PAPER = {  # the paper's appendix: accuracies, and the rank printed beside them
    "gcn": ([72.15, 70.98, 27.67, 68.74, 67.90], 4.2),
    "gcn_more_layers": ([70.05, 69.80, 23.63, 63.94, 55.92], 6.8),
    "gcn_digl": ([79.70, 70.76, 35.72, 69.76, 69.37], 3.0),
    "gcn_sdrf": ([71.05, 70.92, 28.37, 68.21, 66.78], 4.8),
    "gcn_fosr": ([80.00, 73.42, 25.07, 57.27, 56.82], 4.6),
    "gcn_gtr": ([79.10, 72.59, 27.52, 69.37, 67.97], 3.6),
    "gcn_gump": ([84.89, 74.88, 36.02, 77.97, 75.85], 1.0),
    "gin": ([77.70, 70.80, 33.80, 75.65, 74.93], 4.0),
    "gin_more_layers": ([69.80, 68.71, 25.92, 73.49, 72.47], 6.6),
    "gin_digl": ([79.80, 70.71, 35.74, 79.37, 76.88], 2.8),
    "gin_sdrf": ([78.40, 69.81, 35.82, 74.55, 73.89], 4.2),
    "gin_fosr": ([78.00, 75.11, 29.20, 70.15, 69.93], 5.2),
    "gin_gtr": ([77.60, 73.13, 30.57, 75.45, 75.28], 4.2),
    "gin_gump": ([86.72, 75.43, 48.43, 81.25, 78.45], 1.0),
}


def paper_records(runs: Any) -> list[Any]:
    return [
        record
        for method, (values, _) in PAPER.items()
        for dataset, value in zip(DATASETS, values, strict=True)
        for record in runs([value / 100], name=f"tu/{dataset.lower()}_{method}", dataset=dataset)
    ]


def test_row_by_hand(runs: Any) -> None:
    provenance = {"device": "NVIDIA H200", "path": "kernel", "commit": "0123456789", "clean": True}
    cost = {"time_s": 60.0, "epoch_time_s": 0.5, "peak_memory_bytes": 2**20, "num_parameters": 1234}
    frame = table(runs([0.8, 0.9, 0.85, 0.85], published=PUBLISHED, provenance=provenance, cost=cost))
    assert len(frame) == 1
    row = frame.iloc[0]
    assert tuple(row[["table", "dataset", "method", "base", "setting"]]) == ("tu", "MUTAG", "gin_gump", "gin", "")
    assert row["loss_mean"] == pytest.approx(85)
    assert row["loss_interval"] == pytest.approx(stats.t.ppf(0.975, 3) * row["loss_std"] / 2)
    assert row["loss_corrected"] == pytest.approx(stats.t.ppf(0.975, 3) * row["loss_std"] * math.sqrt(1 / 4 + 1 / 8))
    assert row["metric_mean"] == pytest.approx(85)
    assert math.isnan(row["last_mean"])
    assert tuple(row[["num_runs", "loss_runs", "last_runs", "num_diverged", "loss_epoch"]]) == (4, 4, 0, 0, 25)
    assert tuple(row[["published", "published_interval", "source"]]) == (86.72, 1.53, "appendix")
    assert row["others"] == [{"published": 87.11, "published_interval": 7.61, "source": "main table"}]
    assert row["difference"] == pytest.approx(-1.72)
    assert tuple(row[["device", "commit", "time_s", "num_parameters"]]) == ("NVIDIA H200 (kernel)", "0123456", 240, 1234)
    assert row["command"] == "gump run configs/tu/mutag_gin_gump.toml --splits 0-3 --records out/again"
    assert row["notes"] == []


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.88, 0.88], "at or above"), ([0.87, 0.87], "short"), ([0.86, 0.88], "within"), ([0.8, 0.8001], "short"), ([0.80], "short")],
)
def test_verdict_goes_by_the_best_published_number(values: list[float], verdict: str, runs: Any) -> None:
    assert table(runs(values, published=PUBLISHED))["verdict"].tolist() == [verdict]


@pytest.mark.parametrize(("value", "verdict"), [(0.24, "at or above"), (0.25, "short")])
def test_less_may_be_better(value: float, verdict: str, runs: Any) -> None:
    published = {"value": 0.2438, "source": "main table"}
    frame = table(runs([value, value], metric="mae", higher_is_better=False, published=published))
    assert frame["verdict"].tolist() == [verdict]
    assert frame["difference"].iloc[0] == pytest.approx(value - 0.2438)


@pytest.mark.parametrize(
    ("select", "value", "verdict"), [("loss", 80, "short"), ("metric", 90, "at or above"), ("last", 87, "short")]
)
def test_the_headline_goes_by_the_rule_that_the_configuration_names(select: str, value: float, verdict: str, runs: Any) -> None:
    records = runs([0.8, 0.8], published=PUBLISHED, settings={"train": {"select": select}})
    for record in records:
        record.results["metric"], record.results["last"] = {"epoch": 2, "test": 0.9}, {"epoch": 3, "test": 0.87}
    row = table(records).iloc[0]
    assert (row["select"], row["selected_mean"], row["verdict"]) == (select, pytest.approx(value), verdict)
    assert row["difference"] == pytest.approx(value - 86.72)
    assert row["selected_epoch"] == row[f"{select}_epoch"]
    assert [row[f"{rule}_mean"] for rule in ("loss", "metric", "last")] == pytest.approx([80, 90, 87]), "the others stay beside it"


def test_methods_are_ranked_each_by_its_own_rule(runs: Any) -> None:
    records = runs([0.8, 0.8]) + runs([0.7, 0.7], name="tu/mutag_gin", settings={"train": {"select": "metric"}})
    for record in records:
        record.results["metric"] = {"epoch": 2, "test": 0.9 if record.select == "metric" else 0.95}
    ranks = table(records).set_index("method")[["selected_rank", "loss_rank", "metric_rank"]]
    assert ranks.loc["gin"].tolist() == [1, 2, 2]
    assert ranks.loc["gin_gump"].tolist() == [2, 1, 1]


def test_without_a_published_number_there_is_no_verdict(runs: Any) -> None:
    row = table(runs([0.8, 0.9])).iloc[0]
    assert row["verdict"] == ""
    assert math.isnan(row["difference"])


def test_rank_of_the_papers_numbers_is_the_papers_rank(runs: Any) -> None:
    frame = table(paper_records(runs))
    for method, rows in frame.groupby("method"):
        assert rows["loss_rank"].tolist() == pytest.approx([PAPER[method][1]] * 5), method


def test_rank_by_another_rule_is_another_rank(runs: Any) -> None:
    good, bad = runs([0.9, 0.9], name="tu/mutag_gin"), runs([0.8, 0.8])
    for record in bad:
        record.results["metric"]["test"] = 0.95
    frame = table(good + bad).set_index("method")
    assert frame["loss_rank"].to_dict() == {"gin": 1, "gin_gump": 2}
    assert frame["metric_rank"].to_dict() == {"gin": 2, "gin_gump": 1}


def test_equal_methods_share_their_places(runs: Any) -> None:
    assert table(runs([0.9], name="tu/mutag_gin") + runs([0.9]))["loss_rank"].tolist() == [1.5, 1.5]


def test_rank_of_an_error_is_the_other_way_round(runs: Any) -> None:
    fields = {"metric": "mae", "higher_is_better": False}
    frame = table(runs([0.9], name="tu/mutag_gin", **fields) + runs([0.8], **fields)).set_index("method")
    assert frame["loss_rank"].to_dict() == {"gin": 2, "gin_gump": 1}


def test_only_methods_with_a_number_on_every_dataset_are_ranked(runs: Any) -> None:
    records = [record for record in paper_records(runs) if (record.name, record.index) != ("tu/mutag_gcn_gump", 0)]
    ranks = table(records).groupby("method")["loss_rank"].first()
    assert math.isnan(ranks["gcn_gump"])
    assert ranks["gcn_digl"] == pytest.approx(2.0)  # one place up on every dataset
    assert ranks["gin_gump"] == 1


def test_lonely_and_changed_configurations_are_not_ranked(runs: Any) -> None:
    frame = table(runs([0.9]) + runs([0.8], variant="train.epochs=2") + runs([0.8], name="tu/mutag_gcn"))
    assert frame["loss_rank"].isna().all()


def test_changes_are_rows_of_their_own(runs: Any) -> None:
    frame = table(runs([0.9]) + runs([0.8], variant="train.epochs=2,model.norm=batch"))
    assert frame["setting"].tolist() == ["", "train.epochs=2, model.norm=batch"]
    assert frame["command"].iloc[1].endswith("--set train.epochs=2 --set model.norm=batch --records out/again")
    assert frame["axis"].tolist() == ["", ""]


def test_sweep_is_a_row_for_each_point_in_order(runs: Any) -> None:
    records = [
        record
        for n in (10, 4, 28)
        for record in runs(
            [0.2, 0.4],
            name="transfer/ring_gcn",
            dataset={"kind": "transfer", "name": "Ring", "num_nodes": n, "num_classes": 5},
            variant=f"dataset.num_nodes={n},model.num_layers={n // 2 + 1}",
            test_index=[0, 1],
        )
    ]
    frame = table(records)
    assert frame["x"].tolist() == [4, 10, 28]
    assert frame["setting"].iloc[2] == "dataset.num_nodes=28, model.num_layers=15"
    assert set(frame["axis"]) == {"dataset.num_nodes"}
    assert set(frame["line"]) == {"gcn"}
    assert set(frame["chance"]) == {20}


def test_rows_that_would_look_the_same_are_told_apart_by_the_file(runs: Any) -> None:
    settings = {"title": "GIN-GUMP"}
    frame = table(runs([0.9], settings=settings) + runs([0.8], name="tu/mutag_gin_gump_best", settings=settings))
    assert sorted(frame["method"]) == ["GIN-GUMP (mutag_gin_gump)", "GIN-GUMP (mutag_gin_gump_best)"]


def test_a_method_with_two_bases_is_told_apart_by_them_on_every_dataset(runs: Any) -> None:
    fosr = {"title": "FoSR"}
    records = runs([0.9], name="tu/mutag_gcn_fosr", settings=fosr) + runs([0.8], name="tu/mutag_gin_fosr", settings=fosr)
    records += runs([0.7], name="tu/enzymes_gcn_fosr", settings=fosr, dataset="ENZYMES")
    found = table(records)[["dataset", "method"]].to_numpy().tolist()
    assert found == [["ENZYMES", "FoSR (GCN)"], ["MUTAG", "FoSR (GCN)"], ["MUTAG", "FoSR (GIN)"]]


def test_methods_come_by_the_numbers_in_their_names(runs: Any) -> None:
    records = [r for n in (16, 2) for r in runs([0.9], name=f"tu/mutag_gcn_{n}", settings={"title": f"GCN, {n} layers"})]
    assert table(records)["method"].tolist() == ["GCN, 2 layers", "GCN, 16 layers"]


def test_runs_of_the_protocol_and_hardware_are_told(runs: Any) -> None:
    settings = {"protocol": {"kind": "fresh", "num_runs": 100}}
    device = {"device": "cuda: NVIDIA H200", "num_devices": 2}
    row = table(runs([0.9, 0.8], settings=settings, provenance=device)).iloc[0]
    assert (row["num_planned"], row["hardware"]) == (100, "2 × NVIDIA H200")
    assert table(runs([0.9], provenance={"device": "cpu: cpu", "num_threads": 2}))["hardware"].tolist() == ["CPU with 2 threads"]


def test_order_of_records_does_not_matter(runs: Any) -> None:
    records = paper_records(runs) + runs([0.7, 0.8], variant="train.epochs=2", dataset="ENZYMES", name="tu/enzymes_gin_gump")
    pd.testing.assert_frame_equal(table(records), table(records[::-1]))


def test_notes_tell_what_the_records_give_away(runs: Any) -> None:
    records = runs([0.9, 0.8, 0.7], note="node labels only", provenance={"clean": False})
    records[2].status, records[2].note = "diverged", "epoch 3, step 2: the loss is nan"
    records[0].settings = {**records[0].settings, "train": {"lr": 0.2, "clip": None}, "transform": [{"k": 1, "when": "once"}]}
    records[1].settings = {**records[0].settings, "train": {"lr": 0.1}, "transform": [{"k": 1}]}
    records[2].settings = records[0].settings
    records[1].published = {"value": 80}
    records[1].provenance = {"commits": {"0123456789": 1, "9876543210": 94}}
    assert table(records)["notes"].iloc[0] == [
        "node labels only",
        "Run 2 diverged: epoch 3, step 2: the loss is nan.",
        "The runs were not all made with the same settings: train.lr differ.",
        "The runs do not carry the same published number; that of the first one is shown.",
        "Some runs were made with changes that were not committed.",
        "Some runs were made by more than one commit: 0123456 from epoch 1, 9876543 from epoch 94.",
    ]


def test_tables_of_one_name_in_several_folders_are_several_datasets(runs: Any) -> None:
    here, there = ({"kind": "smiles", "path": f"{folder}/train.csv", "targets": "y"} for folder in ("solubility", "toxicity"))
    records = runs([0.1, 0.2], name="a", dataset=here, metric="mae", higher_is_better=False, provenance={"data": "11"})
    records += runs([0.1, 0.2], name="b", dataset=there, metric="mae", higher_is_better=False, provenance={"data": "22"})
    frame = table(records)
    assert frame["dataset"].tolist() == ["solubility/train (y)", "toxicity/train (y)"]
    assert frame["selected_rank"].isna().all()
    copies = [dataclasses.replace(record, provenance={"data": "11"}) for record in records]
    assert table(copies)["dataset"].tolist() == 2 * ["train (y)"]


def test_a_row_says_why_runs_have_no_number(runs: Any) -> None:
    records = runs([0.9, None, math.nan], metric="auroc")
    records[1].status = "diverged"
    assert (
        table(records)["notes"].iloc[0][-1].startswith("1 of 3 runs has no number: what is known of its test set is of one class")
    )


def test_runs_that_were_made_when_fewer_were_planned_are_like_the_others(runs: Any) -> None:
    records = runs([0.9, 0.8])
    for record, number in zip(records, (10, 2), strict=True):
        record.settings = {**record.settings, "protocol": {**record.settings["protocol"], "num_runs": number}}
    row = table(records).iloc[0]
    assert (row["num_planned"], row["notes"]) == (10, [])


def test_a_source_without_a_number_is_a_note(runs: Any) -> None:
    row = table(runs([0.9], published={"source": "a figure"})).iloc[0]
    assert (row["source"], row["verdict"], row["notes"]) == ("", "", ["Published: a figure."])


def test_devices_of_a_row_are_all_named(runs: Any) -> None:
    records = runs([0.9, 0.8], provenance={"device": "cpu"})
    records[1].provenance = {"device": "NVIDIA H200", "path": "kernel"}
    assert table(records)["device"].tolist() == ["cpu, NVIDIA H200 (kernel)"]


def test_refusals(runs: Any) -> None:
    with pytest.raises(ValueError, match=r"at least one record \(got none\)"):
        table([])
    with pytest.raises(ValueError, match=r"one measure \(got 'accuracy', 'mae' for MUTAG in 'tu'"):
        table(runs([0.9]) + runs([0.9], name="tu/mutag_gin", metric="mae"))
    with pytest.raises(ValueError, match="'published' must hold numbers"):
        table(runs([0.9], published={"value": "86.72"}))
    with pytest.raises(ValueError, match="'published' must hold numbers"):
        table(runs([0.9], published={"value": 86.72, "others": [87.11]}))
