"""Searches on synthetic curves whose values at all levels are known."""

import numpy as np
import pytest
import scipy

from jaxrob._sequential import search
from jaxrob._sequential.task import OPEN, Task
from jaxrob.strategies import ASAP

PARTS, IMAGES, LEAST = 128, 1000, 0.8
LEVELS = np.linspace(0, 1, PARTS + 1)
CURVES = {
    "steep": 0.95 - 0.9 / (1 + np.exp(-(LEVELS - 0.43) * 25)),
    "peak": 0.55 + 0.4 * np.exp(-(((LEVELS - 0.52) / 0.22) ** 2)),
    "jump": np.where(LEVELS < 0.437, 0.93, 0.5),
}
ALL_CURVES = pytest.mark.parametrize(
    "name",
    ["peak", *(pytest.param(one, marks=pytest.mark.slow) for one in ("steep", "jump"))],
)
MOST_ROUNDS = 80


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


def run(right, task, seed):
    """The state at the end, and how many evaluations."""
    order = np.random.default_rng([22, seed]).permutation(IMAGES)
    strategy = ASAP(n=PARTS)
    state, requests = search.begin(task, np.arange(0, PARTS + 1, PARTS // 8))
    for _ in range(MOST_ROUNDS):
        seen = {one.step: right[one.step, order[: one.seen]] for one in requests}
        before = {step: level.seen for step, level in state.levels.items()}
        assert all(one.seen > before.get(one.step, 0) for one in requests)
        floats = {step: scores.astype(float) for step, scores in seen.items()}
        state = search.look(task, strategy, state, floats)
        if state.is_done:
            break
        state, requests = search.following(task, state)
        if not requests:
            break
    assert state.is_done, "too many rounds"
    return state, sum(level.seen for level in state.levels.values())


def crossings(accepted):
    """Where sides change: the step before each."""
    return np.flatnonzero(accepted[1:] != accepted[:-1])


@ALL_CURVES
@pytest.mark.parametrize(
    "precision", [0.05, pytest.param(0.015, marks=pytest.mark.slow)]
)
def test_intervals_rarely_miss_and_are_as_narrow_as_asked(name, precision):
    right = answers(name)
    share = right.mean(axis=1)
    accepted = share >= LEAST
    truth = float(accepted[1:].sum())
    task = Task(PARTS, LEAST, (0.0, 1.0), IMAGES, 50, 0.05, precision)
    runs, misses, spent = 30, 0, 0
    slack = len(crossings(accepted))  # A crossing may be anywhere in its step.
    for seed in range(runs):
        state, evaluations = run(right, task, seed)
        low, high, guess = state.accepted
        assert state.bands is not None
        steps = state.bands.estimates.steps
        exhausted = (np.diff(steps)[state.bands.open > 0] <= 1).all()
        assert state.accepted.half_width <= precision * PARTS or exhausted
        assert low <= guess <= high
        misses += not low - slack <= truth <= high + slack
        spent += evaluations
    assert misses <= scipy.stats.binom.ppf(0.999, runs, 0.05)
    # All images at the levels begun with are more.
    assert spent / runs < 9 * IMAGES


@pytest.mark.parametrize("curtail", [False, pytest.param(True, marks=pytest.mark.slow)])
@ALL_CURVES
def test_precision_0_finds_every_crossing_to_a_step(name, curtail):
    right = answers(name)
    accepted = right.mean(axis=1) >= LEAST
    task = Task(PARTS, LEAST, (0.0, 1.0), IMAGES, 50, 0.001, 0.0, curtail)
    for seed in range(8):
        state, _ = run(right, task, seed)
        assert state.known is not None
        found = [gap.start for gap in state.known.gaps]
        assert all(gap.width == 1 and gap.crosses for gap in state.known.gaps)
        # More crossings than these lie within a few steps of one of them.
        assert set(found) <= set(crossings(accepted).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_curtailed_sides_are_never_wrong(name):
    right = answers(name)
    sides = np.where(right.mean(axis=1) >= LEAST, 1, -1)
    task = Task(PARTS, LEAST, (0.0, 1.0), IMAGES, 50, 0.05, 0.02, curtail=True)
    for seed in range(8):
        state, _ = run(right, task, seed)
        for step, level in state.levels.items():
            assert level.side in (OPEN, sides[step])


def test_a_curve_that_stays_above_takes_few_images():
    right = np.random.default_rng(3).random((PARTS + 1, IMAGES)) < 0.97
    task = Task(PARTS, LEAST, (0.0, 1.0), IMAGES, 50, 0.05, 0.01)
    state, evaluations = run(right, task, 0)
    assert state.accepted.guess == state.accepted.high == PARTS
    assert state.accepted.half_width <= 0.01 * PARTS
    assert evaluations < 2 * IMAGES


def test_the_same_answers_give_the_same_search():
    right = answers("peak")
    task = Task(PARTS, LEAST, (0.0, 1.0), IMAGES, 50, 0.05, 0.02)
    first, second = (run(right, task, 4)[0] for _ in range(2))
    assert first.accepted == second.accepted and list(first.levels) == list(
        second.levels
    )


@pytest.mark.parametrize("share", [LEAST, 1.0, 0.0])
def test_a_curve_on_one_value_takes_no_more_images_than_it_must(share):
    """Not even on the threshold, where all images leave no doubt."""
    right = np.tile(np.arange(IMAGES) < round(share * IMAGES), (PARTS + 1, 1))
    task = Task(PARTS, share, (0.0, 1.0), IMAGES, 50, 0.05, 0.02)
    found = []
    for seed in range(10):
        state, evaluations = run(right, task, seed)
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
    task = Task(PARTS, LEAST, (0.0, 1.0), IMAGES, 50, 0.05, 0.02)
    state, evaluations = run(right, task, 0)
    assert state.accepted.low - 1 <= truth <= state.accepted.high + 1
    assert evaluations < 80 * IMAGES
