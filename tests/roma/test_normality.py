import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from jaxrob.roma._algorithm1 import NORMAL_BELOW, anderson_darling, resolved

quick = settings(deadline=None, max_examples=20)
on_device = jax.jit(anderson_darling)
ROWS = 64


def ad(samples):
    """Row by row; in blocks of one size, so that one program serves most tests."""
    blocks = []
    for first in range(0, len(samples), ROWS):
        rows = np.arange(first, first + ROWS)
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


def by_scipy(samples):
    """SciPy's statistic, and its probability, which is at most 15 %."""
    return stats.anderson(samples, method="interpolate")


def scipy_statistic(samples):
    n = samples.shape[-1]
    raw = [by_scipy(row).statistic for row in samples.astype(float)]
    return np.array(raw) * (1 + 0.75 / n + 2.25 / n**2)


def test_normal_below_is_scipys_critical_value():
    """Samples are bent until their probability falls below 15 %."""
    n = 1000
    normal = stats.norm.ppf((np.arange(n) + 0.5) / n)
    straight, bent = 0.0, 1.0
    for _ in range(40):
        middle = (straight + bent) / 2
        if by_scipy(normal + middle * normal**2).pvalue < 0.15:
            bent = middle
        else:
            straight = middle
    found = by_scipy(normal + bent * normal**2).statistic
    critical = NORMAL_BELOW / (1 + 0.75 / n + 2.25 / n**2)
    assert found == pytest.approx(critical, abs=6e-4)


@pytest.mark.parametrize(
    "num_samples",
    [8, 100, pytest.param(10_000, marks=pytest.mark.slow)],
)
def test_agrees_with_scipy(num_samples):
    samples = some_samples(num_samples)
    expected = scipy_statistic(samples)
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
def test_equal_and_undefined_samples(value, num_nan, bad):
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
def test_too_few_samples(shape):
    with pytest.raises(ValueError, match="samples"):
        anderson_darling(np.ones(shape, np.float32))
