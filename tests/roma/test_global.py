"""`global_robustness` as a whole, where the truth is an integral."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import jaxrob
from jaxrob import roma

KEY = jax.random.key(0)
DIM, EPSILON, DELTA = 6, 0.3, 0.6
# Logits by which class 1 is ahead, along the first pixel.
STEEPNESS, BOUNDARY = 40.0, 0.65


def network(variables, images):
    ahead = variables * (images[:, 0, 0, 0] - BOUNDARY)
    return jnp.stack([jnp.zeros_like(ahead), ahead], axis=-1)


CLASSIFIER = jaxrob.Classifier(network, np.float32(STEEPNESS))


def local(x):
    """By how far the first pixel, uniform in the ball, must go."""
    margin = np.log(DELTA / (1 - DELTA)) / STEEPNESS
    distance = np.abs(x - BOUNDARY) + margin
    return np.clip(1 - distance / EPSILON, 0, 1) / 2


def truth(low, high):
    points = [0.35, 0.64, BOUNDARY, 0.66]
    return integrate.quad(local, low, high, points=points)[0] / (high - low)


NUMBER = 3000
SETTINGS = {"epsilon": EPSILON, "delta": DELTA, "num_samples": 16, "key": KEY}
SETTINGS["estimator"] = "count"


@pytest.fixture(scope="module")
def found():
    images = np.random.default_rng(0).random((NUMBER, DIM, 1, 1), np.float32)
    labels = (images[:, 0, 0, 0] > 0.5).astype(int)
    return images, roma.assess(CLASSIFIER, images, labels, **SETTINGS)


def holds(result, expected):
    """All intervals of the population, at a confidence at which they surely do."""
    low, high = result.population_interval.T
    assert ((low <= expected) & (expected <= high)).all()
    error = np.sqrt(result.variance / result.inputs)
    assert (np.abs(result.probability - expected) < 4 * error).all()


@pytest.mark.slow
def test_by_predicted_class(found):
    found = found[1].global_robustness()
    assert found.names == ("0", "1") and found.by == "predicted"
    holds(found, [truth(0, BOUNDARY), truth(BOUNDARY, 1)])
    share = stats.binomtest(int(found.inputs[0]), 3000).proportion_ci(0.999)
    assert share.low < BOUNDARY < share.high
    widths = np.diff(found.population_interval)[:, 0]
    assert (widths < 0.7 * 2 * np.sqrt(np.log(80) / (2 * found.inputs))).all()
    # What the draws leave open, of what inputs leave open as well.
    x = np.linspace(0, BOUNDARY, 200_001)
    within = (local(x) * (1 - local(x))).mean() / 16
    assert found.draws_variance[0] == pytest.approx(within, rel=0.2)
    assert found.variance[0] == pytest.approx(within + local(x).var(), rel=0.2)


def test_by_label(found):
    by_label = found[1].global_robustness("label", class_names=("a", "b"))
    assert by_label.names == ("a", "b")
    holds(by_label, [truth(0, 0.5), truth(0.5, 1)])
    # Of the same inputs.
    whole = found[1].global_robustness()
    both = [each.probability @ each.inputs for each in (whole, by_label)]
    assert both[0] == pytest.approx(both[1])


def test_of_the_inputs_at_hand(found):
    images, assessed = found
    sure = assessed.global_robustness("label", confidence_level=0.9999)
    inside = local(images[:, 0, 0, 0].astype(float))
    expected = np.array([inside[assessed.labels == label].mean() for label in (0, 1)])
    low, high = sure.inputs_interval.T
    assert ((low <= expected) & (expected <= high)).all()
