import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob.strategies import History, Random, Task

NOTHING = History()


def ask(strategy, lower=0.0, upper=1.0):
    task = Task(lower, upper, threshold=0.8)
    return np.array([one.level for one in strategy.ask(task, NOTHING, NOTHING)[0]])


@settings(deadline=None, max_examples=20)
@given(
    st.integers(1, 300),
    st.integers(0, 2**40),
    st.floats(-1e3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_levels_lie_in_the_range_and_scale_with_it(n, seed, lower, width):
    upper = lower + width
    levels = ask(Random(n, seed), lower, upper)
    assert levels.shape == (n,) and levels.dtype == np.float64
    assert (levels >= lower).all() and (levels <= upper).all()
    unit = ask(Random(n, seed))
    np.testing.assert_allclose((levels - lower) / (upper - lower), unit, atol=1e-9)


def test_levels_are_uniform_and_independent():
    levels = ask(Random(20_000, seed=3))
    assert stats.kstest(levels, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(levels[:-1], levels[1:])[0, 1]) < 0.03


def test_a_seed_is_a_draw():
    np.testing.assert_array_equal(ask(Random(9, 5)), ask(Random(9, 5)))
    assert not np.isin(ask(Random(9, 5)), ask(Random(9, 6))).any()
