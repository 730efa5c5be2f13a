"""Searches of few images on curves of one's own, without a classifier."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import strategies
from jaxrob._engine.queue import random_order

NUMBER = 2000
TASK = strategies.Task(0.0, 1.0, threshold=0.8, num_images=NUMBER)
PLACES = (np.random.default_rng(0).permutation(NUMBER) + 0.5) / NUMBER


def few(n=256, **asked):
    return strategies.FewImages(strategies.ASAP(n=n), **asked)


def falling(levels):
    """Scores of a curve that crosses the threshold at 0.4."""
    return PLACES < 1 - levels[:, None] / 2


def test_a_half_width_is_reached_on_few_scores():
    history, found = strategies.sample(few(half_width=0.03), TASK, falling)
    assert found.interval.low <= 0.4 <= found.interval.high
    assert found.interval.high - found.interval.low <= 0.06
    assert found.status == "precise"
    seen = sum(map(len, history.scores))
    everything, _ = strategies.sample(
        strategies.ASAP(n=256), TASK, lambda levels: falling(levels).mean(1), NUMBER
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
    task = TASK._replace(identity=0.0)
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
        ({"task": TASK._replace(num_images=None)}, "task.num_images"),
        ({"function": 3}, "function"),
        ({"strategy": strategies.ASAP(), "num_inputs": 0}, "num_inputs"),
        ({"function": lambda x: x}, "2000 scores"),
    ],
)
def test_what_is_wrong_is_named(wrong, name):
    given = {"strategy": few(curtail=True), "task": TASK, "function": falling} | wrong
    with pytest.raises((TypeError, ValueError), match=name):
        strategies.sample(**given)
    with pytest.raises(ValueError, match="half_width"):
        few()
