"""Algorithm 1 against a loop over SciPy, in float64."""

import warnings

import jax
import numpy as np
import pytest
from scipy import special, stats

import jaxrob
from jaxrob.roma._algorithm1 import (
    Moments,
    examine_normality,
    fit_normal,
    observe_hic,
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
    fit = fit_normal(examined(*log_probabilities), DELTA)
    return fit, [by_scipy(row) for row in others(*log_probabilities)]


def others(log_p, excluded):
    """float64 `[inputs, N]`, the highest incorrect confidences."""
    log_p = np.float64(log_p)
    for number, cls in enumerate(excluded):
        yield np.exp(np.delete(log_p[number], cls, axis=1).max(axis=1))


def corrected(samples):
    raw = stats.anderson(samples, method="interpolate").statistic
    return raw * (1 + 0.75 / N + 2.25 / N**2)


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
    expected = np.array([one["log_p"] for one in scipys])
    np.testing.assert_array_equal(np.isnan(fit.log_probability), np.isnan(expected))
    np.testing.assert_allclose(fit.log_probability, expected, rtol=5e-3, atol=2e-3)
    answered = ~np.isnan(expected)
    bound = np.full(len(expected), DELTA)
    for number in np.flatnonzero(fit.status == "transformed"):
        bound[number] = stats.boxcox([DELTA], fit.boxcox_lambda[number])[0]
    given = stats.norm.logsf((bound - fit.mean) / fit.std)
    np.testing.assert_allclose(fit.log_probability[answered], given[answered], 1e-5)
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


def test_the_papers_first_example():
    # Printed: 1.741 and 95.91 %; (0.6 - 0.499) / 0.059 is 1.712.
    fit = fit_normal(found_for([0.3, 0.9], 0.499, 0.059, 0.5), 0.6)
    assert fit.status == "normal" and np.isnan(fit.boxcox_lambda)
    assert -stats.norm.ppf(np.exp(fit.log_probability)) == pytest.approx(
        1.712, abs=5e-4
    )
    assert -np.expm1(fit.log_probability) == pytest.approx(0.9565, abs=5e-5)
    assert (fit.mean, fit.std) == (0.499, 0.059)


def test_the_papers_second_example():
    # Printed: 3.71 and 99.98 %.
    fit = fit_normal(found_for([0.9, 0.3], -0.79, 0.092, 0.534), 0.6)
    assert fit.status == "transformed" and fit.boxcox_lambda == 0.534
    assert -stats.norm.ppf(np.exp(fit.log_probability)) == pytest.approx(
        3.727, abs=5e-4
    )
    assert -np.expm1(fit.log_probability) == pytest.approx(0.99990, abs=5e-6)


def test_neither_normal_is_a_failure():
    fit = fit_normal(found_for([0.561, 0.561], 0.5, 0.1, 1.0), 0.6)
    assert fit.status == "failed" and np.isnan(fit.log_probability)


def test_confidences_far_below_floats_and_equal_ones():
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
    fit = fit_normal(examined(log_p, np.zeros(3, int)), DELTA)
    np.testing.assert_array_equal(fit.status[1:], ["unresolved", "constant"])
    assert np.isnan(fit.log_probability[1:]).all()
    # log hic is normal there, so that Box and Cox's transform is the logarithm.
    assert fit.status[0] == "transformed"
    assert abs(fit.boxcox_lambda[0]) < 0.1
    assert -np.inf < fit.log_probability[0] < -100


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
    fit = fit_normal(found_for([0.9, 0.3], -1e4, 1e-3, 1.0), 0.999)
    assert fit.log_probability < -1e10 and not np.isnan(fit.log_probability)
