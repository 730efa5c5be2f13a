"""Quadrature against `scipy.integrate.quad`, called directly."""

import numpy as np
import pytest
from common.quadrature import Quadrature, robustness_by_quad
from scipy import integrate

from jaxrob.strategies import Task, sample

THRESHOLD = 0.8


def steps(crossings, first):
    """1 or 0, changing at each crossing; `first` is the value below all of them."""
    return lambda x: (np.searchsorted(crossings, x) + first) % 2 * 1.0


def quad(function, lower, upper, limit):
    """What quad finds: the share (NaN if it failed) and the points in order."""
    points = []

    def integrand(x):
        points.append(x)
        return float(function(np.array([x]))[0] >= THRESHOLD)

    integral, _, _, *message = integrate.quad(
        integrand, lower, upper, limit=limit, full_output=1
    )
    return np.clip((np.nan if message else integral) / (upper - lower), 0, 1), points


RANDOM = np.random.default_rng(0).random(50)
CHAOS = steps(np.sort(RANDOM), 0)


@pytest.mark.parametrize(
    ("function", "lower", "upper", "limit"),
    [
        (lambda x: 0 * x + 0.79, -3.0, 177.0, 24),
        (lambda x: 0 * x + THRESHOLD, -0.5, 0.5, 2),
        *((steps([place], 1), 0.0, 1.0, limit) for place in RANDOM[:6]
          for limit in (24, 60)),
        (steps([-1.0, 2.5, 2.5 + 1e-6], 0), -4.0, 4.0, 40),
        # As JPEG quality: between two integers nothing changes.
        (lambda x: np.where(np.round(x) <= 41, 0.9, 0.3), 0.0, 100.0, 60),
        # Beyond the paper's 1,024 points.
        (CHAOS, 0.0, 1.0, 24),
    ],
)  # fmt: skip
def test_same_levels_same_share_same_failures_as_quad(function, lower, upper, limit):
    expected, points = quad(function, lower, upper, limit)
    task = Task(lower, upper, threshold=THRESHOLD)
    found, _ = sample(Quadrature(limit), task, function)
    levels = found.levels
    share = robustness_by_quad(levels, found.values, THRESHOLD, (lower, upper))
    assert share == expected or np.isnan([share, expected]).all()
    np.testing.assert_array_equal(np.sort(points[: len(levels)]), levels)
    # The last bisection cannot save quad, and is left out.
    left = len(points) - len(levels)
    assert left == 0 or (left == 42 and np.isnan(share))
    few = robustness_by_quad(levels[1:], found.values[1:], THRESHOLD, (lower, upper))
    assert np.isnan(few)
