import re
from pathlib import Path
from typing import Any

import pytest

from gump.record import Record
from gump.report.page import write_report

PUBLISHED = {
    "value": 86.72,
    "interval": 1.53,
    "source": "appendix",
    "others": [{"value": 87.11, "interval": 7.61, "source": "main table"}],
}


@pytest.fixture
def records(runs: Any) -> list[Record]:
    found = runs([0.8, 0.9, 0.85], published=PUBLISHED) + runs([0.7, 0.8, 0.7], name="tu/mutag_gin", note="node labels only")
    found += runs([0.5, 0.5, 0.5], variant="train.epochs=2", published=PUBLISHED)
    for n in (4, 6):
        for method in ("gcn", "gcn_gump"):
            data = {"kind": "transfer", "name": "Ring", "num_nodes": n, "num_classes": 5}
            variant = f"dataset.num_nodes={n}"
            found += runs([1.0, 0.9], name=f"transfer/ring_{method}", dataset=data, variant=variant, note="node labels only")
    return found


def rows_of(text: str, start: str) -> list[list[str]]:
    """The table after a heading, cell by cell."""
    lines = text.split(start, 1)[1].split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("|"))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[first:last]]


def test_page_sets_ours_beside_the_published_numbers(records: list[Record], tmp_path: Path) -> None:
    page = write_report(records, tmp_path, title="Results")
    text = page.read_text()
    assert page == tmp_path / "REPORT.md"
    assert text.startswith("# Results\n\nWritten by `gump report` from 17 records of 7 configurations.\n")
    head, _, *rows = rows_of(text.split("## tu")[1], "### Every number")
    row = dict(zip(head, next(row for row in rows if row[1] == "gin_gump" and not row[2]), strict=True))
    assert row["Ours"].startswith("85.00 ± 12.42 (5.00) [")
    assert row["Published"] == "86.72 ± 1.53"
    assert row["Others"] == "87.11 ± 7.61 (main table)"
    assert "Of 2 numbers with a published one beside it, 1 below it by no more than our interval, 1 short of it." in text
    assert rows_of(text, "Short of the best published number, be it the first or one of the others:")[2][:3] == [
        "MUTAG",
        "gin_gump",
        "train.epochs=2",
    ]


def test_page_says_by_which_rule_a_number_was_selected(runs: Any, tmp_path: Path) -> None:
    records = runs([0.8, 0.9], published=PUBLISHED) + runs(
        [0.7, 0.8], name="tu/mutag_gin", settings={"train": {"select": "metric"}}
    )
    for record in records:
        record.results["metric"] = {"epoch": 2, "test": 0.95}
    text = write_report(records, tmp_path).read_text()
    head, _, *rows = rows_of(text, "### Every number")
    found = {row[1]: dict(zip(head, row, strict=True)) for row in rows}
    assert [(found[m]["Selected by"], found[m]["Ours"][:5]) for m in ("gin", "gin_gump")] == [
        ("metric", "95.00"),
        ("loss", "85.00"),
    ]
    assert all(row["By metric"].startswith("95.00") for row in found.values())
    assert "Selected by the rule that each configuration names:" in text
    assert rows_of(text, "All selected by validation loss:")[2][1].startswith("75.00")
    same = write_report(runs([0.8, 0.9]), tmp_path / "same").read_text()
    assert "Selected by validation loss:" in same
    assert "selected_mean" in (tmp_path / "same/figures/tu.csv").read_text().split("\n")[0]


def test_page_from_a_folder_is_that_from_its_records(records: list[Record], tmp_path: Path) -> None:
    for record in records:
        record.save(tmp_path / "records")
    one = write_report(tmp_path / "records", tmp_path / "one", file_name="RESULTS.md")
    two = write_report(str(tmp_path / "records"), tmp_path / "two", file_name="RESULTS.md")
    assert one.name == "RESULTS.md"
    assert one.read_text() == write_report(records[::-1], tmp_path / "three").read_text()
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert [str(path) for path in files] == [
        "RESULTS.md",
        "data/comparisons.csv",
        "data/results.csv",
        "figures/transfer_dataset_num_nodes.csv",
        "figures/transfer_dataset_num_nodes.svg",
        "figures/tu.csv",
        "figures/tu.svg",
    ]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (two.parent / file).read_bytes(), file


def test_report_may_lie_among_the_records(records: list[Record], tmp_path: Path) -> None:
    for record in records:
        record.save(tmp_path)
    assert write_report(tmp_path, tmp_path).read_bytes() == write_report(tmp_path, tmp_path).read_bytes()


def test_markdown_is_sound(records: list[Record], tmp_path: Path) -> None:
    records[0].note = "a note | with a bar\nand a second line"
    text = write_report(records, tmp_path).read_text()
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        lines = block.rstrip("\n").split("\n")
        assert len({len(line) for line in lines}) == 1, "columns are aligned"
        assert len({len(re.split(r"(?<!\\)\|", line)) for line in lines}) == 1, "every row has every cell"
        assert set(lines[1]) == set("| -")
    used, given = set(re.findall(r"\[\^(\d+)\](?!:)", text)), re.findall(r"^\[\^(\d+)\]: .+$", text, flags=re.MULTILINE)
    assert used == set(given)
    assert len(given) == len(set(given))
    for figure in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (tmp_path / figure).is_file()
    assert text.count("```") % 2 == 0
    assert text.endswith("\n")
    assert "\n\n\n" not in text
    assert not re.search(r"\b(nan|None)\b", text)


def test_a_sweep_is_a_row_on_the_page_and_every_point_is_in_the_data(records: list[Record], tmp_path: Path) -> None:
    text = write_report(records, tmp_path).read_text()
    head, _, *rows = rows_of(text, "### Against dataset.num_nodes")
    assert head[:4] == ["Dataset", "Method", "4", "6"]
    assert [row[:4] for row in rows] == [
        ["Ring", "gcn[^1]", "95.00 ± 63.53", "95.00 ± 63.53"],
        ["Ring", "gcn_gump[^1]", "95.00 ± 63.53", "95.00 ± 63.53"],
    ]
    assert "### Every number" not in text.split("## transfer")[1].split("## tu")[0]
    assert (tmp_path / "data/results.csv").read_text().count("transfer,Ring,") == 4
    assert "2 paired differences between points of curves" in text
    assert (tmp_path / "data/comparisons.csv").read_text().count("transfer,Ring,accuracy,dataset.num_nodes,") == 2


def test_rows_share_footnotes_and_can_be_run_again_and_intervals_are_explained(records: list[Record], tmp_path: Path) -> None:
    text = write_report(records, tmp_path).read_text()
    assert text.count("[^1]: node labels only") == 1
    assert "gin[^1]" in text
    assert "gcn_gump[^1]" in text
    assert "\ngump run configs/tu/mutag_gin.toml configs/tu/mutag_gin_gump.toml --splits 0-2 --records out/again\n" in text
    assert "\ngump run configs/tu/mutag_gin_gump.toml --splits 0-2 --set train.epochs=2 --records out/again\n" in text
    pair = "configs/transfer/ring_gcn.toml configs/transfer/ring_gcn_gump.toml"
    assert f"\ngump run {pair} --splits 0-1 --set dataset.num_nodes=6 --records out/again\n" in text
    assert "t · s · √(1/n + n_test / n_train) after Nadeau and Bengio" in text.split("## How to read this")[1]


def test_a_configuration_that_only_diverged_is_shown_without_a_verdict(runs: Any, tmp_path: Path) -> None:
    records = runs([None, None], published=PUBLISHED)
    for record in records:
        record.status = "diverged"
    records += runs([0.8], name="tu/mutag_gin")
    text = write_report(records, tmp_path).read_text()
    head, _, *rows = rows_of(text, "### Every number")
    row = dict(zip(head, rows[1], strict=True))
    assert (row["Method"], row["Runs"], row["Ours"]) == ("gin_gump[^1][^2]", "2 (2 diverged)", "–")
    assert "Verdict" not in row
    assert "with a published one beside it" not in text


def test_refusals(runs: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'records' must be a folder of records"):
        write_report(tmp_path / "nowhere", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"at least one record \(got none in .*empty'\); `gump run CONFIG` makes them"):
        write_report(tmp_path / "empty", tmp_path)
    with pytest.raises(ValueError, match=r"at least one record \(got none\)"):
        write_report([], tmp_path)
    path = runs([0.9])[0].save(tmp_path / "broken")
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match=r"000.json is not a record"):
        write_report(tmp_path / "broken", tmp_path)
    with pytest.raises(ValueError, match="one measure"):
        write_report(runs([0.9]) + runs([0.9], name="tu/mutag_gin", metric="mae"), tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


def test_searches_are_no_results(runs: Any, tmp_path: Path) -> None:
    searched = runs([0.123], name="search/mutag_gcn")
    text = write_report([*runs([0.9], name="tu/mutag_gcn"), *searched], tmp_path).read_text()
    assert "from 1 record of 1 configuration" in text
    assert "12.3" not in text
    with pytest.raises(ValueError, match="must hold results"):
        write_report(searched, tmp_path)
