"""How the estimates of classes make those of inputs."""

import numpy as np
from scipy import special

from jaxrob.roma._draws import counted
from jaxrob.roma._estimate import (
    pooled,
    summed,
    unknown,
    with_estimates,
    with_second_opinion,
)


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
    # Nothing is answered, and the interval holds both.
    answers = with_estimates(
        counted(np.zeros(4, int), 1000, 0.95), np.arange(4), found, 0.95
    )
    assert np.isnan(answers.log_adversarial_probability).tolist() == [0, 1, 0, 0]
    ends = answers.log_low[1], answers.log_high[1]
    half = 0.1 * special.ndtri(0.975)
    np.testing.assert_allclose(ends, np.log([1e-5, 3e-5]) + [-half, half])


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
