"""Sides of single levels."""

from fractions import Fraction

import numpy as np
import pytest

from jaxrob.strategies._few.decided import least_count, side
from jaxrob.strategies._few.goal import ACCEPTED, OPEN, REJECTED, Goal, Level


@pytest.mark.parametrize("total", [1, 49])
def test_least_count_is_that_of_the_floating_point_share(total):
    for count in range(total + 1):
        assert least_count(count / total, total) == count
        if count < total:
            above = float(np.nextafter(count / total, 2))
            assert least_count(above, total) == count + 1


@pytest.mark.parametrize("least", [0.1, 0.7])
def test_least_count_is_the_exact_ceiling_between_shares(least):
    for total in (7, 30, 101):
        exact = Fraction(least) * total
        if exact.denominator != 1 and abs(exact - round(exact)) > 1e-6:
            assert least_count(least, total) == -(-exact.numerator // exact.denominator)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-0.8, 1.0)])
def test_curtailed_sides_are_never_wrong_and_end_decided(bounds):
    generator = np.random.default_rng(5)
    low, high = bounds
    for _ in range(40):
        goal = Goal(8, 0.6, bounds, 60, 1, 0.05, 0.01, curtail=True)
        share = generator.uniform(0.4, 1)
        scores = np.where(generator.random(60) < share, high, low)
        truth = ACCEPTED if scores.mean() >= 0.6 else REJECTED
        found = [side(goal, Level(scores[:seen], OPEN, 1.0)) for seen in range(1, 61)]
        assert set(found) <= {OPEN, truth} and found[-1] == truth


def test_what_was_decided_stays():
    goal = Goal(8, 0.8, (0.0, 1.0), 1000, 100, 0.05, 0.01)
    assert side(goal, Level(np.zeros(500), ACCEPTED, 3.0)) == ACCEPTED
