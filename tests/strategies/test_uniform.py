import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob.strategies import History, Task, Uniform

NOTHING = History()


def ask(n, lower=0.0, upper=1.0):
    task = Task(lower, upper, 0.8)
    return np.array([one.level for one in Uniform(n).ask(task, NOTHING)])


@settings(deadline=None, max_examples=100)
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


@pytest.mark.parametrize("upper", [0.5, 1, 4, 20, 180])
def test_a_symmetric_range_has_symmetric_levels(upper):
    for n in range(2, 500):
        levels = ask(n, -upper, upper)
        np.testing.assert_array_equal(levels, -levels[::-1])
        assert (0 in levels) == (n % 2 == 1)


def test_nothing_is_asked_twice():
    task = Task(0.0, 1.0, 0.8)
    levels = ask(3)
    assert len(Uniform(3).ask(task, History(levels, np.ones(3)))) == 0


def test_the_papers_number_of_levels_and_rule():
    assert Uniform().n == 41
    assert Uniform().rule == "count"
    assert Uniform(5) == Uniform(5) and hash(Uniform(5)) == hash(Uniform(5))


@pytest.mark.parametrize("n", [1, 0, -3])
def test_too_few_levels(n):
    with pytest.raises(ValueError, match=f"n must be at least 2; got {n}"):
        Uniform(n)


@pytest.mark.parametrize("n", [41.0, "41", None])
def test_a_number_of_levels_that_is_no_integer(n):
    with pytest.raises(TypeError, match="n must be an integer"):
        Uniform(n)
