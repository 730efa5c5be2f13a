"""Few images: estimates and searches, on curves whose values are known."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import jaxrob
from jaxrob import strategies
from jaxrob._engine.queue import random_order
from jaxrob.metrics._curvature import least_count
from jaxrob.strategies import ASAP, FewImages, Task
from jaxrob.strategies._drive import Seen, Subject, at_once, drive
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
    estimates,
)

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
    accepted = right.mean(axis=1) >= LEAST
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
    place, image = 0.45, np.random.default_rng(5).random(IMAGES)
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
    task = SAMPLED._replace(groups=(PLACES * 20).astype(int))
    _, grouped = strategies.sample(few(half_width=0.03), task, falling)
    assert grouped.interval == found.interval
    (low, high), alone = grouped.population_interval, found.population_interval
    assert low < alone.low and high > alone.high


@pytest.mark.slow
def test_it_is_the_search_of_an_assessment():
    """The same scores, levels and answer as `jaxrob.assess` with as many images."""
    images = (PLACES / 2).astype(np.float32)[:, None, None, None]
    classifier = jaxrob.Classifier(_right_below)
    dim = jaxrob.Alteration("dim", lambda image, x: image + x / 4, 0.0, 1.0)
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


def _right_below(_, images):
    """Right where the altered pixel is below a half."""
    off = images[:, 0, 0, 0] - 0.5
    return 50 * jnp.stack([-off, off], axis=-1)


@pytest.mark.parametrize(
    ("wrong", "error", "name"),
    [
        ({"task": SAMPLED._replace(num_images=None)}, TypeError, "task.num_images"),
        ({"task": SAMPLED._replace(groups=np.arange(3))}, ValueError, "task.groups"),
        ({"task": SAMPLED._replace(lower=1.0)}, ValueError, "task.lower"),
        ({"task": SAMPLED._replace(upper=np.nan)}, ValueError, "task.upper"),
        ({"task": SAMPLED._replace(threshold=1.2)}, ValueError, "task.threshold"),
        ({"task": SAMPLED._replace(threshold=np.nan)}, ValueError, "task.threshold"),
        ({"function": 3}, TypeError, "function"),
        ({"strategy": ASAP(), "num_inputs": 0}, ValueError, "num_inputs"),
        ({"strategy": ASAP(), "function": np.log}, ValueError, "function.*finite"),
        ({"function": lambda x: x}, ValueError, "function"),
    ],
)
def test_what_is_wrong_is_named(wrong, error, name):
    usual = {"strategy": few(curtail=True), "task": SAMPLED, "function": falling}
    with np.errstate(divide="ignore"), pytest.raises(error, match=name):
        strategies.sample(**usual | wrong)
    with pytest.raises(ValueError, match="half_width"):
        few()


NESTED_IMAGES, RUNS = 4000, 200


def nested(shares):
    """Scores `[levels, images]`: an image that is wrong at a level is wrong beyond."""
    limits = (np.arange(NESTED_IMAGES) + 0.5) / NESTED_IMAGES
    return (limits < np.array(shares)[:, None]).astype(float)


def independent(shares):
    """Scores of images that turn right and wrong at random."""
    return (
        np.random.default_rng(7).random((len(shares), NESTED_IMAGES))
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
        order = np.random.default_rng([22, run]).permutation(NESTED_IMAGES)
        levels = {
            step: Level(row[order[: seen[step]]], OPEN, 0.0)
            for step, row in zip(steps, scores)
        }
        found = estimates(levels, Spread(least, NESTED_IMAGES))
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


FEWER, SEEN = 2000, 400
GOAL = Goal(8, 0.8, (0.0, 1.0), FEWER, 50, 0.05, 0.02)


def crossing(place, straight):
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


@pytest.mark.parametrize("total", [1, 49])
def test_least_count_is_that_of_the_floating_point_share(total):
    for count in range(total + 1):
        assert least_count(count / total, total) == count
        if count < total:
            above = float(np.nextafter(count / total, 2))
            assert least_count(above, total) == count + 1


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


def test_no_look_takes_a_flat_curve_to_be_far_from_where_it_is():
    steps, place = range(0, 1025, 128), 0.635 * 1024
    least = {step: FEWER * (0.8 - 0.005 * (step - place) / 1024) for step in steps}
    goal = GOAL._replace(parts=1024, half_width=0.015)
    state = State(goal, {}, Accepted(0, 1024, 512))
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(FEWER)[:SEEN] + 0.5
        answers = {step: 1.0 * (order < number) for step, number in least.items()}
        low, high, guess = banded.look(ASAP(n=1024), state, answers).accepted
        half_width = max((high - low) / 2, goal.half_width * 1024)
        assert abs(guess - place) <= 3 * half_width + 1
