import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import gump.record
from gump.experiment.config import load_config
from gump.record import Record
from gump.report.comparisons import comparisons
from gump.report.figure import save_figure
from gump.report.figures import FIGURES, ablation, as_json, depth, has_content, introduction, load_data, transfer
from gump.report.figures.jacobian import medians

ROOT = Path(__file__).parents[3]


@pytest.fixture
def every(all_records: list[Record], measured: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The data of every figure."""
    found = {name: {"figure": name, **kind.collect(all_records, measured)} for name, kind in FIGURES.items()}
    return {name: json.loads(as_json(data)) for name, data in found.items()}


SCRIPT = """
import sys, types
sys.modules["gump"] = types.ModuleType("gump")  # in place of the package, which imports torch
sys.modules["gump"].__path__ = [sys.argv[1]]
from gump.report.comparisons import comparisons
from gump.report.figure import save_figure
from gump.report.figures import FIGURES, load_data
for name in FIGURES:
    save_figure(FIGURES[name].draw(load_data(f"{sys.argv[2]}/{name}.json", name)), f"{sys.argv[2]}/{name}", pdf=True)
assert "torch" not in sys.modules, "a figure needs no model"
"""


def test_every_figure_is_drawn_again_byte_for_byte_by_another_process(every: dict[str, Any], tmp_path: Path) -> None:
    for name, data in every.items():
        assert len(save_figure(FIGURES[name].draw(data), tmp_path / "here" / name, pdf=True)) == 2
        there = tmp_path / "there" / f"{name}.json"
        there.parent.mkdir(exist_ok=True)
        there.write_text(as_json(data))
    arguments = [str(Path(gump.record.__file__).parent), str(tmp_path / "there")]
    subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=True, env={**os.environ, "PYTHONHASHSEED": "12345"})
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes(), path.name
        assert b"CreationDate" not in path.read_bytes()
        assert b"dc:date" not in path.read_bytes()


def test_drawing_leaves_the_data_alone_and_writes_letters_as_paths(every: dict[str, Any], tmp_path: Path) -> None:
    for name, data in every.items():
        before = as_json(data)
        path = save_figure(FIGURES[name].draw(data), tmp_path / name)[0]
        assert as_json(data) == before
        ElementTree.fromstring(path.read_text())
        assert "<text" not in path.read_text()


@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"ablation"}))
def test_no_two_lines_of_a_panel_look_the_same_in_gray(every: dict[str, Any], name: str) -> None:
    for axes in FIGURES[name].draw(every[name]).axes:
        lines = [line for line in axes.lines if not line.get_label().endswith("published") and line.get_label() != "chance"]
        looks = {(str(line.get_linestyle()), line._unscaled_dash_pattern[1], line.get_marker()) for line in lines}
        assert len(looks) == len(lines) > 1
        assert "$" not in "".join(tick.get_text() for tick in axes.get_yticklabels())


def test_no_two_bars_of_a_panel_look_the_same_in_gray(every: dict[str, Any]) -> None:
    for axes in FIGURES["ablation"].draw(every["ablation"]).axes:
        assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in axes.patches}) == len(axes.patches) == len(ablation.PARTS)
        assert [round(bar.get_x() + bar.get_width(), 2) for bar in axes.patches] == [
            round(bar["mean"], 2)
            for panel in every["ablation"]["rows"][0]
            for bar in panel["bars"]
            if panel["title"] == axes.get_title()
        ]


def test_the_published_points_of_the_paper_are_marks(every: dict[str, Any]) -> None:
    [axes] = FIGURES["depth"].draw(every["depth"]).axes
    marks = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}
    assert marks["GCN-GUMP, published"] == ([2, 10], [75.88, 77.97])
    assert marks["FoSR, published"] == ([2, 10], [66.06, 52.86])


def test_the_introduction_has_each_system_with_the_weights_of_the_other(every: dict[str, Any], measured: dict[str, Any]) -> None:
    left, right = every["introduction"]["rows"][0]
    assert [line["name"] for line in left["lines"]] == ["GUMP", "GCN", "GCN, He weights", "GUMP, Glorot weights"]
    assert [line["name"] for line in right["lines"]] == ["GUMP", "GCN"]
    measured["rows"][0][1]["lines"][2]["mean"] = [0.0, 7.0]  # GCN with the weights of He et al.
    [[left, _]] = introduction.collect([], measured)["rows"]
    assert left["lines"][2]["mean"] == [0.0, 7.0]


def test_the_jacobian_that_is_drawn_is_the_median_over_seeds(measured: dict[str, Any]) -> None:
    norms = {
        "mean": [0.0, 4.0, 2e-13 / 3],
        "low": [0.0, 1.0, 1e-20],
        "high": [0.0, 9.0, 2e-13],
    }  # 0, 0, 0; 1, 2, 9; and one far ahead
    for panel in measured["rows"][0]:
        panel["lines"] = [{"name": name, "x": [2, 10, 20], **norms} for name in ("GUMP", "GCN")]
    drawn = FIGURES["jacobian"].draw(measured).axes[0].lines[0].get_ydata()
    assert math.isnan(drawn[0])
    assert drawn[1:].tolist() == [pytest.approx(2), 1e-20], "never outside of what was measured"
    left = FIGURES["introduction"].draw(introduction.collect([], measured)).axes[0]
    assert all(line.get_ydata()[1] == pytest.approx(2) for line in left.lines)
    assert "median" in left.get_ylabel()
    for panel in measured["rows"][0]:
        panel["about"]["seeds"], panel["lines"][0]["median"] = [0, 1, 2, 3], [0.0, 3.0, 3.0]
    with pytest.raises(ValueError, match=r"'data' must have the median of every line \(got none for GCN\)"):
        FIGURES["jacobian"].draw(measured)
    for panel in measured["rows"][0]:
        panel["lines"][1]["median"] = [0.0, 1.0, 1.0]
    assert FIGURES["jacobian"].draw(measured).axes[0].lines[0].get_ydata()[1:].tolist() == [3, 3], "or as it was measured"


def test_titles_of_controls_name_the_systems_that_have_none(measured: dict[str, Any]) -> None:
    figure = FIGURES["jacobian"].draw(measured)
    assert [axes.get_title().split("\n")[1:] for axes in figure.axes] == [[], *[["(not for DRew, A-DGN, UnitaryGCN)"]] * 2]
    assert figure.get_suptitle() == "NCI1, graph 0, from vertex 0 to 4: distance 10"
    measured["rows"][0][0]["about"] |= {"dataset": "MUTAG", "distance": None}
    assert FIGURES["jacobian"].draw(measured).get_suptitle() == "MUTAG, graph 0, from vertex 0 to 4: no path between them"


def test_nothing_is_drawn_of_nothing_but_all_of_it_is_missed() -> None:
    for kind in FIGURES.values():
        data = kind.collect([], None)
        assert not has_content(data)
        assert list(data.get("missing", {})) == list(kind.configs)


@pytest.mark.parametrize("config", sorted({config for kind in FIGURES.values() for config in kind.configs}))
def test_the_configurations_are_there_and_sweep_what_the_figures_expect(config: str) -> None:
    configs = load_config(ROOT / "configs" / f"{config}.toml")
    lines = {w.config: w for w in depth.WANTED}
    lines |= {w.config: w for task in transfer.TASKS for suffix in transfer.FEATURES for w in transfer._wanted(task, suffix)}
    if config in lines:
        along = [dict(part.split("=") for part in c.variant.split(",")) for c in configs]
        assert {tuple(settings) for settings in along} == {lines[config].along}
        assert tuple(int(settings[lines[config].along[0]]) for settings in along) == lines[config].values
        assert configs[0].settings["title"].startswith(lines[config].name)
    else:
        [only] = configs
        dataset, _, part = config.removeprefix("ablation/").partition("_")
        assert (only.variant, only.settings["title"]) == ("", ablation.PARTS[part])
        assert only.settings["dataset"]["name"] == ablation.DATASETS[dataset]


def test_no_configuration_of_these_folders_is_left_out_of_the_figures() -> None:
    drawn = {config for kind in FIGURES.values() for config in kind.configs}
    for folder in ("transfer", "depth", "ablation"):
        assert {f"{folder}/{path.stem}" for path in (ROOT / "configs" / folder).glob("*.toml")} <= drawn


def test_the_ablation_differs_from_the_whole_in_one_part() -> None:
    models = {part: load_config(ROOT / f"configs/ablation/nci1_{part}.toml")[0].settings["model"] for part in ablation.PARTS}
    changes = {part: {k: v for k, v in model.items() if v != models["full"][k]} for part, model in models.items()}
    assert changes == {
        "full": {},
        "conv_gin": {"conv": "gin"},
        "conv_graph": {"conv": "graph"},
        "no_projection": {"coin": "scores"},
        "no_weights": {"coin": "ones"},
        "no_base": {"base": None},
    }


def test_the_measured_jacobians_say_what_the_page_on_figures_says() -> None:
    panels = {panel["weights"]: panel for panel in load_data(ROOT / "figures/jacobian.json", "jacobian")["rows"][0]}
    lines = {weights: {line["name"]: line for line in medians(panel)} for weights, panel in panels.items()}
    depths = lines["own"]["GUMP"]["x"]
    at = {w: {n: dict(zip(depths, line["median"], strict=True)) for n, line in by_name.items()} for w, by_name in lines.items()}
    assert (panels["own"]["about"]["distance"], depths[2], depths[-1]) == (10, 10, 100)
    gump = [at["own"]["GUMP"][depth] for depth in depths[2:]]
    assert (round(min(gump), 2), round(max(gump), 2)) == (0.12, 0.38)
    decayed = [at["own"][name][100] for name in ("GCN", "DIGL", "SDRF", "FoSR", "GTR", "UnitaryGCN")]
    assert 3e-17 < min(decayed) < max(decayed) < 3e-16
    assert round(at["he"]["GCN"][100], 3) == 0.003, "the weights of He et al. keep a GCN from decaying"
    assert 3e-17 < at["glorot"]["GUMP"][100] < 3e-16, "and those of Glorot and Bengio make GUMP decay"
    ahead = {n: {depth: at["he"]["GUMP"][depth] / at["he"][n][depth] for depth in depths[2:]} for n in ("GCN", "FoSR", "GTR")}
    assert [round(ahead["GCN"][depth], -1) for depth in (10, 20)] == [5090, 80]
    assert all(10 < ahead["GCN"][depth] < 44 for depth in (30, 40, 60, 80, 100))
    for name in ("FoSR", "GTR"):
        assert at["he"][name][5] > 0 == at["he"]["GUMP"][5]
        assert all(1.2 < ahead[name][depth] < 5.7 for depth in (10, 15, 20, 30, 40, 60))
        assert all(8 < ahead[name][depth] < 20.5 for depth in (80, 100))
        assert lines["he"][name]["high"][depths.index(40)] > lines["he"]["GUMP"]["high"][depths.index(40)]
    paper = lines["own"]["GUMP (paper)"]
    assert (round(at["own"]["GUMP (paper)"][10], 3), round(paper["low"][-2], 5), round(paper["high"][-2], 1)) == (
        0.001,
        0.00005,
        0.3,
    )


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"figure": "depth"}')
    (tmp_path / "b.json").write_text("figure")
    with pytest.raises(ValueError, match=r"must be saved data of the figure 'transfer' \(got 'depth' as its 'figure'\)"):
        load_data(tmp_path / "a.json", "transfer")
    with pytest.raises(ValueError, match="is not saved data of a figure"):
        load_data(tmp_path / "b.json", "transfer")


def test_the_report_compares_the_whole_with_every_ablation_run_by_run(runs: Any) -> None:
    records = []
    for part, title in ablation.PARTS.items():
        records += runs(
            [0.7, 0.8], f"ablation/nci1_{part}", "NCI1", settings={"title": title}, predictions={"target": [0, 1], "loss": [0, 1]}
        )
    pairs = comparisons(records)
    assert set(pairs["first"]) == {"GUMP"}
    assert list(pairs["second"]) == [title for title in sorted(ablation.PARTS.values()) if title != "GUMP"]
