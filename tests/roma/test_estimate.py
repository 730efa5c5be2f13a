"""How the estimates of classes make those of inputs."""

import numpy as np

from jaxrob.roma._count import counted
from jaxrob.roma._estimate import Estimate, summed, with_estimates, worth_more


def test_inputs_without_a_class_that_may_be_mistaken_have_no_answer():
    estimate = Estimate(
        np.array(["importance", "splitting"]),
        np.log([1e-5, 3e-5]),
        np.array([0.1, 0.2]),
        np.array([100, 200]),
    )
    found = summed(estimate, np.array([1, 1]), 4)
    assert found.status.tolist() == ["untrusted", "splitting", "untrusted", "untrusted"]
    np.testing.assert_allclose(np.exp(found.log_probability), [0, 4e-5, 0, 0])
    # Relative errors of independent estimates: sqrt(1e-6**2 + 6e-6**2) / 4e-5.
    assert abs(found.standard_error[1] - 0.1520691) < 1e-6
    assert found.evaluations.tolist() == [0, 300, 0, 0]


def test_where_splitting_got_stuck_there_is_a_bound_and_no_answer():
    estimate = Estimate(
        np.array(["incomplete", "bounded"]),
        np.log([1e-5, 1e-30]),
        np.array([0.1, 0.1]),
        np.array([100, 100]),
    )
    found = with_estimates(counted(np.array([0, 0]), 1000), np.arange(2), estimate)
    assert found.status.tolist() == ["incomplete", "bounded"]
    assert np.isnan(found.log_adversarial_probability).tolist() == [True, False]
    np.testing.assert_array_equal(found.log_low, -np.inf)
    np.testing.assert_allclose(
        np.exp(found.log_high), np.array([1e-5, 1e-30]) * np.exp(0.195996), rtol=1e-5
    )


def test_what_nothing_was_hit_for_is_nothing_and_no_small_number():
    estimate = Estimate(
        np.array(["untrusted", "importance"]),
        np.array([-np.inf, np.log(1e-5)]),
        np.array([np.inf, 0.1]),
        np.array([100, 200]),
    )
    with np.errstate(all="raise"):
        alone = summed(estimate, np.array([0, 1]), 2)
        np.testing.assert_array_equal(worth_more(estimate, np.array([0, 1])), [0])
    assert alone.log_probability[0] == -np.inf
    assert abs(alone.log_probability[1] - np.log(1e-5)) < 1e-12
