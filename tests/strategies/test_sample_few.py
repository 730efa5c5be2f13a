"""Searches of few images on curves of one's own, without a classifier."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import strategies
from jaxrob._engine.parts import random_order

NUMBER = 2000
TASK = strategies.Task(0.0, 1.0, threshold=0.8, num_images=NUMBER)
PLACES = (np.random.default_rng(0).permutation(NUMBER) + 0.5) / NUMBER


def falling(levels):
    """Scores of a curve that crosses the threshold at 0.4."""
    return PLACES < 1 - levels[:, None] / 2


def test_a_half_width_is_reached_on_few_scores():
    history, found = strategies.sample_few(
        strategies.ASAP(n=256), TASK, falling, half_width=0.03
    )
    assert found.interval.low <= 0.4 <= found.interval.high
    assert found.interval.high - found.interval.low <= 0.06
    assert found.status == "precise"
    seen = sum(map(len, history.scores))
    everything = strategies.sample(
        strategies.ASAP(n=256), TASK, lambda levels: falling(levels).mean(1), NUMBER
    )
    assert seen < NUMBER * len(everything.levels) / 2


def test_a_budget_is_kept_and_a_requirement_decided():
    history, _ = strategies.sample_few(
        strategies.ASAP(n=256), TASK, falling, budget=5000
    )
    assert sum(map(len, history.scores)) <= 5000
    _, found = strategies.sample_few(
        strategies.ASAP(n=256), TASK, falling, required=0.3
    )
    assert found.interval.low >= 0.3


@pytest.mark.slow
def test_it_is_the_search_of_an_assessment():
    """The same scores, levels and answer as `jaxrob.assess` with as many images."""
    images = (PLACES / 2).astype(np.float32)[:, None, None, None]
    classifier = jaxrob.Classifier(_right_below)
    dim = jaxrob.Alteration("dim", _lowered, 0.0, 1.0)
    dataset = jaxrob.Dataset(images, np.zeros(NUMBER, int))
    asap = strategies.ASAP(n=64)
    result = jaxrob.assess(classifier, dataset, dim, strategy=asap, half_width=0.03)
    order = random_order(None, NUMBER)
    history, found = strategies.sample_few(
        asap,
        TASK._replace(identity=0.0),
        lambda x: falling(x)[:, order],
        half_width=0.03,
    )
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
        ({}, "half_width"),
        ({"strategy": strategies.Random(), "curtail": True}, "strategy"),
        ({"task": TASK._replace(num_images=None), "curtail": True}, "task.num_images"),
        ({"function": 3, "curtail": True}, "function"),
        ({"function": lambda x: x, "curtail": True}, "2000 scores"),
    ],
)
def test_what_is_wrong_is_named(wrong, name):
    given = {"strategy": strategies.ASAP(), "task": TASK, "function": falling} | wrong
    with pytest.raises((TypeError, ValueError), match=name):
        strategies.sample_few(**given)
