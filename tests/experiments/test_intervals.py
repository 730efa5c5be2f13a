"""Intervals over inputs, against Student's t and with uninformative inputs."""

import numpy as np
import pytest
from common import intervals
from scipy import stats


def test_the_mean_of_many_is_near_students():
    values = np.random.default_rng(0).normal(3, 2, 400)
    found = intervals.over_inputs(np.mean, values)
    np.testing.assert_allclose(found, intervals.student_t(values), atol=0.03)
    assert found == intervals.over_inputs(np.mean, values)


@pytest.mark.slow
def test_it_holds_as_often_as_it_says_where_few_inputs_differ():
    """A tenth of the inputs at one of two values, the others at zero."""
    held, rng = 0, np.random.default_rng(1)
    for _ in range(30):
        values = rng.choice([0.0, 0.1, 1.0], 300, p=[0.9, 0.05, 0.05])
        low, high = intervals.over_inputs(np.mean, values)
        held += low <= 0.055 <= high
    assert held >= stats.binom.ppf(0.001, 30, 0.95)


def test_no_interval_where_the_inputs_do_not_tell():
    for values in (np.zeros(50), np.ones(1), np.zeros(1)):
        assert np.isnan(intervals.over_inputs(np.mean, values)).all()
