"""Means from few images and from levels with more: errors beside those stated."""

import numpy as np
import pytest

from jaxrob.strategies._few.estimates import correlation, estimates
from jaxrob.strategies._few.goal import OPEN, Level, Spread

IMAGES, RUNS = 4000, 200


def nested(shares):
    """Scores `[levels, images]`: an image that is wrong at a level is wrong beyond."""
    limits = (np.arange(IMAGES) + 0.5) / IMAGES
    return (limits < np.array(shares)[:, None]).astype(float)


def independent(shares):
    """Scores of images that turn right and wrong at random."""
    return (
        np.random.default_rng(7).random((len(shares), IMAGES))
        < np.array(shares)[:, None]
    ).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nested, independent])
@pytest.mark.parametrize(
    "seen",
    [
        {0: 4000, 10: 600, 20: 900, 30: 900},
        {0: 500, 10: 400, 20: 300, 30: 200, 40: 1000},
    ],
)
def test_stated_deviations_are_those_of_random_orders(kind, seen):
    steps = list(seen)
    scores = kind([0.8 - 0.006 * step for step in steps])
    least = float(np.var(scores, axis=1).min())
    errors, stated, together = [], [], []
    for run in range(RUNS):
        order = np.random.default_rng([22, run]).permutation(IMAGES)
        levels = {
            step: Level(row[order[: seen[step]]], OPEN, 0.0)
            for step, row in zip(steps, scores)
        }
        found = estimates(levels, Spread(least, IMAGES))
        errors.append(found.means - scores.mean(axis=1))
        stated.append(found.standard_errors)
        together.append(found.covariances)
    real = np.sqrt(np.square(errors).mean(axis=0))
    said = np.sqrt(np.square(stated).mean(axis=0))
    # The best of several ways is picked by what they say, which favours the lucky.
    assert (real <= 1.15 * said + 1e-12).all(), real / said
    assert (real[said > 0] >= 0.7 * said[said > 0]).all()
    # How far apart neighbours err is what lines between them rest on.
    apart = np.square(np.diff(errors, axis=1)).mean(axis=0)
    squares = np.square(stated).mean(axis=0)
    expected = squares[:-1] + squares[1:] - 2 * np.mean(together, axis=0)
    assert (apart <= 1.3 * expected + 1e-12).all(), apart / expected


@pytest.mark.slow
def test_errors_of_two_levels_go_together_as_in_random_orders():
    scores, seen = nested([0.8, 0.6]), (700, 500)
    errors, said = [], []
    for run in range(RUNS):
        order = np.random.default_rng([23, run]).permutation(IMAGES)
        levels = {
            step: Level(row[order[:number]], OPEN, 0.0)
            for step, (row, number) in enumerate(zip(scores, seen))
        }
        found = estimates(levels, Spread(0.1, IMAGES))
        errors.append(found.means - scores.mean(axis=1))
        said.append(correlation(levels, found, (0, 1), Spread(0.1, IMAGES)))
    real = np.corrcoef(np.transpose(errors))[0, 1]
    assert np.mean(said) == pytest.approx(real, abs=0.15)


def test_a_level_with_all_images_is_exact_and_helps_its_neighbours():
    scores = nested([0.8, 0.79])
    order = np.random.default_rng(3).permutation(IMAGES)
    few = Level(scores[1][order[:400]], OPEN, 0.0)
    alone = estimates({1: few}, Spread(0.01, IMAGES))
    helped = estimates(
        {0: Level(scores[0][order], OPEN, 0.0), 1: few}, Spread(0.01, IMAGES)
    )
    assert helped.at(0) == pytest.approx((0.8, 0.0))
    assert helped.at(1)[1] < 0.4 * alone.at(1)[1]


def test_of_levels_that_tell_as_much_the_nearest_does():
    """Their first images say the same, those after them do not."""
    own = np.arange(100) % 5 > 0
    rest = np.arange(900)
    found = estimates(
        {
            0: Level(np.append(own, rest % 2 > 0).astype(float), OPEN, 0.0),
            8: Level(own.astype(float), OPEN, 0.0),
            9: Level(np.append(own, rest % 3 > 0).astype(float), OPEN, 0.0),
        },
        Spread(0.1, IMAGES),
    )
    assert found.at(8)[0] == pytest.approx(found.at(9)[0])
    assert found.at(0)[0] < found.at(9)[0] - 0.1


def test_a_level_goes_together_with_itself():
    scores = nested([0.8])[0][:500]
    levels = {3: Level(scores, OPEN, 0.0)}
    found = estimates(levels, Spread(0.1, IMAGES))
    assert correlation(levels, found, (3, 3), Spread(0.1, IMAGES)) == 1.0
