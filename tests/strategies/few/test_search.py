"""Searches of few images on curves whose values at all levels are known."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import jaxrob
from jaxrob import strategies
from jaxrob._engine.queue import random_order
from jaxrob.strategies import ASAP, FewImages, Task
from jaxrob.strategies._drive import Seen, Subject, at_once, drive

PARTS, IMAGES, LEAST = 128, 1000, 0.8
LEVELS = np.linspace(0, 1, PARTS + 1)
CURVES = {
    "steep": 0.95 - 0.9 / (1 + np.exp(-(LEVELS - 0.43) * 25)),
    "peak": 0.55 + 0.4 * np.exp(-(((LEVELS - 0.52) / 0.22) ** 2)),
    "jump": np.where(LEVELS < 0.437, 0.93, 0.5),
}
MOST_ROUNDS = 80
TASK = Task(0.0, 1.0, LEAST, num_images=IMAGES, block=50)


def answers(name):
    """Right answers of all images at all levels, bool `[levels, images]`."""
    generator = np.random.default_rng([22, len(name)])
    image = generator.standard_normal(IMAGES)
    knots = generator.standard_normal((9, IMAGES))
    place = np.linspace(0, 8, PARTS + 1)
    before = np.minimum(place.astype(int), 7)
    part = (place - before)[:, None]
    own = knots[before] * (1 - part) + knots[before + 1] * part
    score = 0.9 * image + 0.4 * own / np.hypot(part, 1 - part)
    return score / np.hypot(0.9, 0.4) < scipy.special.ndtri(CURVES[name])[:, None]


def explore(few, right, threshold=LEAST):

    def look(parts):
        rows = [right[round(one.level * PARTS)] for one in parts]
        some = [row[: one.stop].astype(float) for row, one in zip(rows, parts)]
        return [Seen(float(one.mean()), len(one), one) for one in some]

    subject = Subject(
        "curve", TASK._replace(threshold=threshold), np.asarray, np.asarray
    )
    (explored,) = drive(few, [subject], at_once(look))
    return explored


def run(right, seed, half_width, curtail=False, threshold=LEAST):
    """The state at the end, and how many evaluations."""
    order = np.random.default_rng([22, seed]).permutation(IMAGES)
    few = FewImages(ASAP(n=PARTS), half_width, curtail=curtail)
    explored = explore(few, right[:, order], threshold)
    history = explored.history
    assert history.rounds <= MOST_ROUNDS
    return explored.state, sum(map(len, history.scores))


def crossings(accepted):
    """Where sides change: the step before each."""
    return np.flatnonzero(accepted[1:] != accepted[:-1])


@pytest.mark.parametrize(
    ("name", "half_width"),
    [
        ("peak", 0.05),
        pytest.param("steep", 0.015, marks=pytest.mark.slow),
        pytest.param("jump", 0.05, marks=pytest.mark.slow),
    ],
)
def test_intervals_rarely_miss_and_are_as_narrow_as_asked(name, half_width):
    right = answers(name)
    share = right.mean(axis=1)
    accepted = share >= LEAST
    truth = float(accepted[1:].sum())
    runs, misses, spent = 8, 0, 0
    slack = len(crossings(accepted))  # A crossing may be anywhere in its step.
    for seed in range(runs):
        state, evaluations = run(right, seed, half_width)
        low, high, guess = state.accepted
        assert state.bands is not None
        steps = state.bands.estimates.steps
        exhausted = (np.diff(steps)[state.bands.open > 0] <= 1).all()
        assert state.accepted.half_width <= half_width * PARTS or exhausted
        assert low <= guess <= high
        misses += not low - slack <= truth <= high + slack
        spent += evaluations
    assert misses <= scipy.stats.binom.ppf(0.999, runs, 0.05)
    # All images at the levels begun with are more.
    assert spent / runs < 9 * IMAGES


@pytest.mark.parametrize(
    ("name", "curtail"),
    [("peak", False), pytest.param("jump", True, marks=pytest.mark.slow)],
)
def test_half_width_0_finds_every_crossing_to_a_step(name, curtail):
    right = answers(name)
    accepted = right.mean(axis=1) >= LEAST
    for seed in range(2):
        state, _ = run(right, seed, 0.0, curtail)
        found = [gap.start for gap in state.gaps]
        assert all(gap.width == 1 and gap.crosses for gap in state.gaps)
        # More crossings than these lie within a few steps of one of them.
        assert set(found) <= set(crossings(accepted).tolist())


def test_a_curve_that_stays_above_takes_few_images():
    right = np.random.default_rng(3).random((PARTS + 1, IMAGES)) < 0.97
    state, evaluations = run(right, 0, 0.01)
    assert state.accepted.guess == state.accepted.high == PARTS
    assert state.accepted.half_width <= 0.01 * PARTS
    assert evaluations < 2 * IMAGES


@pytest.mark.slow
@pytest.mark.parametrize("share", [LEAST, 1.0, 0.0])
def test_a_curve_on_one_value_takes_no_more_images_than_it_must(share):
    """Not even on the threshold, where all images leave no doubt."""
    right = np.tile(np.arange(IMAGES) < round(share * IMAGES), (PARTS + 1, 1))
    found = []
    for seed in range(2):
        state, evaluations = run(right, seed, 0.02, threshold=share)
        found.append(tuple(state.accepted))
        assert evaluations <= 40 * IMAGES
    wrong = sum(one != (PARTS, PARTS, PARTS) for one in found)
    assert wrong <= scipy.stats.binom.ppf(0.999, len(found), 0.05)


def test_a_curve_along_the_threshold_stays_open_without_all_levels():
    generator = np.random.default_rng(8)
    limits = np.linspace(0.95, 0.4, PARTS + 1)
    limits[40:90] = LEAST
    limits[90:] = 0.4
    right = generator.random((PARTS + 1, IMAGES)) < limits[:, None]
    truth = float((right.mean(axis=1) >= LEAST)[1:].sum())
    state, evaluations = run(right, 0, 0.02)
    assert state.accepted.low - 1 <= truth <= state.accepted.high + 1
    assert evaluations < 80 * IMAGES


@pytest.mark.slow
@pytest.mark.parametrize("stopping", [{"budget": 10**9}, {"required": 0.5}])
def test_half_width_0_by_way_of_wider_ones_is_right_too(stopping):
    """Bands tell the sides of levels on the way there, with less evidence."""
    few = FewImages(ASAP(n=PARTS), 0.0, **stopping)
    wrong = 0
    for seed in range(2):
        draw = np.random.default_rng([39, seed])
        place, image = draw.uniform(0.3, 0.7), draw.random(IMAGES)
        limits = 0.97 - 0.5 / (1 + np.exp(-(LEVELS - place) * draw.uniform(2, 6)))
        right = (image < limits[:, None]).astype(float)
        found = few.result(TASK, explore(few, right).state)
        truth = (right.mean(axis=1) >= LEAST)[1:].mean()
        low, high = found.interval
        wrong += not low - 1e-9 <= truth <= high + 1e-9
        wrong += found.status == "precise" and abs(found.robustness - truth) > 1e-9
    assert wrong == 0


def test_a_larger_budget_leaves_no_more_open():
    """On the way to half width 0 levels are decided anew; a budget may end that."""
    draw = np.random.default_rng(5)
    place, image = 0.45, draw.random(IMAGES)
    limits = 0.97 - 0.5 / (1 + np.exp(-(LEVELS - place) * 4))
    right = (image < limits[:, None]).astype(float)
    widths = []
    for budget in range(2_000, 8_000, 1_900):
        few = FewImages(ASAP(n=PARTS), 0.0, budget)
        low, high = few.result(TASK, explore(few, right).state).interval
        widths.append(high - low)
    # Wider ones are due to where the rounds happen to end.
    assert widths[-1] <= 2 / PARTS
    assert (np.array(widths) <= 3 * np.minimum.accumulate(widths) + 4 / PARTS).all()


NUMBER = 2000
SAMPLED = strategies.Task(0.0, 1.0, threshold=0.8, num_images=NUMBER)
PLACES = (np.random.default_rng(0).permutation(NUMBER) + 0.5) / NUMBER


def few(n=256, **asked):
    return strategies.FewImages(strategies.ASAP(n=n), **asked)


def falling(levels):
    """Scores of a curve that crosses the threshold at 0.4."""
    return PLACES < 1 - levels[:, None] / 2


def test_a_half_width_is_reached_on_few_scores():
    history, found = strategies.sample(few(half_width=0.03), SAMPLED, falling)
    assert found.interval.low <= 0.4 <= found.interval.high
    assert found.interval.high - found.interval.low <= 0.06
    assert found.status == "precise"
    seen = sum(map(len, history.scores))
    everything, _ = strategies.sample(
        strategies.ASAP(n=256), SAMPLED, lambda levels: falling(levels).mean(1), NUMBER
    )
    assert seen < NUMBER * len(everything.levels) / 2


@pytest.mark.slow
def test_it_is_the_search_of_an_assessment():
    """The same scores, levels and answer as `jaxrob.assess` with as many images."""
    images = (PLACES / 2).astype(np.float32)[:, None, None, None]
    classifier = jaxrob.Classifier(_right_below)
    dim = jaxrob.Alteration("dim", _lowered, 0.0, 1.0)
    dataset = jaxrob.Dataset(images, np.zeros(NUMBER, int))
    strategy = few(64, half_width=0.03)
    result = jaxrob.assess(classifier, dataset, dim, strategy=strategy)
    order = random_order(None, NUMBER)
    task = SAMPLED._replace(identity=0.0)
    history, found = strategies.sample(strategy, task, lambda x: falling(x)[:, order])
    assert result.robustness == found.robustness
    assert result.sampling.dataset_interval == found.interval
    np.testing.assert_array_equal(result.levels, history.levels)
    np.testing.assert_array_equal(result.sampling.seen, [*map(len, history.scores)])


def _lowered(image, level):
    return image + level / 4


def _right_below(_, images):
    """Right where the altered pixel is below a half."""
    off = images[:, 0, 0, 0] - 0.5
    return 50 * jnp.stack([-off, off], axis=-1)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"task": SAMPLED._replace(num_images=None)}, "task.num_images"),
        ({"function": 3}, "function"),
        ({"strategy": strategies.ASAP(), "num_inputs": 0}, "num_inputs"),
        ({"function": lambda x: x}, "function"),
    ],
)
def test_what_is_wrong_is_named(wrong, name):
    usual = {"strategy": few(curtail=True), "task": SAMPLED, "function": falling}
    with pytest.raises((TypeError, ValueError), match=name):
        strategies.sample(**usual | wrong)
    with pytest.raises(ValueError, match="half_width"):
        few()
