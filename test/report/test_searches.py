from pathlib import Path

from gump.record import Record
from gump.report.searches import searches


def runs(name: str, variant: str, *vals: float) -> list[Record]:
    settings = {"dataset": {"kind": "tu", "name": "MUTAG"}, "title": "GIN-GUMP", "train": {"select": "last"}}
    return [
        Record(
            f"search/{name}",
            i,
            settings,
            "accuracy",
            variant,
            results={"last": {"epoch": 1, "val": val, "val_loss": 0.5, "test": 0.42}},
        )
        for i, val in enumerate(vals)
    ]


def test_every_search_is_a_row_with_its_best_point_and_a_part_of_the_page(tmp_path: Path) -> None:
    records = runs("b", "train.lr=1", 0.5, 0.7) + runs("b", "train.lr=2", 0.8, 1.0) + runs("a", "", 0.25, 0.75)
    text = "\n\n".join(searches(records, tmp_path / "results", tmp_path))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| MUTAG")]
    assert [row[2:6] for row in rows] == [["`a`", "last", "1", "2"], ["`b`", "last", "2", "4"]]
    assert [row[6].split(" ± ")[0] for row in rows] == ["50.00", "90.00"]
    assert "[results/search/REPORT.md](results/search/REPORT.md)" in text
    page = (tmp_path / "results/search/REPORT.md").read_text()
    assert page.index("## a") < page.index("as it is") < page.index("## b") < page.index("train.lr=2") < page.index("train.lr=1")
    assert "42" not in text + page, "no test set has a say in a choice"


def test_where_nothing_was_searched_there_is_neither_part_nor_page(tmp_path: Path) -> None:
    assert list(searches([], tmp_path, tmp_path)) == []
    plan = Record("search/a", 0, {"dataset": {"kind": "tu", "name": "MUTAG"}}, "", "train.lr=1")
    assert "Not run yet: search/a." in list(searches([], tmp_path, tmp_path, [plan]))
    assert not list(tmp_path.iterdir())
