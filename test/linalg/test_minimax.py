"""Odd quintics whose composition sends an interval to one."""

import numpy as np
import pytest

from gump.linalg import minimax_quintics
from gump.linalg.minimax import NEWTON_SCHULZ

# Amsel et al., The Polar Express: the coefficients that its authors print for values from 1e-3 to 1.
POLAR_EXPRESS = [
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
]


def composed(schedule, x):
    for a, b, c in schedule:
        x = a * x + b * x**3 + c * x**5
    return x


def largest_error(schedule, lower, upper):
    grid = np.concatenate([np.geomspace(lower, upper, 20001), np.linspace(lower, upper, 20001)])
    return np.abs(1 - composed(schedule, grid)).max()


@pytest.mark.parametrize("tol", [1e-3, 5e-7, 1e-15])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.1, 1.9), (0.01, 1.99), (0.001, 1.999), (1e-3, 1.0), (1e-5, 1.0), (0.5, 3.0), (2.0, 5.0), (0.9999, 1.0001)],
)
def test_a_schedule_keeps_its_promise(lower, upper, tol):
    assert largest_error(minimax_quintics(lower, upper, tol), lower, upper) <= tol


@pytest.mark.parametrize("safety", [1.0, 1.001, 1.01])
@pytest.mark.parametrize("lower", [1e-2, 1e-4, 1e-7])
def test_a_cushion_and_a_safety_factor_cost_steps_but_not_the_promise(lower, safety):
    schedule = minimax_quintics(lower, 1.0, 5e-7, cushion=0.024, safety=safety)
    assert largest_error(schedule, lower, 1.0) <= 5e-7
    assert len(schedule) >= len(minimax_quintics(lower, 1.0, 5e-7))


def test_four_steps_do_where_the_fixed_polynomial_takes_seven():
    assert len(minimax_quintics(0.1, 1.9, tol=1e-6)) == 4
    fixed = [largest_error((NEWTON_SCHULZ,) * k, 0.1 / 1.9, 1.0) for k in (6, 7)]
    assert fixed[0] > 1e-6 > fixed[1]


@pytest.mark.parametrize(("lower", "upper"), [(0.3, 0.3), (0.5, 0.5005), (1.4, 1.4), (3.0, 3.0005)])
def test_a_narrow_interval_away_from_one_keeps_the_promise_too(lower, upper):
    assert largest_error(minimax_quintics(lower, upper, 1e-6), lower, upper) <= 1e-6


def test_one_is_already_there():
    assert minimax_quintics(1.0, 1.0, tol=1e-6) == ()


@pytest.mark.parametrize(("lower", "upper"), [(0.1, 1.9), (0.01, 1.0), (0.5, 1.5)])
def test_the_error_of_a_single_quintic_alternates_four_times(lower, upper):
    error = 1 - composed(minimax_quintics(lower, upper, tol=1e-15)[:1], np.linspace(lower, upper, 200001))
    rises = np.flatnonzero(np.diff(np.sign(np.diff(error))))
    peaks = np.array([error[0], *error[rises + 1], error[-1]])
    assert len(peaks) == 4
    np.testing.assert_allclose(peaks, error[0] * np.array([1, -1, 1, -1]), atol=1e-8)


def test_the_published_polar_express_comes_out():
    schedule = minimax_quintics(1e-3, 1.0, tol=1e-15, cushion=0.02407327424182761)
    np.testing.assert_allclose(schedule[:6], POLAR_EXPRESS[:6], rtol=0, atol=1e-10)
    np.testing.assert_allclose(schedule[6], POLAR_EXPRESS[6], rtol=0, atol=1e-9)  # an interval of 1e-3, hence worse conditioned
    assert set(schedule[7:]) == {NEWTON_SCHULZ}


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0)])
def test_what_is_not_a_positive_interval_is_refused(lower, upper):
    with pytest.raises(ValueError, match=r"'lower' and 'upper' must satisfy 0 < lower <= upper \(got"):
        minimax_quintics(lower, upper, 1e-6)
