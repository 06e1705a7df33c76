import math
from typing import Any

import pytest
from matplotlib.text import Text

from gump.report.figures.panels import line_figure


def panel(mean: list[float | None], **extra: Any) -> dict[str, Any]:
    line = {"name": "GCN", "x": [2, 4, 8], "mean": mean, "low": [None] * 3, "high": [None] * 3}
    return {"title": "a", "x": "layers", "y": "value", "lines": [line], **extra}


def test_zero_has_no_place_on_an_axis_of_magnitudes_and_is_not_drawn() -> None:
    [axes] = line_figure([[panel([0.0, 1e-3, 1.0], log=True)]]).axes
    assert [math.isnan(y) for y in axes.lines[0].get_ydata()] == [True, False, False]
    [axes] = line_figure([[panel([0.0, 1e-3, None])]]).axes
    assert [math.isnan(y) for y in axes.lines[0].get_ydata()] == [False, False, True]


def test_magnitudes_are_labeled_in_plain_letters() -> None:
    figure = line_figure([[panel([1e-20, 1e-10, 1e8], log=True, limits=(1e-20, 1e8))]])
    figure.canvas.draw()
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert "10⁻²⁰" in labels or "10⁻¹⁸" in labels
    assert figure.axes[0].get_ylim() == (1e-20, 1e8)


def test_names_at_the_ends_of_lines_are_apart_and_in_the_order_of_the_lines() -> None:
    ends = {"GUMP": 1.0, "GCN": 1e-16, "GTR": 3e-16, "FoSR": 2e-16, "GIN": 1e30}
    lines = [{"name": n, "x": [2, 4], "mean": [1.0, end], "low": [None] * 2, "high": [None] * 2} for n, end in ends.items()]
    limits = (1e-20, 1e8)
    figure = line_figure([[panel([]) | {"lines": lines, "log": True, "even": True, "limits": limits, "named": True}]], height=3)
    [axes] = figure.axes
    names = {text.get_text(): text for text in axes.texts}
    assert sorted((name for name in names if name != "GIN"), key=lambda name: names[name].xyann[1]) == [
        "GCN",
        "FoSR",
        "GTR",
        "GUMP",
    ]
    assert {name: text.xy for name, text in names.items()} == {n: (4, end) for n, end in ends.items()} | {"GIN": (2, 1.0)}
    figure.draw_without_rendering()
    boxes = sorted((Text.get_window_extent(text) for text in names.values()), key=lambda box: box.y0)  # without strokes
    assert all(low.y1 <= high.y0 or low.x1 < high.x0 or high.x1 < low.x0 for i, low in enumerate(boxes) for high in boxes[i + 1 :])


def test_where_lines_coincide_their_markers_take_turns() -> None:
    line = panel([1e-3, 1e-2, 1e-1])["lines"][0]
    lines = [line | {"name": name} for name in ("GUMP", "GCN", "GTR")]
    [axes] = line_figure([[panel([]) | {"lines": lines, "log": True, "even": True, "named": True}]]).axes
    assert [line.get_markevery() for line in axes.lines] == [(0, 3), (1, 3), (2, 3)]


def test_panels_without_lines_and_rows_without_panels_are_left_out() -> None:
    empty = panel([]) | {"lines": []}
    figure = line_figure([[empty, panel([1, 2, 3], title="b")], [empty, empty], [panel([1, 2, 3]), panel([1, 2, 3])]])
    assert [axes.get_title() for axes in figure.axes] == ["b", "a", "a"]
    with pytest.raises(ValueError, match="'rows' must have a panel with a line"):
        line_figure([[empty]])
