"""The accepted volume of domains that are made up, so that it is known."""

import numpy as np
import pytest
import scipy
from common import known_domains
from common.known_domains import SHAPES, Shape, run, shape

from jaxrob import strategies
from jaxrob.metrics._testing import clopper_pearson
from jaxrob.strategies import Task, Volume
from jaxrob.strategies._volume.limits import Rule, Tally, limits
from jaxrob.strategies._volume.sides import Answers, population_sides

BOX = (0.0, 0.0), (1.0, 1.0)
TASK = Task(*BOX, 0.8, num_images=400, seed=3)
HALF = Shape(lambda x: 0.95 - 0.6 * np.maximum(x[:, 0] - 0.25, 0), 0.5)


@pytest.mark.parametrize("name", SHAPES)
def test_volumes_of_shapes_are_exact(name):
    for d, generator in ((2, "building"), (2, "showing"), (3, "showing")):
        one = shape(name, d, generator, 5)
        points = scipy.stats.qmc.Sobol(d, rng=0).random_base2(13)
        accepted = (one.accuracy(points) >= 0.8 - 1e-12).mean()
        assert accepted == pytest.approx(one.volume, abs=0.006)


@pytest.mark.slow
def test_intervals_hold_the_volume_as_often_as_they_say():
    """Of all shapes: if 5 % miss, more than 6 of 40 do so in one of 100 sets."""
    missed = missed_there = 0
    for number in range(40):
        one = shape([*SHAPES][number % 10], 2, "building", 1000 + number)
        kind = ("one", "patches", "population")[number % 3]
        task = TASK._replace(num_images=128, seed=number)
        found = run(one, Volume(0.12), task, kind, number).found
        assert found.status == "precise"
        assert np.diff(found.interval)[0] <= 0.24 + 1e-9
        low, high = found.interval
        missed += kind != "population" and not low <= one.volume <= high
        low, high = found.population_interval
        missed_there += not low <= one.volume <= high
    assert missed <= 6 and missed_there <= 6


def test_clopper_and_pearson_s_limits_are_scipy_s():
    hits, numbers = np.array([0, 3, 40, 17]), np.array([5, 40, 40, 300])
    low, high = clopper_pearson(hits, numbers, 0.9)
    for ends in zip(hits.tolist(), numbers.tolist(), low, high):
        exact = scipy.stats.binomtest(*ends[:2]).proportion_ci(0.9, "exact")
        np.testing.assert_allclose(ends[2:], exact, rtol=1e-9)
    # Of one stratum the proven form is theirs; what is open counts for either side.
    tally = Tally(np.ones(1), np.array([300.0]), np.array([17.0]), np.array([280.0]))
    exact = clopper_pearson(np.array([17, 20]), 300, 0.9)
    ends = limits(tally, Rule(0.1, True, 0.0))
    np.testing.assert_allclose(ends, (exact[0][0], exact[1][1]))
    # The calibrated one has Jeffreys' prior; a hundredth of each side is wrong.
    prior = scipy.stats.beta([17.5, 20.5], [283.5, 280.5]).ppf([0.05, 0.95])
    ends = limits(tally, Rule(0.1, False, 0.0, 0.01))
    np.testing.assert_allclose(ends, ((prior[0] - 0.01) / 0.99, prior[1] / 0.99))


def searched(strategy, task=TASK, kind="one"):
    return run(HALF, strategy, task, kind, 4)


def test_levels_of_the_model_are_not_counted():
    history, found = strategies.sample(
        Volume(0.06), TASK, lambda x: np.ones((len(x), 400)) * (x[:, :1] < 2)
    )
    low, high = found.interval
    # All are accepted: the fresh levels alone bound what may be rejected.
    exact = clopper_pearson(np.array(0), len(history.levels) - 24, 1 - 0.7 * 0.05)[1]
    assert high == 1 and 1 - low == pytest.approx(exact, abs=0.06)
    assert (found.sides == 1).all() and found.robustness == 1


def test_a_search_depends_on_its_seed_and_answers_alone():
    order, found = np.random.default_rng(0).permutation(400) / 400, []
    wide = TASK._replace(lower=(-3.0, 5.0), upper=(1.0, 6.0))

    def scores(levels):
        return order < HALF.accuracy(wide.positions_of(levels))[:, None]

    for _ in range(2):
        found.append(strategies.sample(Volume(0.1), wide, scores))
    assert found[0][1].interval == found[1][1].interval
    np.testing.assert_array_equal(found[0][0].levels, found[1][0].levels)
    assert found[0][1].status == "precise"
    other = strategies.sample(Volume(0.1), wide._replace(seed=9), scores)
    assert other[1].interval != found[0][1].interval


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 5, 12])
def test_any_number_of_alterations(d):
    task = Task((0.0,) * d, (1.0,) * d, 0.8, num_images=50)
    fall = Shape(lambda x: 0.95 - 0.3 * x[:, -1], 0.5)
    found = run(fall, Volume(0.15), task, "one", 0).found
    assert found.interval.low <= 0.5 + 1 / 50 and found.interval.high >= 0.5 - 1 / 50


def test_proven_costs_more_and_holds():
    proven = searched(Volume(0.1, guarantee="proven"))
    assert proven.found.interval.low <= 0.5 <= proven.found.interval.high
    assert proven.evaluations > searched(Volume(0.1)).evaluations


def test_relative_half_width():
    small = Shape(lambda x: 0.95 - 1.5 * np.maximum(x[:, 0] - 0.02, 0), 0.12)
    found = run(small, Volume(0.3, relative=True), TASK, "one", 0).found
    low, high = found.interval
    assert found.status == "precise" and (high - low) / 2 <= 0.3 * (low + high) / 2
    assert low <= 0.12 <= high


def test_budget_and_plateau_end_a_search():
    for budget in (9000, 20_000):
        spent = searched(Volume(0.01, budget=budget))
        assert spent.found.status == "budget" and spent.evaluations <= budget
    flat = Shape(lambda x: np.full(len(x), 0.8), 1.0)
    task = TASK._replace(num_images=10_000)
    found = run(flat, Volume(0.05, budget=200_000), task, "one", 0).found
    assert found.status == "resolution" and found.interval.high == 1.0
    with pytest.raises(ValueError, match="budget"):
        searched(Volume(0.1, budget=1000))


def test_the_threshold_s_decision_for_images_to_come():
    """They are decided where the binomial tail is small enough, on either side."""
    rng, error = np.random.default_rng(0), 0.05
    right = rng.binomial(200, 0.8, 2000).astype(float)
    scores = [np.repeat([1.0, 0.0], [int(one), 200 - int(one)]) for one in right]
    history = strategies.History(np.arange(2000.0), right / 200, scores=tuple(scores))
    found = Answers(np.arange(2000), np.full(2000, 200), right)
    side = population_sides(TASK._replace(num_images=200), history, found, 1e-9, error)
    images = scipy.stats.binom(200, 0.8)
    np.testing.assert_array_equal(side > 0, images.sf(right - 1) <= error)
    np.testing.assert_array_equal(side < 0, images.cdf(right) <= error)


def test_groups_and_single_numbers_are_refused_in_words():
    groups = np.repeat(np.arange(40), 10)
    found = searched(Volume(0.1), TASK._replace(groups=groups)).found
    assert found.population_interval is None
    with pytest.raises(TypeError, match=r"task\.lower"):
        strategies.sample(
            Volume(), Task(0.0, 1.0, 0.8, num_images=9), known_domains.run
        )
