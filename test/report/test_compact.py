from typing import Any

from gump.report.compact import curves, listed, made, matrix, source_letters
from gump.report.table import table

PUBLISHED = {
    "value": 86.72,
    "interval": 1.53,
    "source": "appendix",
    "others": [{"value": 84.5, "source": "main table"}],
}
MADE = {"device": "cuda: NVIDIA H200", "commit": "0123456789", "side_by_side_with": list(range(1, 100))}


def points(runs: Any, sizes: tuple[int, ...] = (4, 10), method: str = "gcn", **fields: Any) -> list[Any]:
    return [
        record
        for n in sizes
        for record in runs(
            [1.0, 0.9],
            name=f"transfer/ring_{method}",
            dataset={"kind": "transfer", "name": "Ring", "num_nodes": n},
            variant=f"dataset.num_nodes={n}",
            test_index=[1],
            **fields,
        )
    ]


def test_rows_are_listed_with_a_column_for_every_source_by_hand(runs: Any) -> None:
    settings = {"protocol": {"kind": "fresh", "train": 0.8, "val": 0.1, "num_runs": 100}}
    records = runs([0.8, 0.9, 0.85, 0.85], published=PUBLISHED, provenance=MADE, settings=settings)
    assert listed(table(records), ["[^1]"]).iloc[0].to_dict() == {
        "Dataset": "MUTAG",
        "Method": "gin_gump[^1]",
        "Ours (accuracy, %)": "85.00 ± 6.50 [7.96]",
        "Published (appendix)": "86.72 ± 1.53 (-1.72)",
        "Published (main table)": "84.5 (+0.50)",
        "Verdict": "within",
        "Selected by": "loss",
        "Runs": "4 of 100",
        "Hardware": "NVIDIA H200",
        "Time": "40.0 s (100 side by side)",
        "Commit": "0123456",
    }


def test_a_matrix_has_methods_in_rows_and_datasets_in_columns_by_hand(runs: Any) -> None:
    records = runs([0.8], published=PUBLISHED, provenance={"commit": "aaaaaaaa"})
    records += runs([0.3, 0.3], name="tu/enzymes_gin_gump", dataset="ENZYMES", provenance={"commit": "bbbbbbbb"})
    records += runs([0.5], name="tu/mutag_gin", provenance={"commit": "aaaaaaaa"})
    found = matrix(table(records), ["", "[^1]", "[^2]"])
    assert found.columns.tolist() == [
        "Method",
        "ENZYMES (accuracy, %)",
        "MUTAG (accuracy, %)",
        "Selected by",
        "Runs",
        "Time",
        "Commit",
    ]
    assert found.to_numpy().tolist() == [
        [
            "gin_gump",
            "30.00 ± 0.00 [0.00]",
            "80.00 (86.72 ± 1.53 (a); 84.5 (b); short)[^2]",
            "loss",
            "1, 2",
            "30.0 s",
            "bbbbbbb, aaaaaaa",
        ],
        ["gin", "–", "50.00[^1]", "loss", "1", "10.0 s", "aaaaaaa"],
    ]


def test_sources_have_letters_only_where_there_are_two(runs: Any) -> None:
    assert source_letters(table(runs([0.8], published=PUBLISHED))) == {"appendix": " (a)", "main table": " (b)"}
    assert source_letters(table(runs([0.8], published={"value": 80.0, "source": "appendix"}))) == {"appendix": ""}
    assert source_letters(table(runs([0.8]))) == {}


def test_a_curve_is_a_row_by_hand(runs: Any) -> None:
    records = points(runs, published={"value": 96.0, "source": "figure"}) + points(runs, (4, 6), method="gin")
    records[0].status = "diverged"
    found = curves(table(records))
    assert found.columns.tolist() == ["Dataset", "Method", "4", "6", "10", "Published", "Verdict", "Selected by", "Runs", "Time"]
    assert found.to_numpy().tolist() == [
        [
            "Ring",
            "gcn",
            *["95.00 ± 63.53", "–", "95.00 ± 63.53"],
            "96 (figure)",
            "within, at all 2",
            "loss",
            "2 (1 diverged)",
            "40.0 s",
        ],
        ["Ring", "gin", *["95.00 ± 63.53", "95.00 ± 63.53", "–"], "–", "–", "loss", "2", "40.0 s"],
    ]
    assert curves(table(records), intervals=False)["4"].tolist() == ["95.0", "95.0"]


def test_verdicts_on_a_curve_are_counted_where_they_differ(runs: Any) -> None:
    records = points(runs, (4, 6, 8), published={"value": 96.0})
    for record in records[2:4]:
        record.results["loss"]["test"] = 1.0
    assert curves(table(records))["Verdict"].tolist() == ["at or above at 1 of 3, within at 2 of 3"]


def test_a_row_of_which_a_part_was_trained_side_by_side_says_so(runs: Any) -> None:
    together = runs([0.8], name="tu/mutag_gcn", provenance=MADE)
    alone = runs([0.8], name="tu/nci1_gcn", dataset="NCI1", provenance={**MADE, "side_by_side_with": []})
    assert made(table(together))["Time"] == "10.0 s (100 side by side)"
    assert made(table(together + alone))["Time"] == "20.0 s (in part 100 side by side)"
    assert made(table(alone))["Time"] == "10.0 s"
