import re
from pathlib import Path
from typing import Any

import pytest

from gump.record import Record
from gump.report.sections import SECTIONS
from gump.report.summary import write_summary

PUBLISHED = {"value": 86.72, "interval": 1.53, "source": "appendix"}


def search(variant: str, val: float) -> list[Record]:
    """Two runs of a point whose number on the test set may stand nowhere."""
    settings = {"dataset": {"kind": "tu", "name": "MUTAG"}, "title": "GIN-GUMP"}
    results = {"loss": {"epoch": 1, "val": val, "val_loss": 0.5, "test": 0.4242}}
    return [Record("search/mutag_gin_gump", i, settings, "accuracy", variant, results=results) for i in range(2)]


@pytest.fixture
def records(runs: Any) -> list[Record]:
    found = runs([0.8, 0.9], published=PUBLISHED, settings={"title": "GIN-GUMP"}, note="node labels only")
    found += runs([0.7, 0.8], name="tu/mutag_gin", settings={"title": "GIN"})
    found += runs([0.5, 0.6], name="own/mutag_gin", settings={"title": "GIN"})
    for n in (4, 6):
        data = {"kind": "transfer", "name": "Ring", "num_nodes": n, "num_classes": 5}
        found += runs([1.0, 0.9], name="transfer/ring_gcn", dataset=data, variant=f"dataset.num_nodes={n}")
    for i, val in enumerate([0.1, 0.7, 0.3, 0.6, 0.5, 0.4]):
        found += search(f"train.lr={i}", val)
    return found


@pytest.fixture
def planned() -> list[Record]:
    tables = [("tu/mutag_gin_gump", "GIN-GUMP"), ("tu/mutag_gcn_gump", "GCN-GUMP"), ("ogb/molhiv_gcn", "GCN")]
    settings = {"dataset": {"kind": "tu", "name": "MUTAG"}}
    plans = [Record(name, 0, settings | {"title": title}, "", published=PUBLISHED) for name, title in tables]
    return plans + [
        Record(f"search/{name}_gin_gump", 0, settings, "", f"train.lr={i}") for name in ("mutag", "nci1") for i in range(7)
    ]


@pytest.fixture
def page(records: list[Record], planned: list[Record], tmp_path: Path) -> Path:
    return write_summary(records, tmp_path / "results", tmp_path / "RESULTS.md", planned)


def part(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_sections_come_in_the_order_of_the_paper_and_others_behind(page: Path) -> None:
    headings = re.findall(r"^## (.*)$", page.read_text(), flags=re.MULTILINE)
    assert headings == [
        *["TU: GIN-GUMP", "TU: GCN-GUMP", "Transfer over a distance", "TU: the other systems", "ogbg-molhiv", "own"],
        *["Searches", "How to read this"],
    ]
    known = [section.heading for section in SECTIONS]
    assert [heading for heading in headings if heading in known] == [heading for heading in known if heading in headings]


def test_numbers_stand_beside_the_published_ones_with_verdict_time_and_command(page: Path) -> None:
    text = part(page.read_text(), "TU: GIN-GUMP")
    assert "| MUTAG   | GIN-GUMP[^1] | 85.00 ± 63.53 [71.03] | 86.72 ± 1.53 (-1.72) | within  | loss" in text
    assert "gump run configs/tu/mutag_gin_gump.toml --splits 0-1 --records out/again" in text
    assert "GIN-GUMP" not in part(page.read_text(), "TU: the other systems")
    assert page.read_text().endswith("\n[^1]: node labels only\n")


def test_a_sweep_is_one_row_with_its_figure(page: Path) -> None:
    text = part(page.read_text(), "Transfer over a distance")
    assert "Accuracy, %, against `dataset.num_nodes`; guessing gives 20:" in text
    assert len(re.findall(r"^\| Ring ", text, flags=re.MULTILINE)) == 1
    assert "](results/transfer/figures/transfer_dataset_num_nodes.svg)" in text


def test_what_is_missing_is_told(page: Path) -> None:
    assert part(page.read_text(), "TU: GCN-GUMP").strip() == "Not run yet: *GCN-GUMP* on MUTAG."
    assert "Not run" not in part(page.read_text(), "TU: GIN-GUMP")
    counts = {row[1].strip(): row for line in page.read_text().splitlines() if len(row := line.split("|")) > 8}
    assert [cell.strip() for cell in counts["[TU: GCN-GUMP](#tu-gcn-gump)"][2:9]] == ["0", "0", "0", "0", "0", "0", "1"]
    assert [cell.strip() for cell in counts["[TU: GIN-GUMP](#tu-gin-gump)"][2:9]] == ["1", "0", "1", "0", "0", "0", "0"]


def test_a_number_of_which_runs_are_missing_counts_for_no_verdict(runs: Any, tmp_path: Path) -> None:
    found = runs([0.8, 0.9], published=PUBLISHED, settings={"title": "GIN-GUMP", "protocol": {"kind": "fresh", "num_runs": 100}})
    text = write_summary(found, tmp_path / "results", tmp_path / "RESULTS.md").read_text()
    (row,) = re.findall(r"^\| \[TU: GIN-GUMP\]\(#tu-gin-gump\) +\|(.*)$", text, flags=re.MULTILINE)
    assert [cell.strip() for cell in row.split("|")[:7]] == ["1", "0", "0", "0", "0", "1", "0"]


def test_searches_name_their_best_points_by_validation_and_no_number_of_a_test_set(page: Path) -> None:
    text = part(page.read_text(), "Searches")
    [row] = [line for line in text.splitlines() if "`mutag_gin_gump`" in line]
    assert [cell.strip() for cell in row.split("|")[1:7]] == ["MUTAG", "GIN-GUMP", "`mutag_gin_gump`", "loss", "6 of 7", "12"]
    assert "Not run yet: search/nci1_gin_gump." in text
    best = part((page.parent / "results/search/REPORT.md").read_text(), "mutag_gin_gump")
    assert re.findall(r"train\.lr=(\d)", best) == ["1", "3", "4", "5", "2"]
    assert best.strip().startswith("GIN-GUMP on MUTAG, by *loss*: ")
    written = [path for path in page.parent.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert all("42.42" not in path.read_text() and "0.4242" not in path.read_text() for path in written)


def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^## (.*)$", text, flags=re.MULTILINE)}
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert len(links) > 8
    for link in links:
        assert link[1:] in headings if link.startswith("#") else (page.parent / link).is_file(), link
    assert set(re.findall(r"\[\^(\d+)\](?!:)", text)) == set(re.findall(r"^\[\^(\d+)\]:", text, flags=re.MULTILINE))
    assert "\n\n\n" not in text
    assert not re.search(r"\b(nan|None)\b(?! published)", text)


def test_links_are_relative_to_the_summary(records: list[Record], tmp_path: Path) -> None:
    page = write_summary(records, tmp_path / "a/results", tmp_path / "b/c/all.md")
    assert "(../../a/results/tu/REPORT.md)" in page.read_text()


def test_the_same_records_give_the_same_bytes_in_any_order(
    page: Path, records: list[Record], planned: list[Record], tmp_path: Path
) -> None:
    again = write_summary(records[::-1], tmp_path / "again/results", tmp_path / "again/RESULTS.md", planned)
    files = [path.relative_to(tmp_path) for path in [page, *(tmp_path / "results").rglob("*")] if path.is_file()]
    for file in files:
        assert (tmp_path / file).read_bytes() == (again.parent / file).read_bytes(), file


def test_runs_that_diverged_are_counted_and_not_listed(runs: Any, tmp_path: Path) -> None:
    records = runs([0.8, 0.9, None])
    records[2].status, records[2].note = "diverged", "epoch 3: the loss is nan"
    text = write_summary(records, tmp_path / "results", tmp_path / "RESULTS.md").read_text()
    assert "3 (1 diverged)" in text
    assert "Run 2" not in text


def test_searches_alone_make_a_page(tmp_path: Path) -> None:
    text = write_summary(search("train.lr=1", 0.9), tmp_path / "results", tmp_path / "RESULTS.md").read_text()
    assert "## Searches" in text
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["search"]


def test_no_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'records' must hold at least one record \(got none\)"):
        write_summary([], tmp_path / "results", tmp_path / "RESULTS.md")


def test_a_section_of_several_methods_has_all_of_them_and_others_have_none(runs: Any, tmp_path: Path) -> None:
    [section] = [section for section in SECTIONS if len(section.methods) == 2]
    found = [
        record
        for title in ("GIN-GUMP", "GIN", *section.methods)
        for record in runs([0.8, 0.9], name=f"tu/{title}", settings={"title": title})
    ]
    text = write_summary(found, tmp_path / "results", tmp_path / "RESULTS.md", []).read_text()
    parts = {heading: part(text, heading) for heading in ("TU: GIN-GUMP", section.heading, "TU: the other systems")}
    of = {heading: [method for method in section.methods if f"| {method} " in page] for heading, page in parts.items()}
    assert of == {"TU: GIN-GUMP": [], section.heading: list(section.methods), "TU: the other systems": []}
    assert "| GIN " in parts["TU: the other systems"] or "method GIN" in parts["TU: the other systems"]
