import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from jaxrob.roma._normality import NORMAL_BELOW, anderson_darling, sort
from jaxrob.roma._transform import (
    boxcox,
    boxcox_lambda,
    yeojohnson,
    yeojohnson_lambda,
)

quick = settings(deadline=None, max_examples=40)
sizes = pytest.mark.parametrize(
    "num_samples",
    [8, 1000, *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 10_000))],
)
fit_boxcox = jax.jit(boxcox_lambda)
fit_yeojohnson = jax.jit(yeojohnson_lambda)
apply_boxcox = jax.jit(boxcox)
apply_yeojohnson = jax.jit(yeojohnson)


def some_log_confidences(num_samples):
    """From e^-60 or so to beyond 1 - 1e-4, nearly normal or skewed either way."""
    rng = np.random.default_rng(num_samples)
    samples = [
        special.log_expit(location + scale * rng.standard_normal(num_samples))
        for location in (-50, -12, -4, -1, 1, 7)
        for scale in (0.05, 0.4, 1.5)
    ]
    for a, b in [(0.5, 5), (5, 0.5), (2, 8), (20, 20), (100, 1), (1, 1)]:
        samples.append(np.log(rng.beta(a, b, num_samples)))
    samples.append(np.log(0.5 + 0.03 * rng.standard_normal(num_samples)))
    samples.append(np.log(1 - 0.04 * rng.beta(2, 5, num_samples)))
    # The float32 numbers are what both sides are given.
    return np.minimum(samples, -1e-7).astype(np.float32)


@sizes
def test_boxcox_lambda_agrees_with_scipy(num_samples):
    log_x = some_log_confidences(num_samples)
    got = np.asarray(fit_boxcox(log_x), float)
    # SciPy takes up to 20 ms an input.
    every = 1 if num_samples < 10_000 else 3
    for lmbda, row in list(zip(got, log_x.astype(float)))[::every]:
        x = np.exp(row)
        _, expected = stats.boxcox(x)
        loss = stats.boxcox_llf(expected, x) - stats.boxcox_llf(lmbda, x)
        assert abs(lmbda - expected) < 5e-3 or loss < 1e-4
        # Near the optimum in its own unit, as large as λ may be.
        assert abs(lmbda - expected) * row.std() < 2e-4 or loss < 1e-5


def test_normality_after_boxcox_agrees_with_scipy():
    """Of samples that are centred and sorted first, in float32, as advised."""
    log_x = some_log_confidences(1000)

    @jax.jit
    def statistic(log_x):
        log_x = sort(log_x)
        centred = log_x - log_x.mean(axis=-1, keepdims=True)
        transformed = boxcox(centred, boxcox_lambda(log_x)[:, None])
        return anderson_darling(transformed, ascending=True).statistic

    transformed = [stats.boxcox(np.exp(row))[0] for row in log_x.astype(float)]
    expected = np.array(
        [stats.anderson(row, method="interpolate").statistic for row in transformed]
    )
    expected *= 1 + 0.75 / 1000 + 2.25 / 1000**2
    got = np.asarray(statistic(log_x))
    np.testing.assert_allclose(got, expected, atol=1e-3, rtol=1e-3)
    clear = np.abs(expected - NORMAL_BELOW) > 1e-3
    assert np.all((got < NORMAL_BELOW)[clear] == (expected < 0.561)[clear])
    assert 0 < np.sum(expected < NORMAL_BELOW) < len(expected)


@pytest.mark.parametrize("num_samples", [8, 1000])
def test_boxcox_lambda_of_the_extremes(num_samples):
    """Nothing overflows, and the derivative vanishes: two values, in closed form.

    With the share q at -d and the others at 0, log var((e^(λc) - 1)/λ) is, up to a
    constant, 2 log((1 - e^(-λd))/λ) + 2 λ q d, least where z = λ d solves
    1/(e^z - 1) - 1/z + q = 0.
    """
    for rare in (1, num_samples - 1):
        q = rare / num_samples
        log_x = np.zeros((3, num_samples), np.float32)
        log_x[:, :rare] = -np.float32([[80.0], [1.0], [1e-5]])
        scaled = fit_boxcox(log_x) * np.float32([80.0, 1.0, 1e-5])
        scaled = np.asarray(scaled, float)
        with np.errstate(over="ignore"):
            stationary = 1 / np.expm1(scaled) - 1 / scaled + q
        np.testing.assert_allclose(stationary, 0, atol=2e-3 * min(q, 1 - q))


@quick
@given(
    seed=st.integers(0, 2**32 - 1),
    log_scale=st.floats(-60, 0),
    power=st.floats(0.1, 4) | st.floats(-4, -0.1),
)
def test_boxcox_lambda_under_scaling_and_powers(seed, log_scale, power):
    """λ of cx is that of x, and of x^p it is λ/p: the transform is the same."""
    rng = np.random.default_rng(seed)
    log_x = np.log(rng.gamma(3.0, size=100))
    family = np.stack([log_x, log_x + log_scale, power * log_x]).astype(np.float32)
    plain, scaled, powered = np.asarray(fit_boxcox(family), float)
    assert scaled == pytest.approx(plain, abs=1e-3)
    assert powered * power == pytest.approx(plain, abs=1e-3)


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
    for fit in (fit_boxcox, fit_yeojohnson):
        got = fit(samples)
        assert got[0] == 1
        assert np.isnan(got[1]) == (bad is not None)
        assert np.isfinite(got[2])


@quick
@given(
    log_x=st.floats(-80, 5, width=32),
    lmbda=st.floats(-1, 3, width=32) | st.floats(-(2.0**-17), 2.0**-17, width=32),
)
def test_boxcox_agrees_with_scipy(log_x, lmbda):
    got = apply_boxcox(log_x, lmbda)
    z = lmbda * log_x
    expected = log_x if abs(z) < 1e-30 else np.expm1(z) / lmbda
    if abs(expected) < 1e-30:  # subnormal numbers may be flushed to 0
        assert abs(got) < 1e-30
    else:
        # The product is rounded to float32: a share of it is the exponential's error.
        assert got == pytest.approx(expected, rel=1e-6 * (1 + max(z, 0)))
        reference = special.boxcox(np.exp(float(log_x)), float(lmbda))
        assert got == pytest.approx(reference, rel=1e-4, abs=1e-9)


@quick
@given(
    x=st.floats(-100, 100, width=32),
    lmbda=st.sampled_from([0.0, 2.0, 1.0]) | st.floats(-3, 5, width=32),
)
def test_yeojohnson_agrees_with_scipy(x, lmbda):
    expected = stats.yeojohnson(np.array([x], float), lmbda=float(lmbda))[0]
    got = apply_yeojohnson(x, lmbda)
    assert got == pytest.approx(expected, rel=1e-5, abs=1e-30)


@sizes
def test_yeojohnson_lambda_agrees_with_scipy(num_samples):
    rng = np.random.default_rng(num_samples)
    normal = rng.standard_normal((4, num_samples))
    samples = [*normal, *np.exp(normal[:2]), *-np.exp(0.5 * normal[2:])]
    samples += [rng.standard_t(5, num_samples)]
    samples += [rng.gamma(a, size=num_samples) for a in (0.5, 1, 2, 5)]
    samples += [-rng.gamma(a, size=num_samples) for a in (1, 2)]
    samples += [rng.beta(0.3, 0.3, num_samples), *special.log_expit(normal[:2] - 1)]
    samples = np.stack(samples)
    samples = samples - samples.mean(axis=-1, keepdims=True)
    samples = samples / samples.std(axis=-1, keepdims=True)
    samples = samples.astype(np.float32)
    got = fit_yeojohnson(samples)
    expected = [stats.yeojohnson(row.astype(float))[1] for row in samples]
    np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("outlier", [-30.0, 30.0])
def test_yeojohnson_lambda_with_an_outlier(outlier):
    samples = np.random.default_rng(0).standard_normal(1000)
    samples[0] = outlier
    samples = (samples / samples.std()).astype(np.float32)
    got = float(fit_yeojohnson(samples))
    _, expected = stats.yeojohnson(samples.astype(float))
    assert got == pytest.approx(expected, rel=1e-4)


@quick
@given(seed=st.integers(0, 2**32 - 1))
def test_yeojohnson_reflected(seed):
    """ψ(-x, 2 - λ) = -ψ(x, λ), so that λ of -x is 2 - λ."""
    samples = np.random.default_rng(seed).gumbel(size=100)
    samples = ((samples - samples.mean()) / samples.std()).astype(np.float32)
    lmbda, reflected = fit_yeojohnson(np.stack([samples, -samples]))
    assert reflected == pytest.approx(2 - float(lmbda), abs=1e-4)
    np.testing.assert_allclose(
        jax.jit(yeojohnson)(-samples, 2 - lmbda),
        -jax.jit(yeojohnson)(samples, lmbda),
        rtol=1e-4,
    )


@pytest.mark.slow
@pytest.mark.parametrize("fit", [boxcox_lambda, yeojohnson_lambda])
def test_batches(fit):
    samples = np.random.default_rng(0).gumbel(size=(2, 3, 100)).astype(np.float32)
    got = jax.jit(fit)(samples)
    assert got.shape == (2, 3)
    np.testing.assert_allclose(jax.vmap(fit)(samples), got, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fit", [boxcox_lambda, yeojohnson_lambda])
@pytest.mark.parametrize("shape", [(), (1,), (4, 0)])
def test_too_few_samples(fit, shape):
    with pytest.raises(ValueError, match="must have the shape"):
        fit(np.ones(shape, np.float32))
