"""`global_robustness` as a whole, where the truth is an integral."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import jaxrob
from jaxrob import roma
from jaxrob.roma import global_robustness
from jaxrob.roma._population import drawn_inputs

KEY = jax.random.key(0)
DIM, EPSILON, DELTA = 6, 0.3, 0.6
# Logits by which class 1 is ahead, along the first pixel.
STEEPNESS, BOUNDARY = 40.0, 0.65


def network(variables, images):
    ahead = variables * (images[:, 0, 0, 0] - BOUNDARY)
    return jnp.stack([jnp.zeros_like(ahead), ahead], axis=-1)


CLASSIFIER = jaxrob.Classifier(network, np.float32(STEEPNESS))


def sampler(key):
    return jax.random.uniform(key, (DIM, 1, 1))


def labelled(key):
    image = sampler(key)
    return image, (image[0, 0, 0] > 0.5).astype(jnp.int32)


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


@pytest.fixture(scope="module")
def found():
    return global_robustness(CLASSIFIER, labelled, num_inputs=NUMBER, **SETTINGS)


def holds(result, expected):
    """All intervals of the population, at a confidence at which they surely do."""
    low, high = result.population_interval.T
    assert ((low <= expected) & (expected <= high)).all()
    error = np.sqrt(result.variance / result.inputs)
    assert (np.abs(result.probability - expected) < 4 * error).all()


@pytest.mark.slow
def test_by_predicted_class(found):
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
    how = {"by": "label", "class_names": ("a", "b"), "num_inputs": NUMBER}
    by_label = global_robustness(CLASSIFIER, labelled, **how, **SETTINGS)
    assert by_label.names == ("a", "b")
    holds(by_label, [truth(0, 0.5), truth(0.5, 1)])
    # Of the same inputs.
    both = [each.probability @ each.inputs for each in (found, by_label)]
    assert both[0] == pytest.approx(both[1])


def test_an_array_is_a_sample_too():
    rng = np.random.default_rng(0)
    images = rng.random((NUMBER, DIM, 1, 1), np.float32)
    labels = (images[:, 0, 0, 0] > 0.5).astype(int)
    sure = {"by": "label", "confidence_level": 0.9999}
    found = global_robustness(CLASSIFIER, images, labels, **sure, **SETTINGS)
    holds(found, [truth(0, 0.5), truth(0.5, 1)])
    inside = local(images[:, 0, 0, 0].astype(float))
    expected = np.array([inside[labels == label].mean() for label in (0, 1)])
    low, high = found.inputs_interval.T
    assert ((low <= expected) & (expected <= high)).all()
    # It is what the result of `assess` says.
    assessed = roma.assess(CLASSIFIER, images, labels, estimator="count", **SETTINGS)
    again = assessed.global_robustness(**sure)
    np.testing.assert_array_equal(found.population_interval, again.population_interval)


@pytest.mark.slow
def test_inputs_drawn_do_not_depend_on_how_many_there_are():
    few, _ = drawn_inputs(labelled, 1000, KEY)
    more, labels = drawn_inputs(labelled, 2100, KEY)
    np.testing.assert_array_equal(few, more[:1000])
    np.testing.assert_array_equal(labels, more[:, 0, 0, 0] > 0.5)
    assert len(np.unique(more[:, 0, 0, 0])) > 2090
    other, _ = drawn_inputs(labelled, 1000, jax.random.key(1))
    assert not (other == few).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_inputs": None}, "num_inputs"),
        ({"num_inputs": 0}, "num_inputs"),
        ({"labels": [0, 1]}, "labels"),
        ({"by": "label"}, "by"),
        ({"by": "class"}, "by"),
        ({"confidence_level": 2.0}, "confidence_level"),
        ({"class_names": ("a",)}, "class_names"),
        ({"images": lambda key: (sampler(key), key, key)}, "images"),
        ({"images": lambda key: labelled(key)[::-1]}, "images"),
        ({"images": lambda key: {"image": sampler(key)}}, "images"),
        ({"images": np.zeros((3, DIM, 1, 1))}, "num_inputs"),
        ({"classifier": network}, "classifier"),
        ({"key": 0}, "key"),
        ({"estimator": "mean"}, "estimator"),
    ],
)
def test_refusals(arguments, message):
    valid = {"classifier": CLASSIFIER, "images": sampler, "num_inputs": 10} | SETTINGS
    if message in ("by", "class_names", "estimator"):
        # Of an array, so that nothing is drawn before.
        valid |= {"images": np.zeros((3, DIM, 1, 1)), "num_inputs": None}
    with pytest.raises((TypeError, ValueError), match=message):
        global_robustness(**(valid | arguments))
