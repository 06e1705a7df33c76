import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend

import gump.record
from gump.report.figure import bar_figure, curve_figure, save_figure
from gump.report.page import write_report
from gump.report.style import STYLE
from gump.report.table import table

PUBLISHED = {"value": 86.72, "interval": 1.53, "others": [{"value": 87.11, "interval": 7.61}]}


@pytest.fixture
def bars(runs: Any) -> pd.DataFrame:
    records = runs([0.8, 0.9], published=PUBLISHED) + runs([0.5], name="tu/mutag_gin")
    return table(records + runs([0.3, 0.4], name="tu/enzymes_gin", dataset="ENZYMES"))


@pytest.fixture
def points(runs: Any) -> pd.DataFrame:
    return table(
        [
            record
            for n in (4, 6, 8)
            for method, values in (("gcn", [0.9, 0.5, 0.1]), ("gcn_gump", [1.0, 1.0, 1.0]))
            for record in runs(
                values,
                name=f"transfer/ring_{method}",
                dataset={"kind": "transfer", "name": "Ring", "num_nodes": n, "num_classes": 5},
                variant=f"dataset.num_nodes={n}",
            )
        ]
    )


def _assert_inside(legend: Legend, figure: Figure) -> None:
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0
    assert box.y1 <= min(axes.get_window_extent().y0 for axes in figure.axes)


def test_files_are_the_same_byte_for_byte(bars: pd.DataFrame, points: pd.DataFrame, tmp_path: Path) -> None:
    first = save_figure(bar_figure(bars), tmp_path / "a" / "bars", bars, pdf=True, png=True)
    first += save_figure(curve_figure(points, "dataset.num_nodes", chance=20), tmp_path / "a" / "curve.svg", points, png=True)
    again = save_figure(bar_figure(bars), tmp_path / "b" / "bars", bars, pdf=True, png=True)
    again += save_figure(curve_figure(points, "dataset.num_nodes", chance=20), tmp_path / "b" / "curve.svg", points, png=True)
    assert [path.name for path in first] == ["bars.svg", "bars.pdf", "bars.png", "bars.csv", "curve.svg", "curve.png", "curve.csv"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


SCRIPT = """
import sys, types
sys.modules["gump"] = types.ModuleType("gump")  # in place of the package, which imports torch
sys.modules["gump"].__path__ = [sys.argv[1]]
import gump.report
from gump.record import load_records
assert "matplotlib" not in sys.modules, "it is imported only to draw"
gump.report.write_report(load_records(sys.argv[2]), sys.argv[3])
assert not {"torch", "torch_geometric"} & set(sys.modules), "a report needs no model"
"""


def test_another_process_without_torch_writes_the_same_bytes(runs: Any, tmp_path: Path) -> None:
    for record in runs([0.8, 0.9], published=PUBLISHED) + runs([0.5, 0.4], name="tu/mutag_gin"):
        record.save(tmp_path / "records")
    arguments = [str(Path(gump.record.__file__).parent), str(tmp_path / "records"), str(tmp_path / "there")]
    subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=True, env={**os.environ, "PYTHONHASHSEED": "12345"})
    write_report(tmp_path / "records", tmp_path / "here")
    files = [path for path in (tmp_path / "here").rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        assert path.read_bytes() == (tmp_path / "there" / path.relative_to(tmp_path / "here")).read_bytes(), path.name


def test_svg_has_paths_for_letters_and_no_date(bars: pd.DataFrame, tmp_path: Path) -> None:
    path = save_figure(bar_figure(bars), tmp_path / "bars")[0]
    text = path.read_text()
    ElementTree.fromstring(text)
    assert "<text" not in text
    assert "dc:date" not in text


def test_data_is_saved_beside_the_figure(bars: pd.DataFrame, tmp_path: Path) -> None:
    path = save_figure(bar_figure(bars), tmp_path / "bars", bars[["dataset", "loss_mean"]])[-1]
    assert path.read_text() == "dataset,loss_mean\nENZYMES,35\nMUTAG,50\nMUTAG,85\n"


def test_bars_show_every_number_and_its_intervals(bars: pd.DataFrame) -> None:
    panels = bar_figure(bars).axes
    assert [axes.get_title() for axes in panels] == ["ENZYMES", "MUTAG"]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == ["gin", "gin_gump"]
    drawn = sorted({round(float(line.get_xdata()[0]), 2) for line in panels[1].lines if len(line.get_xdata()) == 1})
    assert {50.0, 85.0, 86.72, 87.11} <= set(drawn)
    widths = {round(float(abs(s[1][0] - s[0][0])) / 2, 2) for c in panels[1].collections for s in c.get_segments()}
    row = bars[bars["method"] == "gin_gump"].iloc[0]
    assert {1.53, 7.61, round(row["loss_interval"], 2), round(row["loss_corrected"], 2)} == widths


@pytest.mark.parametrize("name", ["", ", " + 12 * "a name that goes on, "])
def test_names_of_rows_leave_room_for_the_numbers(bars: pd.DataFrame, name: str) -> None:
    figure = bar_figure(bars[bars["dataset"] == "MUTAG"].assign(method=lambda frame: frame["method"] + name))
    FigureCanvasAgg(figure).draw()
    [axes], [legend] = figure.axes, figure.legends
    names = sorted((box.y0, box.y1, box.x0) for box in (label.get_window_extent() for label in axes.get_yticklabels()))
    assert axes.get_window_extent().width > 100
    assert min(left for _, _, left in names) >= 0
    assert all(below[1] <= above[0] for below, above in itertools.pairwise(names))
    _assert_inside(legend, figure)


def test_curves_show_means_and_bands_and_differ_without_color(points: pd.DataFrame) -> None:
    axes = curve_figure(points, "dataset.num_nodes", chance=20).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {"gcn", "gcn_gump", "chance"}
    assert lines["gcn"].get_xdata().tolist() == [4, 6, 8]
    assert lines["gcn"].get_ydata().tolist() == pytest.approx([50, 50, 50])
    assert lines["chance"].get_ydata() == [20, 20]
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines.values()}) == 3
    assert len({line.get_linestyle() for line in lines.values()}) == 3
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0, 100)  # 50 ± 99 is cut where accuracy ends


@pytest.mark.parametrize("name", ["GCN", "GCN-GUMP with a name of middling length", "GCN-GUMP, " + 12 * "a name that goes on, "])
def test_no_name_is_cut_off_and_none_takes_the_room_of_the_panels(points: pd.DataFrame, name: str) -> None:
    figure = curve_figure(points.assign(line=[f"{name} {line}" for line in points["line"]]), "dataset.num_nodes", chance=20)
    FigureCanvasAgg(figure).draw()
    [legend] = figure.legends
    _assert_inside(legend, figure)
    assert all(axes.get_window_extent().height > 100 for axes in figure.axes)


def test_curves_over_a_wide_range_have_a_logarithmic_axis(runs: Any) -> None:
    frame = table([r for n in (2, 8, 64) for r in runs([0.5, 0.6], variant=f"model.num_layers={n}")])
    axes = curve_figure(frame, "model.num_layers").axes[0]
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2", "8", "64"]
    assert [line.get_label() for line in axes.lines] == ["gin_gump"]


def test_many_datasets_are_panels_in_rows(runs: Any) -> None:
    names = [f"D{i}" for i in range(4)]
    records = [r for d in names for n in (2, 4) for r in runs([0.5], f"x/{d.lower()}_gin", d, variant=f"model.num_layers={n}")]
    figure = curve_figure(table(records), "model.num_layers")
    assert [axes.get_title() for axes in figure.axes] == names
    assert len({axes.get_subplotspec().rowspan.start for axes in figure.axes}) == 2


def test_style_outside_is_left_alone(bars: pd.DataFrame, tmp_path: Path) -> None:
    import matplotlib

    before = {key: matplotlib.rcParams[key] for key in STYLE}
    save_figure(bar_figure(bars), tmp_path / "bars")
    assert {key: matplotlib.rcParams[key] for key in STYLE} == before


def test_refusals(points: pd.DataFrame, bars: pd.DataFrame) -> None:
    with pytest.raises(
        ValueError, match=r"'x' must be a setting that was swept, one of \['dataset.num_nodes'\] \(got 'model.depth'\)"
    ):
        curve_figure(points, "model.depth")
    with pytest.raises(ValueError, match=r"'frame' must be rows of gump.report.table .* 'loss_mean'"):
        bar_figure(bars.drop(columns="loss_mean"), "loss")
    with pytest.raises(ValueError, match="must have a row"):
        bar_figure(bars.iloc[:0])
