import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gump.experiment.figure_data
from gump.cli import app
from gump.record import Record
from gump.report.figures import FIGURES

Call = Callable[..., Any]
asked: dict[str, Any] = {}
"""What was to be measured."""

JACOBIAN = {
    "rows": [
        [
            {
                "weights": weights,
                "about": {"graph": 0, "source": 0, "target": 4, "distance": 10, "seeds": [0, 1]},
                "lines": [
                    {"name": n, "x": [2, 20], "mean": [0.0, 0.1], "median": [0.0, 0.1], "low": [0, 0.1], "high": [0, 0.2]}
                    for n in ("GUMP", "GCN")
                ],
            }
            for weights in ("own", "he", "glorot")
        ]
    ]
}


@pytest.fixture
def figure(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls the command in a folder of its own."""
    monkeypatch.setattr(gump.experiment.figure_data, "jacobian_data", lambda **settings: asked.update(settings) or JACOBIAN)
    asked.clear()
    return lambda *arguments: CliRunner().invoke(app, ["figure", *map(str, arguments)])


def train(*layers: int, config: str = "depth/nci1_gcn_gump") -> None:
    """Leaves records as a run of two splits would."""
    settings = {"dataset": {"kind": "tu", "name": "NCI1"}, "protocol": {"kind": "fresh", "num_runs": 2}}
    for depth in layers:
        for i in range(2):
            results = {"loss": {"test": 0.7 + 0.01 * i, "epoch": 1}}
            Record(config, i, settings, "accuracy", f"model.num_layers={depth}", results=results).save("records")


def files(folder: Path | str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_help_fits_a_screen_and_has_an_example(figure: Call) -> None:
    lines = figure("--help").output.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(line.strip().startswith("Example: gump figure ") for line in lines)


def test_without_a_name_all_are_listed_with_what_they_need(figure: Call) -> None:
    result = figure()
    assert result.exit_code == 0, result.output
    table = {row.split("\t")[0]: row.split("\t")[2] for row in result.stdout.splitlines()}
    assert list(table) == ["name", "introduction", "transfer", "jacobian", "depth", "ablation"]
    files = "configs/depth/nci1_gcn_gump.toml configs/depth/nci1_gcn.toml"
    assert table["introduction"] == f"gump figure jacobian --measure, gump run {files}"
    assert table["depth"] == "gump run configs/depth"
    assert table["ablation"] == "gump run configs/ablation"


@pytest.mark.parametrize("name", ["introduction", "transfer", "jacobian", "depth", "ablation"])
def test_without_records_it_says_what_makes_them(figure: Call, name: str) -> None:
    result = figure(name)
    assert result.exit_code == 1
    needed = {row.split("\t")[0]: row.split("\t")[2] for row in figure().stdout.splitlines()}[name]
    assert [line.removeprefix("made by: ") for line in result.stderr.splitlines() if line.startswith("made by")] == needed.split(
        ", "
    )
    assert f"error: there is nothing to draw in the figure '{name}'" in result.stderr
    assert not Path("out").exists()


def test_of_a_part_it_draws_what_there_is_and_says_what_is_missing(figure: Call) -> None:
    train(2, 10)
    result = figure("depth")
    assert result.exit_code == 0, result.output
    assert "missing: depth/nci1_gcn_gump: model.num_layers=4,20,50,100: no record" in result.stderr
    assert "missing: depth/nci1_gcn: no record" in result.stderr
    made_by = [line for line in result.stderr.splitlines() if line.startswith("made by: ")]
    assert made_by == ["made by: gump run configs/depth"], "of every configuration there is something to do"
    assert result.stdout.split() == [f"out/figures/depth.{ending}" for ending in ("svg", "pdf", "json")]
    data = json.loads(Path("out/figures/depth.json").read_text())
    assert [line["x"] for line in data["rows"][0][0]["lines"]] == [[2, 10]]


def test_only_what_is_missing_is_named(figure: Call) -> None:
    train(2, 4, 10, 20, 50, 100)
    result = figure("depth")
    assert result.exit_code == 0, result.output
    names = ["nci1_gcn_gump_no_norm", "nci1_gcn_gump_residual", "nci1_gcn", "nci1_gcn_fosr"]
    assert [line for line in result.stderr.splitlines() if line.startswith("missing: ")] == [
        f"missing: depth/{name}: no record" for name in names
    ]
    assert result.stderr.splitlines()[-1] == f"made by: gump run {' '.join(f'configs/depth/{name}.toml' for name in names)}"


def test_a_folder_is_named_where_figures_draw_all_of_it() -> None:
    root = Path(__file__).parents[2] / "configs"
    drawn = {config for kind in FIGURES.values() for config in kind.configs}
    for folder in {config.split("/")[0] for config in drawn}:
        assert {f"{folder}/{path.stem}" for path in (root / folder).glob("*.toml")} == {
            c for c in drawn if c.startswith(f"{folder}/")
        }


def test_saved_data_gives_the_same_files_and_needs_no_records(figure: Call) -> None:
    train(2, 4, 10, 20, 50, 100)
    assert figure("depth", "--out", "a", "--png").exit_code == 0
    result = figure("depth", "--data", "a/depth.json", "--records", "none", "--out", "b", "--png")
    assert result.exit_code == 0, result.output
    assert set(files("a")) == {"depth.svg", "depth.pdf", "depth.png", "depth.json"}
    assert files("a") == files("b")


def test_jacobians_are_measured_once_and_drawn_as_often_as_wanted(figure: Call) -> None:
    result = figure("jacobian", "--measure", "--seeds", "2")
    assert result.exit_code == 0, result.output
    saved = json.loads(Path("figures/jacobian.json").read_text())
    assert saved == {"figure": "jacobian", "command": "gump figure jacobian --measure --seeds 2", **JACOBIAN}
    assert figure("jacobian", "--out", "b").exit_code == 0
    assert files("out/figures") == files("b")
    assert figure("jacobian", "--data", "figures/jacobian.json", "--out", "c").exit_code == 0
    assert files("b") == files("c")
    half = figure("introduction")
    assert half.exit_code == 0, half.output
    assert "missing: depth/nci1_gcn: no record" in half.stderr
    assert "jacobian" not in half.stderr


def test_a_pair_of_ones_own_is_measured_and_leaves_that_of_the_paper_alone(figure: Call) -> None:
    options = ["--dataset", "MUTAG", "--index", 7, "--pair", 3, 5]
    result = figure("jacobian", "--measure", *options)
    assert result.exit_code == 0, result.output
    assert {key: asked[key] for key in asked if key != "say"} == {"num_seeds": 3, "dataset": "MUTAG", "index": 7, "pair": (3, 5)}
    saved = json.loads(Path("out/figures/jacobian.json").read_text())
    assert saved["command"] == "gump figure jacobian --measure --seeds 3 --dataset MUTAG --index 7 --pair 3 5"
    assert not Path("figures").exists()
    assert figure("jacobian", "--measure", "--distance", 4, "--seeds", 1, "--jacobian", "own.json").exit_code == 0
    assert json.loads(Path("own.json").read_text())["command"] == "gump figure jacobian --measure --seeds 1 --distance 4"
    assert (asked["num_seeds"], asked["distance"], "pair" in asked) == (1, 4, True), "what the first call left"


def test_the_introduction_says_what_is_wrong_with_its_data(figure: Call) -> None:
    train(2, 4, config="depth/nci1_gcn")
    assert figure("introduction").exit_code == 0
    data = json.loads(Path("out/figures/introduction.json").read_text())
    Path("one.json").write_text(json.dumps(data | {"rows": [data["rows"][0][1:]]}))
    result = figure("introduction", "--data", "one.json")
    assert result.exit_code == 1
    assert "error: the data of the figure 'introduction' must have one row of two panels (got 1)" in result.stderr


ALONE = "must come with '--measure' (got it alone); without, what was measured before is drawn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pie"], "'name' must be one of introduction, transfer, jacobian, depth, ablation (got 'pie')"),
        (["dpeth"], "'name' must be one of introduction, transfer, jacobian, depth, ablation (got 'dpeth'; did you mean depth?)"),
        (["depth", "--measure"], "'--measure' is for figures with Jacobians"),
        (["depth", "--jacobian", "x.json"], "'--jacobian' is for figures with Jacobians"),
        (["depth", "--seeds", 1], "'--seeds' is for figures with Jacobians"),
        (["jacobian", "--seeds", 1], f"'--seeds' {ALONE}"),
        (["jacobian", "--jacobian", "x.json", "--pair", 0, 1], f"'--pair' {ALONE}"),
        (["jacobian", "--index", 0], f"'--index' {ALONE}"),
        (["introduction", "--measure", "--distance", 3], "'--distance' is for the figure jacobian"),
        (["jacobian", "--measure", "--distance", 3, "--pair", 0, 1], "'--pair' and '--distance' exclude each other"),
        (["jacobian", "--measure", "--data", "x.json"], "'--measure' and '--data' exclude each other"),
        (["depth", "--data", "none.json"], "none.json"),
        (["depth", "--data", "other.json"], "other.json must be saved data of the figure 'depth' (got 'jacobian' as its 'figure')"),
    ],
)
def test_refusals_are_one_line(figure: Call, arguments: list[str], message: str) -> None:
    Path("other.json").write_text('{"figure": "jacobian"}')
    result = figure(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
