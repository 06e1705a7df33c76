import math
from typing import Any

import pytest

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


def test_panels_without_lines_and_rows_without_panels_are_left_out() -> None:
    empty = panel([]) | {"lines": []}
    figure = line_figure([[empty, panel([1, 2, 3], title="b")], [empty, empty], [panel([1, 2, 3]), panel([1, 2, 3])]])
    assert [axes.get_title() for axes in figure.axes] == ["b", "a", "a"]
    with pytest.raises(ValueError, match="'rows' must have a panel with a line"):
        line_figure([[empty]])
