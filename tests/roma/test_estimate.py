"""Plain draws, the estimates that they make, and what the default one spends."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import jaxrob
from jaxrob import roma
from jaxrob.reporting import Requirement, verdict
from jaxrob.roma import RomaResult, assess
from jaxrob.roma._draws import counted
from jaxrob.roma._estimate import (
    pooled,
    summed,
    unknown,
    with_estimates,
    with_second_opinion,
)

from .planes import SHAPE, apply


def known(status, probability, error, evaluations):
    return unknown(len(status))._replace(
        status=np.array(status),
        log_probability=np.log(probability),
        standard_error=np.array(error),
        evaluations=np.array(evaluations),
    )


def test_a_second_opinion_is_pooled_or_excludes_the_first():
    first = known(["splitting"] * 4, [1e-5] * 4, [0.1] * 4, [100] * 4)
    second = unknown(4)._replace(
        other_log_probability=np.log([1e-5, 3e-5, np.nan, 1.2e-5]),
        other_error=np.array([0.1, 0.1, np.inf, 1e3]),
    )
    found = with_second_opinion(first, second, alike=True, confidence_level=0.95)
    # Three times as much, with errors of a tenth, is another answer.
    assert found.status.tolist() == ["splitting", "untrusted", "splitting", "splitting"]
    assert abs(found.standard_error[0] - 0.1 / np.sqrt(2)) < 1e-12
    np.testing.assert_allclose(np.exp(found.log_probability)[[0, 2, 3]], 1e-5)


def test_a_bound_is_excluded_from_above_alone():
    bounds = known(["bounded"] * 3, [1e-15] * 3, [0.1] * 3, [100] * 3)
    other = unknown(3)._replace(
        other_log_probability=np.log([1e-9, 1e-30, 1.1e-15]), other_error=np.full(3, 1)
    )
    for alike in (False, True):
        found = with_second_opinion(bounds, other, alike, 0.95)
        assert found.status.tolist() == ["untrusted", "bounded", "bounded"]
        assert np.isinf(found.standard_error).tolist() == [True, False, False]
        np.testing.assert_allclose(np.exp(found.log_probability), 1e-15)


def test_runs_that_differ_have_a_wider_interval_than_each_says():
    rng = np.random.default_rng(0)
    # The mean of three, each of which says 0.1 and is off by 0.3.
    runs = [
        known(["splitting"] * 2000, np.exp(off), [0.1] * 2000, [10] * 2000)
        for off in 0.3 * rng.standard_normal((3, 2000))
    ]
    found = pooled(runs)
    off = found.log_probability - 0.045  # The mean of such a log-normal variable.
    assert found.evaluations.tolist() == [30] * 2000
    assert np.mean(np.abs(off) < 1.96 * 0.1 / np.sqrt(3)) < 0.6
    assert np.mean(np.abs(off) < 1.96 * found.standard_error) > 0.8
    # One that got stuck leaves the first as it was.
    stuck = runs[1]._replace(status=np.full(2000, "incomplete"))
    found = pooled([runs[0], stuck])
    np.testing.assert_array_equal(found.log_probability, runs[0].log_probability)


def test_inputs_without_a_class_that_may_be_mistaken_have_no_answer():
    estimate = known(["importance", "splitting"], [1e-5, 3e-5], [0.1, 0.2], [100, 200])
    found = summed(estimate, np.array([1, 1]), 4)
    assert found.status.tolist() == ["untrusted", "splitting", "untrusted", "untrusted"]
    np.testing.assert_allclose(np.exp(found.log_probability), [0, 4e-5, 0, 0])
    # Relative errors of independent estimates: sqrt(1e-6**2 + 6e-6**2) / 4e-5.
    assert abs(found.standard_error[1] - 0.1520691) < 1e-6
    assert found.evaluations.tolist() == [0, 300, 0, 0]


def test_where_splitting_got_stuck_there_is_a_bound_and_no_answer():
    estimate = known(["incomplete", "bounded"], [1e-5, 1e-30], [0.1, 0.1], [100, 100])
    found = with_estimates(
        counted(np.array([0, 0]), 1000, 0.95), np.arange(2), estimate, 0.95
    )
    assert found.status.tolist() == ["incomplete", "bounded"]
    assert np.isnan(found.log_adversarial_probability).tolist() == [True, False]
    np.testing.assert_array_equal(found.log_low, -np.inf)
    np.testing.assert_allclose(
        np.exp(found.log_high), np.array([1e-5, 1e-30]) * np.exp(0.195996), rtol=1e-5
    )


def test_where_plain_draws_bound_better_hardly_a_hit_is_an_interval_alone():
    estimate = known(["incomplete"] * 3, [0.9] * 3, [0.1] * 3, [100] * 3)
    before = counted(np.array([0, 9, 10]), 1000, 0.95)
    found = with_estimates(before, np.arange(3), estimate, 0.95)
    assert found.status.tolist() == ["incomplete", "incomplete", "counted"]
    assert np.isnan(found.log_adversarial_probability).tolist() == [True, True, False]
    np.testing.assert_array_equal(found.log_low, before.log_low)
    np.testing.assert_array_equal(found.log_high, before.log_high)


def test_what_nothing_was_hit_for_is_nothing_and_no_small_number():
    with np.errstate(divide="ignore"):
        estimate = known(
            ["untrusted", "importance"], [0, 1e-5], [np.inf, 0.1], [100, 200]
        )
    with np.errstate(all="raise"):
        alone = summed(estimate, np.array([0, 1]), 2)
    assert alone.log_probability[0] == -np.inf
    assert abs(alone.log_probability[1] - np.log(1e-5)) < 1e-12


DIM = 144
KEY = jax.random.key(0)
DIRECTION = np.random.default_rng(0).choice([-1.0, 1.0], DIM)
EPSILON, DELTA = 0.1, 0.6
# The deviation of what a draw adds to the margin, and how many of them there are to the
# boundary.
DEVIATION = EPSILON * (DIM / 3) ** 0.5
FAR = np.array([1.0, 2.0, 2.7, 4.5, 9.0])
# The log-odds of delta are added to each distance.
TRUTH = stats.norm.logsf(FAR + math.log(DELTA / (1 - DELTA)) / 10)
IMAGES = np.float32(0.5 - FAR[:, None] * DEVIATION / DIM * DIRECTION)
IMAGES = IMAGES.reshape(-1, DIM, 1, 1)


def on_host(calls):
    """Two classes; the second one's margin is the sum of what draws add, less FAR."""

    def scores(batch):
        calls.append(len(batch))
        margin = (batch.reshape(len(batch), -1) - 0.5) @ DIRECTION / DEVIATION
        return np.stack([0 * margin, 10 * margin], axis=-1).astype(np.float32)

    return jaxrob.Classifier.from_host(scores, 2, name="scores", version="1")


def test_a_black_box_stays_within_ten_times_the_papers_draws():
    calls = []
    found = assess(on_host(calls), IMAGES, epsilon=EPSILON, key=KEY)
    assert found.estimator == "auto" and found.budget == 10_000
    assert found.evaluations.max() <= 10_000
    # Padding of blocks and the unperturbed images come on top.
    assert sum(calls) < 1.5 * found.evaluations.sum()
    assert found.status.tolist() == [*["counted"] * 3, *["undecided"] * 2]
    # Counted among 1,000 draws, or 9,000, by independent arithmetic.
    hits = found.effective_sample_size.astype(int)
    for one, draws in enumerate([1000, 9000, 9000, 9000, 9000]):
        low, high = stats.binomtest(int(hits[one]), draws).proportion_ci()
        np.testing.assert_allclose(np.exp(found.log_high[one]), high, rtol=1e-6)
        np.testing.assert_allclose(np.exp(found.log_low[one]), low, atol=1e-12)
    assert (found.log_low <= TRUTH).all() and (TRUTH <= found.log_high).all()
    assert np.isnan(found.plr[3:]).all() and (found.needed[:3] == 0).all()
    # What is rarer takes longer.
    assert 25_000 < found.needed[3] < found.needed[4] < 300_000
    (caveat,) = found.caveats
    assert "undecided (2 of 5)" in caveat
    # A mean is known as far as those allow.
    low, high = found.mean_plr_interval
    plr = np.where(np.isnan(found.plr), found.confidence_interval.T, found.plr)
    np.testing.assert_allclose([low, high], plr.mean(axis=1))
    assert low < found.mean_plr <= high < 1
    gate = [Requirement("plr", (low + high) / 2)]
    assert "not sure" in verdict(gate, {"RoMA": found})
    assert verdict([Requirement("plr", low - 1e-9)], {"RoMA": found}) == ""
    assert RomaResult.from_json(found.to_json()).to_json() == found.to_json()


def test_one_hot_outputs_need_no_budget_but_draws():
    def hot(batch):
        return np.eye(2)[((batch.reshape(len(batch), -1) - 0.5) @ DIRECTION > 0) * 1]

    classifier = jaxrob.Classifier.from_host(hot, 2, "probabilities")
    found = assess(classifier, IMAGES[3:], epsilon=EPSILON, budget=1000, key=KEY)
    assert (found.status == "undecided").all() and not found.needed.any()
    (caveat,) = found.caveats
    assert "one-hot" in caveat


@pytest.mark.slow
def test_without_a_limit_a_black_box_is_split():
    asked = {"epsilon": EPSILON, "budget": math.inf, "key": KEY}
    found = assess(on_host([]), IMAGES[2:4], **asked)
    assert (found.status == "splitting").all() and found.budget is None
    assert (found.needed == 0).all() and found.evaluations.min() > 10_000
    error = (found.log_high - found.log_low) / (2 * 1.96)
    assert (abs(found.log_adversarial_probability - TRUTH[2:4]) < 3.5 * error).all()


@pytest.mark.parametrize(
    ("budget", "estimator", "error"),
    [
        (999, "auto", ValueError),
        (1e4, "auto", TypeError),
        (9999, "splitting", ValueError),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(budget, estimator, error):
    with pytest.raises(error, match="budget"):
        assess(on_host([]), IMAGES, budget=budget, estimator=estimator, key=KEY)


def unsure(direction, images):
    """The wrong class's confidence is normal around 0.3, and never the largest."""
    x = images.reshape(len(images), -1) - 0.2
    wrong = 0.3 + 0.04 * x @ direction / DEVIATION
    return jnp.stack([1 - wrong, wrong], axis=-1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the images of")
def test_the_papers_fit_says_where_the_draws_contradict_it():
    classifier = jaxrob.Classifier(unsure, np.float32(DIRECTION), "probabilities")
    flat = np.full((3, DIM, 1, 1), 0.2, np.float32)
    asked = {"epsilon": EPSILON, "estimator": "roma", "key": KEY}
    with pytest.warns(jaxrob.RobustnessWarning, match="contradict"):
        found = assess(classifier, flat, delta=0.36, **asked)
    assert found.answered.any() and not found.hits.any()
    dark, said = found.warnings
    assert "0 of 1000 draws" in said and "nearly black" in dark
    # A fit that is not contradicted is not warned of; what it assumes is said.
    fine = assess(classifier, flat, delta=0.45, **asked)
    assert fine.warnings == (dark,) and "assumed" in fine.caveats[0]


# Below a delta of one half Definition 3 asks for the class as well as for its
# confidence.
@pytest.mark.parametrize(
    "estimator", ["count", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_hits_are_those_of_the_draws_of_each_key(estimator):
    number, delta, rng = 200, 0.3, np.random.default_rng(0)
    planes = np.float32(rng.normal(size=(6, 64)) / 8), np.full(6, -0.2, np.float32)
    variables = *planes, np.bool_(False)
    images = rng.random((3, *SHAPE), np.float32)
    key, ball = jax.random.key(5), roma.ball("linf", 0.9, clip=True)
    settings = {"perturbation": ball, "num_samples": number, "key": key}
    classifier = jaxrob.Classifier(apply, variables)
    seen = roma.assess(classifier, images, delta=delta, estimator=estimator, **settings)

    @jax.jit
    @jax.vmap
    def logits_of(index, image):
        def one(draw):
            own = jax.random.fold_in(jax.random.fold_in(key, index), draw)
            return ball.perturbed(image, ball.draw(own, image))

        return apply(variables, jax.vmap(one)(np.arange(number)))

    logits = logits_of(np.arange(3), images)
    p = special.softmax(np.float64(logits), axis=-1)
    wrong = p.argmax(axis=-1) != seen.excluded[:, None]
    # For the cascade they are sums over classes, whose events exclude each other.
    expected = (wrong & (p.max(axis=-1) >= delta)).sum(axis=1)
    np.testing.assert_array_equal(seen.hits, expected)
    assert expected.all() and (p.argmax(axis=-1) == 2).any()
