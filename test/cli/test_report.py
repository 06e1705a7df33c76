import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_configs import tiny_tables, write_toml

from gump.record import Record, load_records

Call = Callable[..., Any]


def test_configurations_become_records_and_records_a_page(gump: Call, config: Path, tmp_path: Path) -> None:
    result = gump("run", config, "--device", "cpu")
    assert result.exit_code == 0, result.output
    header, row = (line.split("\t") for line in result.stdout.splitlines())
    columns = ["configuration", "set", "runs", "measure", "selected by", "test", "by loss", "by metric", "last", "published"]
    assert header == columns
    assert (row[:4], row[-1]) == (["fake/tiny", "", "2", "accuracy"], "86.72")
    records = load_records("records")
    assert [record.index for record in records] == [0, 1]
    means = [100 * sum(record.results[rule]["test"] for record in records) / 2 for rule in ("loss", "metric", "last")]
    assert row[4] == "loss"
    assert [float(cell) for cell in row[5:9]] == pytest.approx([means[0], *means], abs=1e-2), "in percent"
    page = gump("report", "records", "--out", "page")
    assert page.exit_code == 0, page.output
    [markdown] = Path("page").glob("*.md")
    assert markdown.read_text().strip() in page.stdout
    assert "86.72 ± 1.53" in page.stdout
    assert f"written to {markdown}" in page.stderr


def test_a_summary_of_all_records_names_what_was_not_run(gump: Call, config: Path, tmp_path: Path) -> None:
    assert gump("run", config, "--device", "cpu").exit_code == 0
    write_toml(config.parent / "left.toml", tiny_tables(published={"value": 50.0}, sweep={'"model.num_layers"': [1, 2]}))
    made = gump("report", "records", "--out", "results", "--summary", "RESULTS.md", "--configs", config.parents[1])
    assert made.exit_code == 0, made.output
    text = Path("RESULTS.md").read_text()
    assert text.strip() in made.stdout
    assert "(results/fake/REPORT.md)" in text
    assert Path("results/fake/REPORT.md").is_file()
    assert "86.72 ± 1.53" in text
    assert re.search(r"Not run yet: \*left\* on \w+\.", text)
    refused = gump("report", "records", "--summary", "RESULTS.md", "--configs", "nowhere")
    assert refused.exit_code == 1
    assert "'--configs' must be a folder of configurations (got 'nowhere', which is none)" in refused.output
    refused = gump("report", "records", "--summary", "results")
    assert "'--summary' must be a file (got 'results', which is a folder)" in refused.output


@pytest.mark.slow
def test_five_splits_of_mutag_stand_beside_the_published_number(gump: Call, data_root: Path) -> None:
    path = Path(__file__).parents[2] / "configs/tu/mutag_gin_gump.toml"
    made = gump("run", path, "--splits", "0-4", "--device", "cpu", "--set", "train.epochs=2")
    assert made.exit_code == 0, made.output
    assert [(record.index, len(record.test_index)) for record in load_records("records")] == [(i, 20) for i in range(5)]
    page = gump("report")
    assert page.exit_code == 0, page.output
    row = next(line for line in page.stdout.split("### Every number")[1].splitlines() if line.startswith("| MUTAG"))
    cells = [cell.strip() for cell in row.split("|")]
    assert (cells[1], cells[2].partition("[")[0], *cells[3:5]) == ("MUTAG", "GIN-GUMP", "train.epochs=2", "5")
    assert "86.72 ± 1.53" in cells


def test_the_command_of_the_report_runs_the_row_again(gump: Call, tmp_path: Path) -> None:
    path = write_toml(tmp_path / "my files/tiny.toml", tiny_tables(protocol={"num_runs": 5}, model={"dropout": 0.2}))
    settings = ["--set", f"train.lr={0.01 / 3}", "--set", "model.norm=none", "--set", "train.epochs=2"]
    first = gump("run", path, "--device", "cpu", "--splits", "3,0,1", "--replicas", "2", *settings)
    assert first.exit_code == 0, first.output
    page = gump("report", "records", "--out", "page")
    commands = [shlex.split(line) for line in page.stdout.splitlines() if line.startswith("gump run ")]
    assert len(commands) == 2, "one for the group of two and one for the run alone"
    for command in commands:
        again = gump(*command[1:])
        assert again.exit_code == 0, again.output
    pair = [{path.relative_to(root): result(path) for path in Path(root).rglob("*.json")} for root in ("records", "out/again")]
    assert pair[0] == pair[1]
    assert len(pair[0]) == 3


def result(path: Path) -> tuple[Any, ...]:
    """What must repeat of a record."""
    record = Record.load(path)
    return record.settings, record.history, record.predictions, record.provenance["side_by_side_with"]
