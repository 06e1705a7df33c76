"""Odd quintics whose composition sends an interval of singular values to one."""

from functools import lru_cache

import numpy as np

Quintic = tuple[float, float, float]

NEWTON_SCHULZ: Quintic = (15 / 8, -5 / 4, 3 / 8)
"""The paper's polynomial, of third order at one: the last steps of every schedule."""


@lru_cache
def minimax_quintics(lower: float, upper: float, tol: float, cushion: float = 0.0, safety: float = 1.0) -> tuple[Quintic, ...]:
    r"""Composes odd quintics :math:`a x + b x^3 + c x^5` that bring every :math:`x \in [lower, upper]` to within ``tol`` of one.

    Each is the best for the interval that its predecessors left, so few are needed: four for :math:`[0.1, 1.9]` in float32, where
    the paper's fixed polynomial takes seven. The composition of best odd polynomials is itself best (`The Polar Express
    <https://arxiv.org/abs/2505.16932>`_).

    Args:
        lower: The smallest singular value, above zero.
        upper: The largest.
        tol: The error that the last polynomial must reach, at least 4e-16.
        cushion: The smallest ratio of the ends that a polynomial is fitted to. A wider interval is fitted as if it ended there and
            rescaled, which keeps rounding from throwing small values far away.
        safety: As long as small values remain, polynomials act as if their argument were this much smaller, so that a value that
            rounding left above ``upper`` does not diverge.

    Example:
        >>> len(minimax_quintics(0.1, 1.9, tol=1e-6))
        4
    """
    if not 0 < lower <= upper:
        raise ValueError(f"'lower' and 'upper' must satisfy 0 < lower <= upper (got {lower} and {upper})")
    if tol < 4e-16:
        raise ValueError(f"'tol' must be at least 4e-16, what float64 can tell from one (got {tol})")
    schedule: list[Quintic] = []
    while max(1 - lower, upper - 1) > tol:
        a, b, c = _best_quintic(max(lower, cushion * upper), upper)
        if lower < cushion * upper:
            scale = 2 / (_value(a, b, c, lower) + _value(a, b, c, upper))
            a, b, c = a * scale, b * scale, c * scale
        upper = 2 - _value(a, b, c, lower)
        if lower < 0.5:
            a, b, c = a / safety, b / safety**3, c / safety**5
        lower = _value(a, b, c, lower)
        schedule.append((a, b, c))
    return tuple(schedule)


def _value(a: float, b: float, c: float, x: float) -> float:
    return x * (a + x * x * (b + x * x * c))


def _best_quintic(lower: float, upper: float) -> Quintic:
    """Remez exchange: the error of the best odd quintic alternates at the two ends and at two points between."""
    if upper - lower < 1e-3 * upper:
        center = (lower + upper) / 2
        a, b, c = NEWTON_SCHULZ
        return a / center, b / center**3, c / center**5
    inner = np.array([(3 * lower + upper) / 4, (lower + 3 * upper) / 4])
    for _ in range(100):
        points = np.array([lower, *inner, upper])
        system = np.stack([points, points**3, points**5, np.array([1.0, -1.0, 1.0, -1.0])], axis=1)
        a, b, c, _ = np.linalg.solve(system, np.ones(4))
        root = np.sqrt(9 * b**2 - 20 * a * c)
        extrema = np.sqrt((-3 * b + np.array([-root, root])) / (10 * c))
        if np.abs(extrema - inner).max() < 1e-14 * upper:
            break
        inner = extrema
    return float(a), float(b), float(c)
