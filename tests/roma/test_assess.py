"""`assess` as a whole: what it depends on, what it refuses, other perturbations."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import distributions
from scipy import stats

import jaxrob
from jaxrob import roma
from jaxrob.roma import assess
from jaxrob.roma._draws import check_valid
from jaxrob.roma._estimators import estimator_named

from . import planes

KEY = jax.random.key(0)
SHAPE = (4, 5, 1)
SETTINGS = {"epsilon": 0.15, "num_samples": 300, "key": KEY}
RNG = np.random.default_rng(0)
FIRST = RNG.standard_normal((20, 16)).astype(np.float32)
SECOND = np.float32(RNG.standard_normal((16, 4)) * 1.5)
IMAGES = RNG.integers(0, 256, (20, *SHAPE), dtype=np.uint8)


def network(variables, images):
    """A small nonlinear network of four classes."""
    first, second = variables
    return jnp.tanh((images.reshape(len(images), -1) - 0.5) @ first) @ second


CLASSIFIER = jaxrob.Classifier(network, (FIRST, SECOND))
PLAIN = [name for name in roma.ESTIMATORS if not estimator_named(name).most]
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def results():
    return {
        name: assess(CLASSIFIER, IMAGES, estimator=name, **SETTINGS) for name in PLAIN
    }


def check_same(result, reference, number):
    for name in ("status", "excluded", "hits", "evaluations"):
        one, other = (getattr(each, name) for each in (result, reference))
        np.testing.assert_array_equal(one, other[:number])
    for name in ("log_adversarial_probability", "log_low", "log_high"):
        one, other = (getattr(each, name) for each in (result, reference))
        np.testing.assert_allclose(one, other[:number], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", PLAIN)
def test_further_inputs_and_labels_change_nothing(results, estimator):
    labels = np.arange(16) % 4
    settings = SETTINGS | {"estimator": estimator}
    result = assess(CLASSIFIER, IMAGES[:16], labels, **settings)
    check_same(result, results[estimator], 16)
    np.testing.assert_array_equal(result.categorial().inputs, np.bincount(labels))


@pytest.mark.slow
def test_samples_count_by_their_mean_probability():
    variables = [(FIRST, SECOND), (SECOND.T.repeat(5, axis=0), SECOND[::-1])]

    def logits(variables, images):
        return jnp.stack([network(v, images) for v in variables])

    def mean(variables, images):
        return jax.nn.softmax(logits(variables, images)).mean(axis=0)

    settings = SETTINGS | {"estimator": "count", "delta": 0.55}
    samples = assess(jaxrob.Classifier(logits, variables), IMAGES[:7], **settings)
    means = assess(
        jaxrob.Classifier(mean, variables, "probabilities"), IMAGES[:7], **settings
    )
    np.testing.assert_array_equal(samples.excluded, means.excluded)
    assert np.abs(samples.hits - means.hits).max() <= 1 and samples.hits.any()


@pytest.mark.slow
def test_stochastic_classifiers_are_answered():
    def noisy(variables, images, keys):
        noise = jax.vmap(lambda key: jax.random.normal(key, (4,)))(keys)
        return network(variables, images) + noise

    classifier = jaxrob.Classifier(noisy, (FIRST, SECOND), stochastic=True)
    # An answer is drawn together with the perturbation: a hit in either way of drawing.
    result = assess(classifier, IMAGES[:4], estimator="splitting", **SETTINGS)
    settings = SETTINGS | {"num_samples": 20_000}
    many = assess(classifier, IMAGES[:4], estimator="count", **settings)
    known = result.answered & (many.hits >= 30)
    assert known.sum() >= 2 and (result.status[known] == "splitting").all()
    # Each is off by more than both of its 95 % allow now and then.
    assert (result.log_low - 0.3 <= many.log_high)[known].all()
    assert (result.log_high + 0.3 >= many.log_low)[known].all()


# Other perturbations.


SHIFT = jaxrob.Alteration("shift", lambda image, level: image + level, -0.5, 1.5, 0.0)


@pytest.mark.slow
def test_levels_have_the_distribution_given():
    some = [
        roma.from_alteration(SHIFT),
        roma.from_alteration(SHIFT, distributions.Normal(1.0, 1.0)),
        roma.from_sampler(shifted),
        roma.from_alteration(SHIFT, clip=True),
    ]

    def one(key, image):
        return [each.perturbed(image, each.draw(key, image)).max() for each in some]

    keys = jax.random.split(jax.random.key(4), 4000)
    uniform, by_normal, by_sampler, clipped = jax.device_get(
        jax.jit(jax.vmap(one, (0, None)))(keys, np.zeros((1, 1, 1)))
    )
    # Renormalised to the alteration's range.
    for drawn, expected in (
        (uniform, stats.uniform(-0.5, 2)),
        (by_normal, stats.truncnorm(-1.5, 0.5, 1, 1)),
        (by_sampler, stats.uniform(-1, 2)),
    ):
        assert stats.kstest(drawn, expected.cdf).pvalue > 1e-3
    assert clipped.min() == 0 and clipped.max() == 1


def brightness(boundary):
    """Misclassified where the mean of a grey image passes this, 20 logits a unit."""
    weights = np.full(planes.DIM, 20 * planes.EPSILON / planes.DIM)
    return planes.classifier([(weights, 20 * (0.5 - boundary))])


GREY = np.full((3, *planes.SHAPE), 0.5, np.float32)


def shifted(key, image):
    return image + jax.random.uniform(key, (), minval=-1, maxval=1)


@pytest.mark.parametrize(
    ("perturbation", "p"), [(SHIFT, 0.6), pytest.param(shifted, 0.35, marks=SLOW)]
)
def test_alterations_and_samplers(perturbation, p):
    number = 3000
    settings = {"perturbation": perturbation, "key": KEY, "num_samples": number}
    result = assess(brightness(0.8), GREY, estimator="auto", **settings)
    assert (result.status == "counted").all()
    assert result.epsilon is None and result.perturbation in ("shift", "shifted")
    hits = np.ravel([result.hits, number - result.hits])
    expected = number * np.repeat([p, 1 - p], 3)
    assert stats.chisquare(hits, expected).pvalue > 1e-3


@pytest.mark.slow
def test_rare_levels_are_split():
    for log10_p in (-2, -5):
        classifier = brightness(2 - 2 * 10.0**log10_p)
        asked = {"perturbation": SHIFT, "budget": math.inf, "key": KEY}
        result = assess(classifier, GREY, estimator="auto", **asked)
        assert set(result.status) <= {"splitting"}
        truth = log10_p * np.log(10)
        assert ((result.log_low <= truth) & (truth <= result.log_high)).all()
        assert np.abs(result.log_adversarial_probability - truth).max() < 0.5


# Refusals.

HOST = jaxrob.Classifier.from_host(lambda images: np.zeros((len(images), 4)), 4)
BALL = roma.ball("linf", 0.1)
# A user's own, which is not taken for a ball.
HALF = dataclasses.replace(BALL, apply=lambda image, latent, size: image + latent / 2)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"num_samples": 7}, ValueError, "num_samples"),
        ({"norm": "l7"}, ValueError, "norm"),
        ({"clip": True, "perturbation": BALL}, ValueError, "clip"),
        ({"estimator": "best"}, ValueError, "estimator"),
        ({"images": np.zeros((0, 4, 5, 1))}, ValueError, "empty"),
        ({"images": np.full((1, 4, 5, 1), np.nan)}, ValueError, "images"),
        ({"images": np.zeros((1, 3, 3, 1))}, ValueError, "images"),
        ({"labels": [4]}, ValueError, "4"),
        ({"classifier": network}, TypeError, "Classifier"),
        (
            {"classifier": dataclasses.replace(CLASSIFIER, outputs="scores")},
            ValueError,
            "scores",
        ),
        ({"key": 3}, TypeError, "key"),
        ({"perturbation": 3}, TypeError, "perturbation"),
        ({"perturbation": lambda key, image: image[0]}, ValueError, "shape"),
        ({"level_distribution": distributions.Uniform(0, 1)}, ValueError, "level_"),
        ({"classifier": HOST, "estimator": "importance"}, ValueError, "differentiate"),
        ({"perturbation": HALF, "estimator": "importance"}, ValueError, "a ball"),
        ({"perturbation": lambda image, key: shifted(key, image)}, ValueError, "key"),
        ({"perturbation": shifted, "estimator": "splitting"}, ValueError, "a move"),
    ],
)
def test_refusals(changed, error, message):
    arguments = {
        "classifier": CLASSIFIER,
        "images": np.full((1, *SHAPE), 0.5, np.float32),
        "labels": None,
        "key": KEY,
    }
    with pytest.raises(error, match=message):
        assess(**(arguments | changed))


def test_outputs_that_are_no_distributions_are_refused():
    check_valid(np.ones(3, bool), np.arange(3))
    with pytest.raises(ValueError, match="2 of the inputs, first of input 8"):
        check_valid(np.array([True, False, False, False]), np.array([7, 8, 8, 9]))


def sometimes_nan(variables, images):
    # No unperturbed input is so bright.
    total = images.sum(axis=(1, 2, 3))
    return jnp.where(total[:, None] > 10.5, jnp.nan, network(variables, images))


def of_its_batch(variables, images):
    """Its rows sum to 1 in small batches alone."""
    p = jax.nn.softmax(network(variables, images))
    return p if len(images) < 50 else 2 * p


@pytest.mark.slow
@pytest.mark.parametrize(
    ("apply", "outputs"), [(sometimes_nan, "logits"), (of_its_batch, "probabilities")]
)
def test_refuses_nan_and_answers_that_depend_on_the_batch(apply, outputs):
    images = np.full((2, *SHAPE), 0.5, np.float32)
    images[0] = 0.1 if outputs == "logits" else 0.5
    classifier = jaxrob.Classifier(apply, (FIRST, SECOND), outputs)
    first = 1 if outputs == "logits" else 0
    with pytest.raises(ValueError, match=f"first of input {first}"):
        assess(classifier, images, estimator="count", **SETTINGS)
