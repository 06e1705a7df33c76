import numpy as np
import pytest

from gump.datasets.duplicates import contradicting


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1, 1, 1, 0], [True, False]),  # classes
        ([[0.0], [1.0], [np.nan], [1.0], [0.0]], [False, False]),
        ([[0.0], [np.nan], [np.nan], [1.0], [1.0]], [True, False]),
        ([[0.0, 1.0], [1.0, np.nan], [np.nan, 1.0], [0.0, np.nan], [0.0, np.nan]], [False, True]),  # in one of several columns
        ([[np.nan]] * 5, [False, False]),
    ],
)
def test_answers_that_differ_contradict_each_other_and_missing_ones_nothing(y: list[object], expected: list[bool]) -> None:
    assert contradicting(np.array([0, 1, 0, 1, 0]), np.array(y)).tolist() == expected
