import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from jaxrob.roma._algorithm1 import boxcox, boxcox_lambda

quick = settings(deadline=None, max_examples=20)
sizes = pytest.mark.parametrize(
    "num_samples",
    [100, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, 10_000))],
)
ROWS = 24


def by_rows(function):
    """In a block of one size, so that one program serves most tests."""
    on_device = jax.jit(function)

    def padded(samples, *others):
        rows = np.arange(ROWS) % len(samples)
        some = (part[rows] for part in (samples, *others))
        return np.asarray(on_device(*some), float)[: len(samples)]

    return padded


fit_boxcox = by_rows(boxcox_lambda)
apply_boxcox = by_rows(lambda x, lmbda: boxcox(x, lmbda[:, None]))


def some_log_confidences(num_samples):
    """From e^-60 or so to beyond 1 - 1e-4, nearly normal or skewed either way."""
    rng = np.random.default_rng(num_samples)
    samples = [
        special.log_expit(location + scale * rng.standard_normal(num_samples))
        for location in (-50, -4, 1, 7)
        for scale in (0.05, 1.5)
    ]
    for a, b in [(0.5, 5), (5, 0.5), (20, 20), (100, 1)]:
        samples.append(np.log(rng.beta(a, b, num_samples)))
    samples.append(np.log(0.5 + 0.03 * rng.standard_normal(num_samples)))
    samples.append(np.log(1 - 0.04 * rng.beta(2, 5, num_samples)))
    # The float32 numbers are what both sides are given.
    return np.minimum(samples, -1e-7).astype(np.float32)


@sizes
def test_boxcox_lambda_agrees_with_scipy(num_samples):
    log_x = some_log_confidences(num_samples)
    for lmbda, row in zip(fit_boxcox(log_x), log_x.astype(float)):
        x = np.exp(row)
        _, expected = stats.boxcox(x)
        loss = stats.boxcox_llf(expected, x) - stats.boxcox_llf(lmbda, x)
        assert abs(lmbda - expected) < 5e-3 or loss < 1e-4
        # Near the optimum in its own unit, as large as λ may be.
        assert abs(lmbda - expected) * row.std() < 2e-4 or loss < 1e-5


def test_boxcox_lambda_of_the_extremes(num_samples=100):
    """Nothing overflows, and the derivative vanishes: two values, in closed form.

    With the share q at -d and the others at 0, log var((e^(λc) - 1)/λ) is, up to a
    constant, 2 log((1 - e^(-λd))/λ) + 2 λ q d, least where z = λ d solves
    1/(e^z - 1) - 1/z + q = 0.
    """
    for rare in (1, num_samples - 1):
        q = rare / num_samples
        log_x = np.zeros((3, num_samples), np.float32)
        log_x[:, :rare] = -np.float32([[80.0], [1.0], [1e-5]])
        scaled = fit_boxcox(log_x) * [80.0, 1.0, 1e-5]
        with np.errstate(over="ignore"):
            stationary = 1 / np.expm1(scaled) - 1 / scaled + q
        np.testing.assert_allclose(stationary, 0, atol=2e-3 * min(q, 1 - q))


@quick
@given(
    value=st.floats(-80, 0, width=32),
    bad=st.sampled_from([None, np.nan, np.inf, -np.inf]),
)
def test_equal_and_undefined_samples(value, bad):
    samples = np.full((3, 100), value, np.float32)
    samples[1:] = np.random.default_rng(0).standard_normal((2, 100))
    if bad is not None:
        samples[1, 3] = bad
    got = fit_boxcox(samples)
    assert got[0] == 1
    assert np.isnan(got[1]) == (bad is not None)
    assert np.isfinite(got[2])


def test_boxcox_agrees_with_scipy():
    log_x = np.float32(np.tile(np.linspace(-80, 5, 100), (ROWS, 1)))
    tiny = [0, 1e-6, -1e-6, 1e-12]
    lmbda = np.float32([*np.linspace(-1, 3, ROWS - len(tiny)), *tiny])
    got, exact = apply_boxcox(log_x, lmbda), np.float64(lmbda)[:, None]
    z = exact * log_x
    # The product is rounded to float32: a share of it is the exponential's error.
    expected = np.where(z == 0, log_x, np.expm1(z) / np.where(z == 0, 1, exact))
    np.testing.assert_array_less(
        np.abs(got - expected), 1e-6 * (1 + np.maximum(z, 0)) * np.abs(expected) + 1e-30
    )
    reference = special.boxcox(np.exp(np.float64(log_x)), exact)
    np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_too_few_samples(shape):
    with pytest.raises(ValueError, match="shape"):
        boxcox_lambda(np.ones(shape, np.float32))
