"""Hall's interval, against his formula solved by roots, Student's, and simulation."""

import numpy as np
import pytest
from scipy import stats

from jaxrob.roma._skewed_mean import FEWEST_VALUES, LARGEST_SKEWNESS, skewed_interval


@pytest.mark.parametrize("skewness", [-0.25, 1e-4, 0.1])
def test_transforms_as_the_paper_does(skewness):
    """T + a T^2 / 3 + a^2 T^3 / 27 + a / 6 is normal, with a = g / sqrt(n)."""
    a, mean, error = skewness, 0.5, 0.01
    ends = skewed_interval(mean, error, skewness, 1.96)
    for t, y in zip((mean - ends) / error, (1.96, -1.96)):
        assert t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6 == pytest.approx(y, abs=1e-6)


def test_is_students_without_skewness():
    values = np.random.default_rng(0).permutation(np.repeat([0.2, 0.4, 0.6], [9, 9, 9]))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    error = values.std(ddof=1) / np.sqrt(27)
    ends = skewed_interval(values.mean(), error, 0.0, stats.t.isf(0.025, 26))
    assert ends == pytest.approx(expected, abs=1e-6)


def test_stays_within_what_is_possible():
    assert skewed_interval(0.01, 0.02, 0.1, 1.96)[0] == 0
    assert skewed_interval(0.99, 0.02, -0.1, 1.96)[1] == 1


@pytest.mark.parametrize(
    ("number", "draws", "p", "correlation"),
    [(30, 8, 0.3, 0.2), (300, 8, 0.05, 0.3)],
)
def test_misses_as_often_as_it_says(number, draws, p, correlation):
    rng = np.random.default_rng(0)
    a, b = np.array([p, 1 - p]) * (1 / correlation - 1)
    runs = 1000
    values = rng.binomial(draws, rng.beta(a, b, (runs, number))) / draws
    mean, std = values.mean(axis=1), values.std(axis=1, ddof=1)
    third = ((values - mean[:, None]) ** 3).mean(axis=1)
    skewness = third / std**3 / np.sqrt(number)
    quantile = stats.t.isf(0.025, number - 1)
    low, high = skewed_interval(mean, std / np.sqrt(number), skewness, quantile).T
    given = (np.abs(skewness) <= LARGEST_SKEWNESS) & (number >= FEWEST_VALUES)
    missed = np.count_nonzero(given & ((low > p) | (high < p)))
    # An approximation: a fifth more than it says, and what chance adds.
    assert given.mean() > 0.5 and missed <= stats.binom.isf(1e-3, runs, 0.06)
