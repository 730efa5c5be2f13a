import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob.strategies import History, Task, Uniform

NOTHING = History()


def ask(n, lower=0.0, upper=1.0):
    task = Task(lower, upper, 0.8)
    return np.array([one.level for one in Uniform(n).ask(task, NOTHING, NOTHING)[0]])


@settings(deadline=None, max_examples=25)
@given(
    st.integers(2, 500),
    st.floats(-1e3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_levels_are_evenly_spaced_from_end_to_end(n, lower, width):
    upper = lower + width
    levels = ask(n, lower, upper)
    assert len(levels) == n
    assert levels[0] == lower and levels[-1] == upper
    assert (np.diff(levels) > 0).all()
    exact = lower + np.arange(n) * (upper - lower) / (n - 1)
    np.testing.assert_allclose(levels, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("upper", [0.5, 180])
def test_a_symmetric_range_has_symmetric_levels(upper):
    for n in range(2, 100):
        levels = ask(n, -upper, upper)
        np.testing.assert_array_equal(levels, -levels[::-1])
        assert (0 in levels) == (n % 2 == 1)
