"""How far two crossings are off together, beside random orders."""

import numpy as np
import pytest

from jaxrob.strategies._few.bands import Cluster, joint_error_ratio
from jaxrob.strategies._few.crossing import RoughCrossing
from jaxrob.strategies._few.estimates import estimates
from jaxrob.strategies._few.goal import OPEN, Goal, Level, Spread

IMAGES, RUNS, SEEN = 2000, 200, 400
GOAL = Goal(8, 0.8, (0.0, 1.0), IMAGES, 50, 0.05, 0.02)


def crossing(place, straight):
    """A crossing between two levels, and where it is."""
    cluster = Cluster(place, place + 1, True, straight, straight)
    return cluster, RoughCrossing(place + 0.1, 0.05, 0.2, 0.2)


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_the_sum_of_two_errors_is_as_wide_as_in_random_orders(alike):
    generator = np.random.default_rng(5)
    first = generator.random(IMAGES) < 0.8
    other = generator.random(IMAGES) < 0.8
    second = np.where(generator.random(IMAGES) < alike, first, other)
    # Two levels at each crossing, so far apart that none helps another.
    scores = np.stack([first, first, second, second]).astype(float)
    places = dict([crossing(0, 3.0), crossing(2, 3.0)])
    errors, said = [], []
    for run in range(RUNS):
        order = np.random.default_rng([24, run]).permutation(IMAGES)[:SEEN]
        levels = {i: Level(row[order], OPEN, 0.0) for i, row in enumerate(scores)}
        found = estimates(levels, Spread(0.1, IMAGES))
        errors.append((found.means - scores.mean(axis=1))[[0, 2]])
        said.append(joint_error_ratio(GOAL, levels, found, places))
    single = np.std(errors, axis=0).sum()
    assert np.mean(said) == pytest.approx(
        np.std(np.sum(errors, axis=1)) / single, abs=0.08
    )


def test_one_crossing_is_as_far_off_as_it_is():
    row = np.repeat([1.0, 0.0], IMAGES // 2)
    levels = {i: Level(row, OPEN, 0.0) for i in range(2)}
    found = estimates(levels, Spread(0.1, IMAGES))
    assert joint_error_ratio(GOAL, levels, found, dict([crossing(0, 3.0)])) == 1.0
