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


SETTINGS = {"epsilon": EPSILON, "delta": DELTA, "num_samples": 16, "key": KEY}


@pytest.fixture(scope="module")
def found():
    return global_robustness(CLASSIFIER, sampler, num_inputs=3000, **SETTINGS)


def holds(result, expected):
    """All intervals of the population, at a confidence at which they surely do."""
    low, high = result.population_interval.T
    assert ((low <= expected) & (expected <= high)).all()
    error = np.sqrt(result.variance / result.inputs)
    assert (np.abs(result.probability - expected) < 4 * error).all()


def test_by_predicted_class(found):
    assert found.names == ("0", "1") and found.by == "predicted"
    holds(found, [truth(0, BOUNDARY), truth(BOUNDARY, 1)])
    share = stats.binomtest(int(found.inputs[0]), 3000).proportion_ci(0.999)
    assert share.low < BOUNDARY < share.high
    assert (found.status == "given").all()
    widths = np.diff(found.population_interval)[:, 0]
    assert (np.diff(found.population_asymptotic)[:, 0] < widths).all()
    assert (widths < 0.7 * 2 * np.sqrt(np.log(80) / (2 * found.inputs))).all()
    # What the draws leave open, of what inputs leave open as well.
    x = np.linspace(0, BOUNDARY, 200_001)
    within = (local(x) * (1 - local(x))).mean() / 16
    assert found.draws_variance[0] == pytest.approx(within, rel=0.2)
    assert found.variance[0] == pytest.approx(within + local(x).var(), rel=0.2)


def test_by_label_and_by_nothing():
    found = global_robustness(
        CLASSIFIER,
        labelled,
        num_inputs=2000,
        by="label",
        class_names=("a", "b"),
        **SETTINGS,
    )
    assert found.names == ("a", "b")
    holds(found, [truth(0, 0.5), truth(0.5, 1)])
    everything = global_robustness(
        CLASSIFIER, labelled, num_inputs=2000, by="all", **SETTINGS
    )
    holds(everything, truth(0, 1))
    mean = found.probability @ found.inputs / 2000
    assert everything.probability == pytest.approx(mean)


def test_an_array_is_a_sample_too():
    rng = np.random.default_rng(0)
    images = rng.random((500, DIM, 1, 1), np.float32)
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
def test_another_estimator_counts_with_its_intervals():
    """ "logit" has none, so that nothing is known for sure."""
    images = np.random.default_rng(1).random((40, DIM, 1, 1), np.float32)
    everything = {"by": "all", "estimator": "logit"}
    found = global_robustness(CLASSIFIER, images, **everything, **SETTINGS)
    assessed = roma.assess(CLASSIFIER, images, estimator="logit", **SETTINGS)
    again = assessed.global_robustness("all", source="estimator")
    assert found.source == "estimator"
    assert found.probability == again.probability
    np.testing.assert_array_equal(found.population_interval, [[0, 1]])
    by_draws = assessed.global_robustness("all")
    counted = global_robustness(CLASSIFIER, images, by="all", **SETTINGS)
    assert by_draws.probability == counted.probability


def test_inputs_drawn_do_not_depend_on_how_many_there_are():
    few, _ = drawn_inputs(sampler, 1000, KEY)
    more, labels = drawn_inputs(labelled, 2100, KEY)
    np.testing.assert_array_equal(few, more[:1000])
    np.testing.assert_array_equal(labels, more[:, 0, 0, 0] > 0.5)
    assert len(np.unique(more[:, 0, 0, 0])) > 2090
    again, _ = drawn_inputs(sampler, 3, jax.random.key(1))
    assert not (again == few[:3]).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_inputs": None}, "num_inputs must be an integer; got None"),
        ({"num_inputs": 0}, "num_inputs must be at least 1"),
        ({"labels": [0, 1]}, "images must be an array where there are labels"),
        ({"by": "label"}, 'by="label" needs labels'),
        ({"by": "class"}, "by must be one of"),
        ({"confidence_level": 2.0}, "confidence_level must"),
        ({"class_names": ("a",)}, r"class_names must name all 2 classes; got \('a',\)"),
        (
            {"images": lambda key: (sampler(key), key, key)},
            "images must be an array, or",
        ),
        ({"images": lambda key: labelled(key)[::-1]}, "images must be an array, or"),
        (
            {"images": lambda key: {"image": sampler(key)}},
            "images must be an array, or",
        ),
        ({"images": np.zeros((3, DIM, 1, 1))}, "num_inputs needs a function"),
        ({"classifier": network}, "classifier must be a jaxrob.Classifier"),
        ({"key": 0}, "key must be a random key"),
        ({"estimator": "mean"}, "estimator must be one of"),
    ],
)
def test_refusals(arguments, message):
    valid = {"classifier": CLASSIFIER, "images": sampler, "num_inputs": 10} | SETTINGS
    with pytest.raises((TypeError, ValueError), match=message):
        global_robustness(**(valid | arguments))
