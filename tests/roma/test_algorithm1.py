"""Algorithm 1 against a loop over SciPy, in float64."""

import jax
import numpy as np
import pytest
from scipy import stats

from jaxrob import training
from jaxrob.data import digits
from jaxrob.networks import MLP
from jaxrob.roma._algorithm1 import (
    Moments,
    examine_normality,
    fit_normal,
    observe_hic,
)

N = 2000
DELTA = 0.6
CRITICAL = 0.561


@pytest.fixture(scope="module")
def log_probabilities():
    """`[inputs, N, K]` of a small network, around digits, for several epsilons."""
    data = digits("train", size=8)
    key = jax.random.key(0)
    classifier = training.fit(MLP((32,)), data, key=key, epochs=8, batch_size=32)
    images = np.float32(digits("test", size=8).images[:24]) / 255
    rng = np.random.default_rng(0)
    u = np.float32(rng.uniform(-1, 1, (24, N, 8, 8, 1)))
    evaluate = jax.jit(classifier.log_probabilities)
    found, excluded = [], []
    for epsilon in (0.02, 0.1, 0.3):
        for image, row in zip(images, u):
            found.append(evaluate(image + np.float32(epsilon) * row)[0])
            excluded.append(evaluate(np.tile(image, (N, 1, 1, 1)))[0][0].argmax())
    return np.stack(found), np.array(excluded)


@pytest.fixture(scope="module")
def both(log_probabilities):
    """Our fit, and the list of SciPy's."""
    log_p, excluded = log_probabilities
    observed = jax.jit(jax.vmap(observe_hic, (0, 0, None)))(
        log_p, excluded, np.float32(np.log(DELTA / (1 - DELTA)))
    )
    found = jax.device_get(jax.jit(examine_normality)(observed))
    return fit_normal(found, DELTA), [
        by_scipy(row) for row in others(*log_probabilities)
    ]


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


def test_statuses_and_statistics_are_scipys(both):
    fit, scipys = both
    close = np.array([one["close"] for one in scipys])
    expected = np.array([one["status"] for one in scipys])
    assert close.mean() < 0.05
    np.testing.assert_array_equal(fit.status[~close], expected[~close])
    # The fixture has some of each.
    assert {"transformed", "failed"} <= set(expected)
    statistic = np.array([one["statistic"] for one in scipys])
    np.testing.assert_allclose(
        fit.statistic[~close], statistic[~close], rtol=2e-3, atol=2e-3
    )


def test_lambdas_are_scipys(both):
    fit, scipys = both
    checked = 0
    for lmbda, one in zip(fit.boxcox_lambda, scipys):
        if np.isnan(lmbda):
            continue
        checked += 1
        if abs(lmbda - one["lambda"]) > 5e-3:
            ours, best = (
                stats.boxcox_llf(x, one["hic"]) for x in (lmbda, one["lambda"])
            )
            assert ours > best - 1e-4
    assert checked > 30


def test_probabilities_are_those_of_the_normal_distribution(both):
    fit, scipys = both
    answered = ~np.isnan(fit.log_probability)
    np.testing.assert_array_equal(
        answered, np.isin(fit.status, ["normal", "transformed"])
    )
    for number in np.flatnonzero(answered):
        hic, lmbda = scipys[number]["hic"], fit.boxcox_lambda[number]
        bound = DELTA
        if fit.status[number] == "transformed":
            # In float64, given lambda.
            hic, bound = stats.boxcox(hic, lmbda), stats.boxcox([DELTA], lmbda)[0]
        mean, std = hic.mean(), hic.std(ddof=1)
        # Float32's mean and deviation: a few parts in a million of the deviation.
        assert fit.mean[number] == pytest.approx(mean, abs=2e-4 * std)
        assert fit.std[number] == pytest.approx(std, rel=1e-4)
        score = (bound - mean) / std
        expected = stats.norm.logsf(score)
        assert fit.log_probability[number] == pytest.approx(
            expected, rel=1e-3, abs=1e-3
        )
        given = stats.norm.logsf((bound - fit.mean[number]) / fit.std[number])
        assert fit.log_probability[number] == pytest.approx(given, rel=1e-5, abs=1e-6)


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


def observed(log_p):
    return jax.vmap(observe_hic, (0, None, None))(np.float32(log_p), 0, np.float32(0.4))


def log_softmax(logits):
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


@pytest.mark.slow
def test_confidences_far_below_floats_and_equal_ones():
    rng = np.random.default_rng(0)
    logit = np.stack(
        [
            -200 + rng.standard_normal(N),  # hic below float32's smallest number
            -200 + 1e-3 * rng.standard_normal(N),  # float32 resolves it badly
            np.full(N, -3.0),
        ]
    )
    logits = np.stack([np.zeros_like(logit), logit], axis=-1)
    found = examine_normality(observed(log_softmax(logits)))
    fit = fit_normal(jax.device_get(found), DELTA)
    np.testing.assert_array_equal(fit.status[1:], ["unresolved", "constant"])
    assert np.isnan(fit.log_probability[1:]).all()
    # log hic is normal there, so that Box and Cox's transform is the logarithm.
    assert fit.status[0] == "transformed"
    assert abs(fit.boxcox_lambda[0]) < 0.1
    assert -np.inf < fit.log_probability[0] < -100


def test_far_tails_keep_their_logarithm():
    fit = fit_normal(found_for([0.9, 0.3], -1e4, 1e-3, 1.0), 0.999)
    assert fit.log_probability < -1e10 and not np.isnan(fit.log_probability)
