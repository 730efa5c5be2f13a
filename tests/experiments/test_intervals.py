"""Intervals over inputs, against Student's t and with uninformative inputs."""

import numpy as np
from common import intervals
from scipy import stats


def test_the_mean_of_many_is_near_students():
    values = np.random.default_rng(0).normal(3, 2, 400)
    found = intervals.over_inputs(np.mean, values)
    np.testing.assert_allclose(found, intervals.student_t(values), atol=0.03)
    assert found == intervals.over_inputs(np.mean, values)


def test_pairs_stay_together():
    """Paired differences have a narrower interval than independent samples."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 5, 200)
    y = x + rng.normal(1, 0.1, 200)

    def difference(x, y, axis):
        return y.mean(axis=axis) - x.mean(axis=axis)

    low, high = intervals.over_inputs(difference, x, y)
    assert 0.9 < low < 1 < high < 1.1


def test_it_holds_as_often_as_it_says_where_few_inputs_differ():
    """A tenth of the inputs at one of two values, the others at zero."""
    held, rng = 0, np.random.default_rng(1)
    for _ in range(60):
        values = rng.choice([0.0, 0.1, 1.0], 300, p=[0.9, 0.05, 0.05])
        low, high = intervals.over_inputs(np.mean, values)
        held += low <= 0.055 <= high
    # With a probability of 95 % each, fewer than 50 of 60 occur once in a thousand
    # runs.
    assert held >= stats.binom.ppf(0.001, 60, 0.95)


def test_no_interval_where_the_inputs_do_not_tell():
    for values in (np.zeros(50), np.ones(1), np.zeros(1)):
        assert np.isnan(intervals.over_inputs(np.mean, values)).all()
