"""Estimates from few images, beside exact sides and random orders."""

from fractions import Fraction

import numpy as np
import pytest

from jaxrob.metrics._curvature import least_count
from jaxrob.strategies import ASAP
from jaxrob.strategies._few import banded
from jaxrob.strategies._few.bands import (
    Cluster,
    RoughCrossing,
    State,
    joint_error_ratio,
)
from jaxrob.strategies._few.decided import side
from jaxrob.strategies._few.estimates import (
    ACCEPTED,
    OPEN,
    REJECTED,
    Accepted,
    Goal,
    Level,
    Spread,
    correlation,
    estimates,
)

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


FEWER, SEEN = 2000, 400
GOAL = Goal(8, 0.8, (0.0, 1.0), FEWER, 50, 0.05, 0.02)


def crossing(place, straight):
    """A crossing between two levels."""
    rough = RoughCrossing(place + 0.1, 0.05, 0.2, 0.2)
    return Cluster(place, place + 1, straight, straight, rough)


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_the_sum_of_two_errors_is_as_wide_as_in_random_orders(alike):
    generator = np.random.default_rng(5)
    first = generator.random(FEWER) < 0.8
    other = generator.random(FEWER) < 0.8
    second = np.where(generator.random(FEWER) < alike, first, other)
    # Two levels at each crossing, so far apart that none helps another.
    scores = np.stack([first, first, second, second]).astype(float)
    places = [crossing(0, 3.0), crossing(2, 3.0)]
    errors, said = [], []
    for run in range(RUNS):
        order = np.random.default_rng([24, run]).permutation(FEWER)[:SEEN]
        levels = {i: Level(row[order], OPEN, 0.0) for i, row in enumerate(scores)}
        found = estimates(levels, Spread(0.1, FEWER))
        errors.append((found.means - scores.mean(axis=1))[[0, 2]])
        said.append(joint_error_ratio(GOAL, levels, found, places))
    single = np.std(errors, axis=0).sum()
    assert np.mean(said) == pytest.approx(
        np.std(np.sum(errors, axis=1)) / single, abs=0.08
    )


def test_one_crossing_is_as_far_off_as_it_is():
    row = np.repeat([1.0, 0.0], FEWER // 2)
    levels = {i: Level(row, OPEN, 0.0) for i in range(2)}
    found = estimates(levels, Spread(0.1, FEWER))
    assert joint_error_ratio(GOAL, levels, found, [crossing(0, 3.0)]) == 1.0


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


PARTS, CROSSING = 1024, 0.635


def looks(shape, seen, orders):
    """What one look at a curve tells, in several orders of the images."""
    least = float(shape(CROSSING))
    goal = Goal(PARTS, least, (0.0, 1.0), FEWER, 50, 0.05, 0.015)
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(FEWER)
        answers = {
            step: (order[:number] + 0.5 < shape(step / PARTS) * FEWER).astype(float)
            for step, number in seen.items()
        }
        state = State(goal, {}, Accepted(0, PARTS, PARTS / 2))
        yield goal, banded.look(ASAP(n=PARTS), state, answers)


def test_a_steep_curve_is_resolved_by_the_usual_bands():
    """Not by high ones, which open intervals far off because a bend may be there."""
    seen = dict.fromkeys([0, 128, 256, 384, 896, 1024], 128)
    seen |= {512: 384, 576: 640, 608: 512, 640: 2000, 655: 640, 669: 512, 684: 512}
    for goal, state in looks(lambda x: 0.97 - 0.5 * x**2.3, {**seen, 768: 256}, 12):
        assert state.bands is not None and state.bands.z == banded.critical_value(goal)


def test_no_look_takes_a_flat_curve_to_be_far_from_where_it_is():
    seen = dict.fromkeys(range(0, PARTS + 1, 128), 400)
    for goal, state in looks(lambda x: 0.8 - 0.005 * (x - CROSSING), seen, 40):
        _, _, guess = state.accepted
        half_width = max(state.accepted.half_width, goal.half_width * PARTS)
        assert abs(guess - CROSSING * PARTS) <= 3 * half_width + 1
