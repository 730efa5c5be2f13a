"""Algorithm 1, its test of normality and its transform, against SciPy in float64."""

import warnings

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import jaxrob
from jaxrob.roma._algorithm1 import (
    NORMAL_BELOW,
    Moments,
    anderson_darling,
    boxcox,
    boxcox_lambda,
    examine_normality,
    fit_normal,
    observe_hic,
    resolved,
    warn_of_contradictions,
)

N = 1000
DELTA = 0.6
CRITICAL = 0.561


@pytest.fixture(scope="module")
def log_probabilities():
    """`[inputs, N, 3]`, and the class that each input is; some fits of each kind."""
    rng = np.random.default_rng(0)
    found, excluded = [], np.arange(12) % 3
    for number, cls in enumerate(excluded):
        z = rng.standard_normal(N)
        shapes = [
            special.logit(0.45 + 0.03 * z),  # normal confidences
            -4 + (0.3 + 0.05 * number) * z,  # nearly lognormal ones
            np.where(rng.random(N) < 0.3, -3.0, 0.2) + 0.3 * z,  # two modes
            -1 + 0.8 * z,
        ]
        logits = np.stack([0 * z, shapes[number % 4], -6 + 0.1 * z], axis=1)
        found.append(np.roll(log_softmax(logits), cls, axis=1))
    return np.float32(found), excluded


def log_softmax(logits):
    return logits - special.logsumexp(logits, axis=-1, keepdims=True)


@jax.jit
def examined_on_device(log_p, excluded):
    observe = jax.vmap(observe_hic, (0, 0, None))
    return examine_normality(observe(log_p, excluded, np.log(DELTA / (1 - DELTA))))


def examined(log_p, excluded):
    """As many inputs at once for all tests, so that one program serves them."""
    fill = np.arange(12) % len(log_p)
    return jax.tree.map(
        lambda part: part[: len(log_p)],
        jax.device_get(examined_on_device(log_p[fill], excluded[fill])),
    )


@pytest.fixture(scope="module")
def both(log_probabilities):
    """Our fit, and the list of SciPy's."""
    fit = fit_normal(examined(*log_probabilities), DELTA, N)
    return fit, [by_scipy(row) for row in others(*log_probabilities)]


def others(log_p, excluded):
    """float64 `[inputs, N]`, the highest incorrect confidences."""
    log_p = np.float64(log_p)
    for number, cls in enumerate(excluded):
        yield np.exp(np.delete(log_p[number], cls, axis=1).max(axis=1))


def anderson_by_scipy(samples):
    """SciPy's statistic, and its probability, which is at most 15 %."""
    return stats.anderson(samples, method="interpolate")


def corrected(samples):
    n = len(samples)
    return anderson_by_scipy(samples).statistic * (1 + 0.75 / n + 2.25 / n**2)


def by_scipy(hic):
    """The paper's algorithm as it is written."""
    raw = corrected(hic)
    transformed, lmbda = stats.boxcox(hic)
    after = corrected(transformed)
    status = "failed"
    if raw < CRITICAL:
        status, samples, bound = "normal", hic, DELTA
    elif after < CRITICAL:
        status, samples = "transformed", transformed
        bound = stats.boxcox(np.array([DELTA]), lmbda)[0]
    log_p = np.nan
    if status != "failed":
        score = (bound - samples.mean()) / samples.std(ddof=1)
        log_p = stats.norm.logsf(score)
    return {
        "status": status,
        "statistic": raw if status == "normal" else after,
        "close": abs(raw - CRITICAL) < 1e-3
        or (raw >= CRITICAL and abs(after - CRITICAL) < 1e-3),
        "lambda": lmbda,
        "hic": hic,
        "log_p": log_p,
    }


def test_statuses_statistics_and_lambdas_are_scipys(both):
    fit, scipys = both
    close = np.array([one["close"] for one in scipys])
    expected = np.array([one["status"] for one in scipys])
    assert close.sum() <= 1
    np.testing.assert_array_equal(fit.status[~close], expected[~close])
    # The fixture has some of each.
    assert {"normal", "transformed", "failed"} <= set(expected)
    statistic = np.array([one["statistic"] for one in scipys])
    np.testing.assert_allclose(
        fit.statistic[~close], statistic[~close], rtol=2e-3, atol=2e-3
    )
    lmbda = np.array([one["lambda"] for one in scipys])
    np.testing.assert_array_equal(np.isnan(fit.boxcox_lambda), fit.status == "normal")
    fitted = fit.status != "normal"
    np.testing.assert_allclose(fit.boxcox_lambda[fitted], lmbda[fitted], atol=5e-3)


def test_probabilities_are_those_of_the_normal_distribution(both):
    fit, scipys = both
    log_p = fit.log_adversarial_probability
    expected = np.array([one["log_p"] for one in scipys])
    np.testing.assert_array_equal(np.isnan(log_p), np.isnan(expected))
    np.testing.assert_allclose(log_p, expected, rtol=5e-3, atol=2e-3)
    answered = ~np.isnan(expected)
    bound = np.full(len(expected), DELTA)
    for number in np.flatnonzero(fit.status == "transformed"):
        bound[number] = stats.boxcox([DELTA], fit.boxcox_lambda[number])[0]
    given = stats.norm.logsf((bound - fit.mean) / fit.std)
    np.testing.assert_allclose(log_p[answered], given[answered], 1e-5)
    for number in np.flatnonzero(fit.status == "normal"):
        hic = scipys[number]["hic"]
        assert fit.mean[number] == pytest.approx(hic.mean(), abs=2e-4 * hic.std())
        assert fit.std[number] == pytest.approx(hic.std(ddof=1), rel=1e-4)


def found_for(statistics, mean, std, lmbda):
    """What `examine_normality` returns, in units of 1."""
    return Moments(
        log_unit=np.zeros((1, 2)),
        boxcox_lambda=np.array([lmbda]),
        statistic=np.array([statistics]),
        mean=np.full((1, 2), mean),
        std=np.full((1, 2), std),
        constant=np.array([False]),
        resolved=np.array([True]),
        hits=np.zeros(1, np.int32),
    )


@pytest.mark.parametrize(
    ("status", "statistics", "mean", "std", "score", "plr"),
    [
        # Printed: 1.741 and 95.91 %; (0.6 - 0.499) / 0.059 is 1.712.
        ("normal", [0.3, 0.9], 0.499, 0.059, 1.712, 0.9565),
        # Printed: 3.71 and 99.98 %.
        ("transformed", [0.9, 0.3], -0.79, 0.092, 3.727, 0.99990),
    ],
)
def test_the_papers_examples(status, statistics, mean, std, score, plr):
    fit = fit_normal(found_for(statistics, mean, std, 0.534), 0.6, N)
    log_p = fit.log_adversarial_probability
    assert (fit.status, fit.mean, fit.std) == (status, mean, std)
    lmbda = np.nan if status == "normal" else 0.534
    np.testing.assert_array_equal(fit.boxcox_lambda, [lmbda])
    assert -stats.norm.ppf(np.exp(log_p)) == pytest.approx(score, abs=5e-4)
    assert -np.expm1(log_p) == pytest.approx(plr, abs=5e-5 if plr < 0.99 else 5e-6)


def test_confidences_far_below_floats_equal_ones_and_such_as_neither_makes_normal():
    fit = fit_normal(found_for([0.561, 0.561], 0.5, 0.1, 1.0), 0.6, N)
    assert fit.status == "failed" and np.isnan(fit.log_adversarial_probability)
    rng = np.random.default_rng(0)
    logit = np.stack(
        [
            -200 + rng.standard_normal(N),  # hic below float32's smallest number
            -200 + 1e-3 * rng.standard_normal(N),  # float32 resolves it badly
            np.full(N, -3.0),
        ]
    )
    logits = np.stack([0 * logit, logit, 0 * logit - 400], axis=-1)
    log_p = np.float32(log_softmax(logits))
    fit = fit_normal(examined(log_p, np.zeros(3, int)), DELTA, N)
    np.testing.assert_array_equal(fit.status[1:], ["unresolved", "constant"])
    assert np.isnan(fit.log_adversarial_probability[1:]).all()
    # log hic is normal there, so that Box and Cox's transform is the logarithm.
    assert fit.status[0] == "transformed"
    assert abs(fit.boxcox_lambda[0]) < 0.1
    assert -np.inf < fit.log_adversarial_probability[0] < -100


def test_fits_that_the_draws_make_next_to_impossible_are_warned_of():
    # Each side of the first may be as improbable as 5e-5, since there are two.
    log_p = np.log([0.02, 0.1, np.nan])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_contradictions(log_p, np.array([5, 100, 0]), 1000)
        assert not caught
        # Too few, or too many.
        warn_of_contradictions(log_p, np.array([1, 100, 0]), 1000)
        warn_of_contradictions(log_p, np.array([20, 145, 0]), 1000)
    assert {one.category for one in caught} == {jaxrob.RobustnessWarning}
    for number, one in enumerate(caught):
        assert "1 of 2" in str(one.message) and f"input {number}" in str(one.message)
    assert len(caught) == 2


def test_far_tails_keep_their_logarithm():
    fit = fit_normal(found_for([0.9, 0.3], -1e4, 1e-3, 1.0), 0.999, N)
    assert fit.log_adversarial_probability < -1e10 and not np.isnan(
        fit.log_adversarial_probability
    )


quick = settings(deadline=None, max_examples=20)
on_device = jax.jit(anderson_darling)
ROWS_AT_ONCE = 64


def ad(samples):
    """Row by row; in blocks of one size, so that one program serves most tests."""
    blocks = []
    for first in range(0, len(samples), ROWS_AT_ONCE):
        rows = np.arange(first, first + ROWS_AT_ONCE)
        found = on_device(samples[np.minimum(rows, len(samples) - 1)])
        blocks.append(jax.device_get(found))
    joined = jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)
    return jax.tree.map(lambda part: part[: len(samples)], joined)


def some_samples(num_samples, seed=0):
    """Confidences of many shapes, normal ones, far-off ones and outliers."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((24, num_samples))
    location = np.linspace(-12, 4, 24)[:, None]
    scale = np.tile([0.05, 0.5, 1.0, 2.0], 6)[:, None]
    confidences = special.expit(location + scale * normal)
    shapes = [0.3, 1.0, 20.0]
    betas = [rng.beta(a, b, num_samples) for a in shapes for b in shapes]
    return np.concatenate(
        [
            confidences,
            np.log(confidences),
            betas,
            rng.standard_normal((8, num_samples)),
            100 + rng.standard_normal((2, num_samples)),
            1e-25 * rng.standard_normal((2, num_samples)),
            rng.standard_t(1, (2, num_samples)),
        ]
    ).astype(np.float32)


def test_normal_below_is_scipys_critical_value():
    """Samples are bent until their probability falls below 15 %."""
    n = 1000
    normal = stats.norm.ppf((np.arange(n) + 0.5) / n)
    straight, bent = 0.0, 1.0
    for _ in range(40):
        middle = (straight + bent) / 2
        if anderson_by_scipy(normal + middle * normal**2).pvalue < 0.15:
            bent = middle
        else:
            straight = middle
    assert corrected(normal + bent * normal**2) == pytest.approx(NORMAL_BELOW, abs=6e-4)


@pytest.mark.parametrize(
    "num_samples", [8, 100, pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_agrees_with_scipy(num_samples):
    samples = some_samples(num_samples)
    expected = np.array([corrected(row) for row in samples.astype(float)])
    got = ad(samples)
    np.testing.assert_allclose(got.statistic, expected, atol=3e-4, rtol=1e-5)
    clear = np.abs(expected - NORMAL_BELOW) > 1e-3
    assert np.all((got.statistic < NORMAL_BELOW)[clear] == (expected < 0.561)[clear])
    assert 0 < np.sum(expected < NORMAL_BELOW) < len(expected)
    exact = samples.astype(float)
    sd = exact.std(axis=-1, ddof=1)
    np.testing.assert_allclose(got.standard_deviation, sd, rtol=1e-5)
    error = np.abs(got.mean - exact.mean(axis=-1))
    assert np.all(error < 1e-6 * np.abs(exact).max(axis=-1))


@quick
@given(
    seed=st.integers(0, 2**32 - 1),
    location=st.floats(-10, 10),
    # Beyond some 1e18 and 1e-18 squares leave the range of float32.
    log_scale=st.floats(-25, 25),
    reflect=st.booleans(),
)
def test_location_scale_reflection_and_order(seed, location, log_scale, reflect):
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal(100) + 0.5 * rng.standard_normal(100) ** 2
    moved = (samples + location) * 10.0**log_scale * (-1 if reflect else 1)
    moved = rng.permutation(moved)
    both = ad(np.stack([samples, moved]).astype(np.float32))
    first, second = np.asarray(both.statistic)
    assert second == pytest.approx(first, rel=1e-3, abs=1e-4)
    assert np.all(both.resolved)
    assert both.mean[1] == pytest.approx(moved.mean(), abs=1e-5 * abs(moved).max())
    assert both.standard_deviation[1] == pytest.approx(moved.std(ddof=1), rel=1e-4)


@quick
@given(
    value=st.floats(-(2.0**100), 2.0**100, width=32),
    num_nan=st.integers(0, 2),
    bad=st.sampled_from([np.nan, np.inf, -np.inf]),
)
def test_no_normality_of_equal_and_undefined_samples(value, num_nan, bad):
    samples = np.full((2, 100), value, np.float32)
    samples[1] = np.random.default_rng(0).standard_normal(100)
    samples[1, :num_nan] = bad
    got = ad(samples)
    assert got.statistic[0] == np.inf and got.standard_deviation[0] == 0
    assert got.mean[0] == pytest.approx(value, rel=1e-6, abs=1e-37)
    assert not got.resolved[0]
    assert np.isnan(got.statistic[1]) == (num_nan > 0)
    assert got.resolved[1] == (num_nan == 0)


def test_resolved_against_numpys_spacing():
    magnitude = np.array([1.0, -1.0, 1.9999, 2.0, 20.0, 1e-6], np.float32)
    spacing = np.spacing(np.abs(magnitude))
    fine, coarse = (spacing / np.float32(ratio) for ratio in (0.99e-3, 1.01e-3))
    # Values and deviations of which nothing is known, and none at all.
    means = np.float32([0, 1, np.inf, 0])
    deviations = np.float32([1e-20, np.nan, 1, 0])
    got = jax.jit(resolved)(
        np.concatenate([magnitude, magnitude, means]),
        np.concatenate([fine, coarse, deviations]),
    )
    assert got.tolist() == [True] * 6 + [False] * 6 + [True] + [False] * 3


@pytest.mark.parametrize("shape", [(), (3, 7)])
def test_normality_of_too_few_samples(shape):
    with pytest.raises(ValueError, match="samples"):
        anderson_darling(np.ones(shape, np.float32))


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
def test_no_transform_of_equal_and_undefined_samples(value, bad):
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
def test_transform_of_too_few_samples(shape):
    with pytest.raises(ValueError, match="shape"):
        boxcox_lambda(np.ones(shape, np.float32))
