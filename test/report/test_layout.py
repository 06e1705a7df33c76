from typing import Any

import pandas as pd
import pytest

from gump.report.layout import costs, details, markdown, overview
from gump.report.table import table

PUBLISHED = {
    "value": 86.72,
    "interval": 1.5,
    "source": "appendix",
    "others": [{"value": 87.11, "interval": 7.61, "source": "main table"}],
}


def test_markdown_is_aligned_in_the_source() -> None:
    lines = markdown(pd.DataFrame({"a": ["x", "long one"], "b": ["±", "two\nlines | bar"]})).split("\n")
    assert lines[0] == "| a        | b                |"
    assert lines[1] == "| -------- | ---------------- |"
    assert lines[3] == "| long one | two lines \\| bar |"
    assert len({len(line) for line in lines}) == 1


def test_details_by_hand(runs: Any) -> None:
    provenance = {"device": "cpu", "path": "plain"}
    frame = table(runs([0.8, 0.9, 0.85, 0.85], published=PUBLISHED, provenance=provenance))
    assert details(frame, ["[^1]"]).iloc[0].to_dict() == {
        "Dataset": "MUTAG",
        "Method": "gin_gump[^1]",
        "Runs": "4",
        "Ours": "85.00 ± 6.50 (4.08) [7.96]",
        "Selected by": "loss",
        "By loss": "85.00 ± 6.50 (4.08) [7.96]",
        "By metric": "85.00 ± 6.50 (4.08) [7.96]",
        "Published": "86.72 ± 1.50",
        "Source": "appendix",
        "Others": "87.11 ± 7.61 (main table)",
        "Difference": "-1.72",
        "Verdict": "within",
        "Device": "cpu (plain)",
        "Time": "40.0 s",
    }


def test_measures_that_are_not_in_percent_have_four_digits(runs: Any) -> None:
    found = details(table(runs([0.70, 0.71], metric="ap", published={"value": 0.7088, "interval": 0.0026}))).iloc[0]
    assert found["Ours"].startswith("0.7050 ± 0.0635 (0.0071)")
    assert (found["Published"], found["Difference"]) == ("0.7088 ± 0.0026", "-0.0038")


def test_published_numbers_keep_their_digits(runs: Any) -> None:
    assert details(table(runs([0.8], published={"value": 84.6})))["Published"].tolist() == ["84.6"]
    assert details(table(runs([0.8], published={"value": 80.0, "interval": 1.57})))["Published"].tolist() == ["80.00 ± 1.57"]


def test_one_run_has_no_interval(runs: Any) -> None:
    assert details(table(runs([0.8])))["Ours"].tolist() == ["80.00"]


def test_runs_that_left_no_number_are_told(runs: Any) -> None:
    records = runs([0.8, 0.9, None])
    records[2].status = "diverged"
    found = details(table(records)).iloc[0]
    assert found["Runs"] == "3 (1 diverged)"
    assert found["Ours"].endswith(", 2 of 3 runs")


def test_interval_that_does_not_apply_is_a_dash(runs: Any) -> None:
    assert details(table(runs([0.8, 0.9], test_index=[1, 2])))["Ours"].tolist() == ["85.00 ± 63.53 (7.07)"]


def test_overview_has_methods_in_rows_and_datasets_in_columns(runs: Any) -> None:
    records = runs([0.8, 0.9], published=PUBLISHED) + runs([0.5], name="tu/mutag_gin")
    records += runs([0.3], name="tu/enzymes_gin", dataset="ENZYMES") + runs([0.2], name="tu/enzymes_gin_gump", dataset="ENZYMES")
    records += runs([0.4], variant="train.epochs=2")
    found = overview(table(records))
    assert found.columns.tolist() == ["Method", "Set otherwise", "ENZYMES (accuracy, %)", "MUTAG (accuracy, %)", "Rank"]
    assert found.to_numpy().tolist() == [
        ["gin", "", "30.00", "50.00", "1.5"],
        ["gin_gump", "", "20.00", "85.00 ± 63.53 (86.72 ± 1.50)", "1.5"],
        ["gin_gump", "train.epochs=2", "–", "40.00", "–"],
    ]


def test_costs_by_hand(runs: Any) -> None:
    cost = {"time_s": 7200.0, "epoch_time_s": 0.0123, "peak_memory_bytes": 3 * 2**30, "num_parameters": 498765}
    frame = table(runs([0.8, 0.9], cost=cost, provenance={"commit": "0123456789"}))
    expected = ["MUTAG", "gin_gump", "498,765", "15", "15", "12.3 ms", "3,072 MiB", "0123456"]
    assert costs(frame).iloc[0].tolist() == expected
    assert details(frame)["Time"].tolist() == ["4.0 h"]


def test_a_cost_that_runs_share_says_so_by_hand(runs: Any) -> None:
    cost = {"epoch_time_s": 0.0123, "peak_memory_bytes": 3 * 2**30}
    alone = runs([0.8, 0.9], cost=cost, provenance={"side_by_side_with": []})
    beside = runs([0.8, 0.9], cost=cost, provenance={"side_by_side_with": list(range(1, 100))})
    mixed = runs([0.8], cost=cost, provenance={"side_by_side_with": [1], "and_with": {"tu/a train.lr=1": "0-3,7", "tu/b": "2"}})
    for records, time, memory in (
        (alone, "12.3 ms", "3,072 MiB"),
        (beside, "12.3 ms (share of 100)", "3,072 MiB (all 100)"),
        (mixed, "12.3 ms (share of 8)", "3,072 MiB (all 8)"),
        ([alone[0], beside[1]], "12.3 ms (share of 1 to 100)", "3,072 MiB (all 1 to 100)"),
    ):
        assert costs(table(records))[["Time per epoch", "Peak memory"]].iloc[0].tolist() == [time, memory]
    without = costs(table(runs([0.8], provenance={"side_by_side_with": [1]})))
    assert not {"Time per epoch", "Peak memory"} & set(without.columns), "what is not known is no share"


@pytest.mark.parametrize(("seconds", "text"), [(59.0, "59.0 s"), (90.0, "1.5 min"), (0.5, "500.0 ms")])
def test_durations(seconds: float, text: str, runs: Any) -> None:
    assert details(table(runs([0.8], cost={"time_s": seconds})))["Time"].tolist() == [text]
