import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from gump.experiment.find_graphs import BENCHMARKS
from gump.experiment.listing import TABLES

Call = Callable[..., Any]


@pytest.mark.parametrize("what", [name for name in TABLES if name != "datasets"])
def test_lists_are_tables_of_plain_text(gump: Call, config: Path, what: str) -> None:
    result = gump("list", what)
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert {len(row) for row in rows} == {2}
    assert "\x1b" not in result.stdout
    names = {row[0] for row in rows}
    some = {"models": "GUMP", "transforms": "AddLineGraph", "protocols": "fresh", "configs": "configs/fake/tiny.toml"}
    assert some[what] in names
    assert all(row[1] for row in rows)


def test_a_dataset_that_is_not_here_is_a_row_that_says_how_to_get_it_and_one_that_is_damaged_what_is_wrong(
    gump: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data/PROTEINS/raw").mkdir(parents=True)
    (tmp_path / "data/PROTEINS/raw/PROTEINS_A.txt").write_text("1, 2")
    monkeypatch.setenv("GUMP_DATA", str(tmp_path / "data"))
    asked: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *address, **_: asked.append(address))
    result = gump("list")
    assert result.exit_code == 0, result.output
    assert not asked, "a list downloads nothing"
    header, *rows = (line.split("\t") for line in result.stdout.splitlines() if line.count("\t") > 5)
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert set(table) == set(BENCHMARKS)
    for name, row in table.items():
        assert row["num_graphs"] == ""
        assert (row["not here"] == "", row["what is wrong"] == "") == ((True, False) if name == "PROTEINS" else (False, True)), name
    where = tmp_path / "data/MUTAG/raw"
    assert table["MUTAG"]["not here"].startswith(
        f"'MUTAG' is not in {tmp_path / 'data'}; put its raw files under {where}; `gump run`"
    )
    assert "graph_indicator.txt is missing" in table["PROTEINS"]["what is wrong"]
    assert all(f"\n{word}\t" in result.stdout for word in ("GUMP", "AddLineGraph", "fresh"))


def test_statistics_are_those_of_the_data(gump: Call, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gump.experiment import listing

    monkeypatch.setattr(listing, "BENCHMARKS", {"MUTAG": listing.BENCHMARKS["MUTAG"]})
    header, row = (line.split("\t") for line in gump("list", "datasets").stdout.splitlines())
    table = dict(zip(header, row, strict=True))
    assert (table["dataset"], table["num_graphs"], table["avg_nodes"], table["num_targets"]) == ("MUTAG", "188", "17.93", "2")
    assert (table["not here"], table["what is wrong"]) == ("", "")


def test_a_list_says_which_dataset_it_reads(gump: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUMP_DATA", str(tmp_path / "nothing"))
    console = sys.modules["gump.cli.console"]
    quick = gump("list", "datasets")
    assert quick.stderr == "", "what takes no time is not told"
    monkeypatch.setattr(console, "TRACKED_S", 0.0)
    told = gump("list", "datasets")
    assert told.stdout == quick.stdout
    assert told.stderr.splitlines() == [f"{i} of {len(BENCHMARKS)} datasets; {name}" for i, name in enumerate(BENCHMARKS)]
    shown, real = StringIO(), console.Console
    monkeypatch.setattr(
        console, "Console", lambda stderr=False: real(file=shown, force_terminal=True, width=200) if stderr else real()
    )
    assert gump("list", "datasets").stdout == quick.stdout
    assert all(name in shown.getvalue() for name in BENCHMARKS)
    assert f"3/{len(BENCHMARKS)}" in shown.getvalue()
