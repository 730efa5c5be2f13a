"""Importance sampling and the cascade, against exact probabilities."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.linear_truth import (
    linear_l2_log_probability,
    linear_linf_log_probability,
    threshold,
)
from scipy import special, stats

import jaxrob
from jaxrob.roma import _importance, assess
from jaxrob.roma._ball import ball
from jaxrob.roma._estimate import unknown
from jaxrob.roma._evidence import Evidence, evidence
from jaxrob.roma._weights import weigh

pytestmark = pytest.mark.usefixtures("optimised")

KEY = jax.random.key(0)
EPSILON, DELTA = 0.1, 0.6
LOGIT = float(special.logit(DELTA))
SHAPE, DIM = (4, 5, 1), 20
WEIGHTS = np.random.default_rng(0).standard_normal(DIM)


def apply(variables, images):
    """Three classes: 0, and two whose logits are linear in u = (x - 1/2) / epsilon."""
    weights, offsets = variables
    u = (images.reshape(len(images), -1) - 0.5) / EPSILON
    wrong = jnp.matmul(u, weights.T, precision="highest") + offsets
    return jnp.pad(wrong, ((0, 0), (1, 0)))


def deviation(norm):
    return np.linalg.norm(WEIGHTS) / np.sqrt(3 if norm == "linf" else DIM + 2)


def log_probability(norm, t):
    """Of the weights' side of the ball, t standard deviations away."""
    t = t * deviation(norm)
    if norm == "linf":
        return linear_linf_log_probability(WEIGHTS, t)
    return linear_l2_log_probability(np.linalg.norm(WEIGHTS), DIM, t)


def distance(norm, probability):
    high = np.abs(WEIGHTS).sum() if norm == "linf" else np.linalg.norm(WEIGHTS)
    return threshold(
        lambda t: log_probability(norm, t) if t else np.log(0.5),
        np.log(probability),
        0.999 * high / deviation(norm),
    )


def linear(norm, first, second=None):
    """Distinctly misclassified as class 1 (or 2) with the probability given.

    The classes are on opposite sides, so that on the boundary of one the other's
    probability is nothing, and scores are linear to within rounding.
    """
    steep = 6.0  # logits in a standard deviation
    unit = WEIGHTS / deviation(norm) * steep
    weights, offsets = [unit, -unit], []
    for probability in (first, second):
        far = 60 if probability is None else steep * distance(norm, probability)
        offsets.append(LOGIT - far)
    if second is None:
        weights[1] = 0 * unit
    return jaxrob.Classifier(apply, (np.float32(weights), np.float32(offsets)))


def run(classifier, norm, number=200, estimator="importance", seed=0):
    # One image at many indices: independent repetitions, in one call.
    images = np.full((number, *SHAPE), 0.5, np.float32)
    return assess(
        classifier,
        images,
        epsilon=EPSILON,
        delta=DELTA,
        norm=norm,
        estimator=estimator,
        budget=math.inf,
        key=jax.random.key(seed),
    )


def check_covers(result, log_p, least=0.92):
    covered = (result.log_low <= log_p) & (log_p <= result.log_high)
    assert covered[result.answered].mean() >= least
    ratio = np.exp(result.log_adversarial_probability - log_p)[result.answered]
    assert ratio.mean() == pytest.approx(1, abs=4 * ratio.std() / len(ratio) ** 0.5)
    assert ratio.std() < 0.15


# Of 32 intervals of 95 % at least 26, with probability 0.999.
@pytest.mark.parametrize(
    ("norm", "probability", "number", "least"),
    [("linf", 1e-6, 32, 26 / 32)]
    + [
        pytest.param(norm, probability, 200, 0.92, marks=pytest.mark.slow)
        for norm in ("linf", "l2")
        for probability in (1e-2, 1e-6, 1e-10)
    ],
)
def test_intervals_cover_the_exact_probability(norm, probability, number, least):
    result = run(linear(norm, probability), norm, number)
    # Particles that see more contradict by chance now and then.
    assert (result.status == "importance").mean() >= 0.99
    assert (result.status[~result.answered] == "untrusted").all()
    check_covers(result, np.log(probability), least)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["importance", "auto"])
def test_probabilities_of_two_classes_add_up(estimator):
    # The rarer class is never among the plain draws, or both are not.
    for first, second in ((2e-3, 1e-3), (1e-7, 3e-7)):
        result = run(linear("linf", first, second), "linf", 128, estimator)
        assert (result.status == "importance").all()
        check_covers(result, np.log(first + second))
        assert (result.modes > 0.05).sum(axis=1).tolist() == [2] * 128
        assert np.median(result.evaluations) < 12000


@pytest.mark.slow
def test_a_class_far_less_probable_costs_nothing():
    result = run(linear("linf", 1e-3, 1e-9), "linf", 64)
    alone = run(linear("linf", 1e-3), "linf", 64)
    assert np.median(result.evaluations) <= 1.2 * np.median(alone.evaluations)
    check_covers(result, np.log(1e-3 + 1e-9))


@pytest.mark.slow
def test_auto_counts_where_that_is_enough():
    result = run(linear("linf", 0.2), "linf", 128, "auto")
    assert (result.status == "counted").all()
    check_covers(result, np.log(0.2))
    low, high = np.transpose(
        [stats.binomtest(int(h), 1000).proportion_ci() for h in result.hits]
    )
    np.testing.assert_allclose(np.exp(result.log_low), low, rtol=1e-6)
    np.testing.assert_allclose(np.exp(result.log_high), high, rtol=1e-6)


@pytest.mark.slow
def test_hopeless_boundaries_are_bounded():
    # No point of the ball is misclassified; the bound must not be below the limit
    # of tilts, nor the answer above the bound.
    weights = np.float32([WEIGHTS, 0 * WEIGHTS])
    offsets = np.float32([LOGIT - 1.5 * np.abs(WEIGHTS).sum(), -60])
    result = run(jaxrob.Classifier(apply, (weights, offsets)), "linf", 64)
    assert (result.status == "bounded").all()
    assert (result.log_low == -np.inf).all()
    assert (result.log_adversarial_probability < -40).all()
    assert (result.log_adversarial_probability > -100).all()
    assert (result.log_high >= result.log_adversarial_probability).all()


@pytest.mark.slow
def test_a_plateau_gives_no_bound():
    # The gradient leads nowhere that float32 can go: all scores are equal, and weights
    # alone say nothing.
    classifier = linear("linf", 1e-3)
    images = np.full((64, *SHAPE), 0.5, np.float32)
    kwargs = {"epsilon": 1e-9, "delta": DELTA, "key": KEY}
    result = assess(classifier, images, estimator="importance", **kwargs)
    assert (result.status == "untrusted").all()
    assert not result.answered.any()
    # Splitting gets stuck there, and no draw hits: nothing but a bound is known.
    result = assess(classifier, images, estimator="auto", budget=math.inf, **kwargs)
    assert (result.status == "incomplete").all()
    assert np.isfinite(result.log_high).all()
    assert np.exp(result.log_high) == pytest.approx(1 - 0.025**1e-3, rel=1e-6)


@pytest.mark.slow
def test_gradients_that_are_nan_are_left_out():
    def root(variables, images):
        # Flat for half of the ball, where the square root's gradient is 0 / 0.
        logits = apply(variables[0], images)
        margin = logits[:, 1:2] + variables[1]
        return jnp.where(
            jnp.arange(3) == 1, jnp.sqrt(jnp.maximum(margin, 0)) - 3 + LOGIT, logits
        )

    weights, offsets = linear("linf", 1e-4).variables
    # sqrt(margin) = 3 where the linear score passes its threshold.
    shift = np.float32(9 - LOGIT)
    classifier = jaxrob.Classifier(root, ((weights, offsets), shift))
    result = run(classifier, "linf", 64)
    assert (result.status == "importance").all()
    error = result.log_adversarial_probability - np.log(1e-4)
    assert np.abs(error).max() < 0.4


def test_weigh_against_its_definition():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((3, 1000))
    log_weights = rng.standard_normal((3, 1000)) * 0.3 - 20
    found = weigh(scores, log_weights)
    terms = np.where(scores >= 0, np.exp(log_weights), 0)
    np.testing.assert_allclose(np.exp(found.log_probability), terms.mean(axis=1))
    error = terms.std(axis=1) / terms.mean(axis=1) / np.sqrt(1000)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-9)
    assert found.trusted.all() and not found.bounded.any()


def test_weigh_distrusts_uneven_weights_and_few_or_many_hits():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((4, 1000))
    log_weights = np.full((4, 1000), -5.0)
    log_weights[0] += rng.standard_normal(1000) * 3  # uneven
    scores[1] -= 5  # no hit
    scores[2] += 5  # nothing but hits
    found = weigh(scores, log_weights)
    np.testing.assert_array_equal(found.trusted, [False, False, False, True])
    assert found.log_probability[1] == -np.inf and not found.bounded.any()
    # A bound needs even weights too.
    log_weights = np.stack([np.full(1000, -60.0), -60 + 6 * rng.standard_normal(1000)])
    found = weigh(scores[1:2].repeat(2, 0), log_weights)
    np.testing.assert_array_equal(found.bounded, [True, False])
    assert found.log_probability[0] == pytest.approx(-60 + np.log(0.5), abs=1e-2)


def both_sides(variables, images):
    unit, slopes, distances = variables
    u = (images.reshape(len(images), -1) - 0.5) / EPSILON
    s = jnp.matmul(u, unit, precision="highest")
    margin = ((jnp.stack([s, -s], axis=1) - distances) * slopes).max(axis=1) + LOGIT
    return jnp.stack([0 * margin, margin], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slopes", "distances"), [((3, 3), (3.7, 3.7)), ((1, 3), (4.4, 3.4))]
)
def test_two_modes_of_one_class(slopes, distances):
    # One class on both sides of the ball: as probable on either, and a far side that
    # the mean gradient leads away from.
    unit = np.float32(WEIGHTS / deviation("linf"))
    variables = unit, np.float32(slopes), np.float32(distances)
    result = run(jaxrob.Classifier(both_sides, variables), "linf", 64)
    log_p = np.logaddexp(*(log_probability("linf", t) for t in distances))
    check_covers(result, log_p)


@pytest.mark.slow
def test_a_users_own_perturbation_is_not_taken_for_a_ball():
    whole = ball("linf", EPSILON)

    def half(image, latent, size):
        return whole.apply(image, latent / 2, size)

    mine = dataclasses.replace(whole, apply=half)
    images = np.full((2, *SHAPE), 0.5, np.float32)
    kwargs = {"perturbation": mine, "delta": DELTA, "key": KEY}
    with pytest.raises(ValueError, match="needs a classifier that JAX can differ"):
        assess(linear("linf", 0.05), images, estimator="importance", **kwargs)
    result = assess(
        linear("linf", 0.05), images, estimator="auto", budget=math.inf, **kwargs
    )
    assert (result.status == "splitting").all()


@pytest.mark.parametrize(("shift", "status"), [(3, "untrusted"), (-9, "importance")])
def test_particles_that_find_more_are_believed_and_those_that_find_less_not(
    monkeypatch, shift, status
):
    def shifted(*args, **kwargs):
        seen = evidence(*args, **kwargs)
        error = np.full(len(seen.standard_error), 0.5)
        log_p = np.log(1e-6) + shift + np.zeros(len(error))
        return seen._replace(log_probability=log_p, standard_error=error)

    monkeypatch.setattr(_importance, "evidence", shifted)
    found = run(linear("linf", 1e-6), "linf", 32)
    assert (found.status == status).all()
    assert (np.isnan(found.log_low) == (status == "untrusted")).all()


def test_what_particles_that_a_budget_ended_say():
    nothing = np.full(6, np.nan)
    level = np.log([1e-9, 1e-9, 1e-9, 1e-9, 1e-6, 1e-9])
    level[5] = -np.inf  # They arrived.
    seen = Evidence([None] * 6, nothing, np.full(6, 0.7), np.zeros(6, int), level)
    status = np.array([*["untrusted"] * 3, *["importance"] * 2, "untrusted"])
    log_p = np.array([-np.inf, np.log(1e-8), -np.inf, -25, -25, -30])
    found = unknown(6)._replace(
        status=status,
        log_probability=log_p,
        standard_error=np.where(status == "importance", 0.1, np.inf),
    )
    plain_hits = np.array([0, 0, 1, 0, 0, 0])
    found = _importance._bounded_by_particles(found, seen, plain_hits)
    # Not where the draws, or plain ones, went beyond that level, nor where it is low.
    assert found.status.tolist() == [
        "bounded", "untrusted", "untrusted", "importance", "untrusted", "untrusted"
    ]  # fmt: skip
    np.testing.assert_allclose(found.log_probability[[0, 3]], [np.log(1e-9), -25])
    assert found.standard_error[[0, 3]].tolist() == [0.7, 0.1]


def test_the_divergence_that_particles_allow():
    level = np.array([-np.inf, -np.inf, -np.inf, np.log(1e-9)])
    log_p = np.array([np.log(1e-6), np.nan, np.log(0.9), np.nan])
    error = np.array([0.5, np.nan, 0.1, 0.0])
    seen = Evidence([None] * 4, log_p, error, np.zeros(4, int), level)
    least = _importance._least_divergence(seen)
    p = np.array([1e-6 * np.exp(1.5), 0.5, 0.5, 1e-9])
    np.testing.assert_allclose(least, stats.norm.isf(p) ** 2 / 2, atol=1e-12)
