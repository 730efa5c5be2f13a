"""Tilted distributions of a ball, against numerical integration and closed forms."""

import functools

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from jaxrob.roma._rare._tilt import (
    TILTED_BALLS,
    Stretch,
    Tilt,
    log_constants,
    of_component,
)

NORMS = ("linf", "l2", "l1")
DRAWS = 4000
SLOW = pytest.mark.slow


def slope_of(shape, seed=0):
    return np.float32(np.random.default_rng(seed).standard_normal(shape))


@functools.partial(jax.jit, static_argnames="norm")
def _draws(keys, parameters, norm):
    u = jax.vmap(TILTED_BALLS[norm].draw, (0, None))(keys, parameters)
    return u, jax.vmap(TILTED_BALLS[norm].log_ratio, (0, None))(u, parameters)


def draws(norm, parameters, number=DRAWS, seed=0):
    keys = jax.random.split(jax.random.key(seed), number)
    u, log_ratio = _draws(keys, parameters, norm)
    batched = jax.tree.map(lambda a: np.asarray(a)[None], parameters)
    log_weight = (
        np.asarray(log_ratio, np.float64)
        + log_constants(TILTED_BALLS[norm], batched)[0]
    )
    return np.asarray(u, np.float64).reshape(number, -1), log_weight


def deviation(norm, slope):
    # Of a uniform point's components; in the L1 ball their sizes are Dirichlet's.
    dim = slope.size
    variance = {"linf": 1 / 3, "l2": 1 / (dim + 2), "l1": 2 / (dim + 1) / (dim + 2)}
    return np.linalg.norm(slope) * np.sqrt(variance[norm])


ORDERS = {"linf": np.inf, "l2": 2, "l1": 1}


@functools.partial(jax.jit, static_argnames="norm")
def towards(slope, intercept, variance=0.0, *, norm):
    return TILTED_BALLS[norm].towards(slope, intercept, variance)


def check_weights(norm, parameters, slopes):
    u, log_weight = draws(norm, parameters)
    assert np.linalg.norm(u, ORDERS[norm], axis=1).max() <= 1 + 1e-6
    weight = np.exp(log_weight)
    assert weight.mean() == pytest.approx(1, abs=4 * weight.std() / DRAWS**0.5)
    # They are weights of the uniform distribution: its moments come out.
    for slope in slopes:
        margin = u @ slope.reshape(-1).astype(float) / deviation(norm, slope)
        for power, expected in ((1, 0), (2, 1)):
            terms = weight * margin**power
            slack = 4 * terms.std() / DRAWS**0.5
            assert terms.mean() == pytest.approx(expected, abs=slack)


@pytest.mark.parametrize(
    "norm", ["linf", *(pytest.param(one, marks=SLOW) for one in ("l2", "l1"))]
)
def test_weights_and_margins_of_a_tilt(norm):
    slope = slope_of((8, 8, 1))
    sd = deviation(norm, slope)
    # A boundary one standard deviation away: weights of moderate variance.
    check_weights(norm, towards(slope, np.float32(-sd), norm=norm), [slope])
    # The tilted margin is at the boundary.
    for steps in (0.5, 3.0, 6.0):
        u, _ = draws(norm, towards(slope, np.float32(-steps * sd), norm=norm))
        margin = u @ slope.reshape(-1).astype(float) / sd
        # The L2 ball's tilt has its mode there, and its mean nearer to 0 by 2 / d at
        # most; the L1 ball's mean is that of a ratio, taken as the ratio of the means.
        slack = {"linf": 0, "l2": 0.03, "l1": 0.05}[norm] * steps
        error = margin.std() / DRAWS**0.5
        assert margin.mean() == pytest.approx(steps, abs=slack + 4 * error)
        # Along the slope, and nowhere else.
        rest = u - np.outer(margin * sd, slope) / np.sum(slope.astype(float) ** 2)
        if norm == "l2":
            assert np.abs(rest.mean(axis=0)).max() < 5 * rest.std() / DRAWS**0.5
        # In the L1 ball the mean does not grow with the slope in proportion.
        alike = stats.spearmanr if norm == "l1" else stats.pearsonr
        found = alike(u.mean(axis=0), slope.reshape(-1)).statistic
        assert found > 0.4 * min(steps, 1.6)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_the_weakest_and_the_strongest_tilts(norm):
    u, log_weight = draws(norm, TILTED_BALLS[norm].none(np.zeros((1, 3, 1))))
    np.testing.assert_allclose(log_weight, 0, atol=1e-6)
    radius = np.linalg.norm(u, ORDERS[norm], axis=1)
    assert stats.kstest(radius**3, "uniform").pvalue > 1e-3
    # Nor is there one where nothing leads anywhere, or the boundary is behind.
    for slope, intercept in ((0.0, -1.0), (1.0, 0.5)):
        slope = np.full((1, 3, 1), slope, np.float32)
        parameters = towards(slope, np.float32(intercept), norm=norm)
        np.testing.assert_allclose(
            draws(norm, parameters)[1], 0, atol=1e-6, err_msg=f"{slope}"
        )
    # Beyond any point of the ball.
    slope = np.abs(slope_of((1, 3, 1))) + np.float32(0.1)
    parameters = towards(slope, np.float32(-1e3 * slope.sum()), norm=norm)
    u, log_weight = draws(norm, parameters)
    assert np.linalg.norm(u, ORDERS[norm], axis=1).max() <= 1 + 1e-6
    assert np.isfinite(log_weight).all()


def unstretched(shape):
    return Stretch(np.zeros((0, *shape), np.float32), np.zeros(0, np.float32))


def test_the_boxs_constant_is_the_density_integral():
    b = np.array([0.7, 1e-5, 3.0, -2.0, 40.0, 0.0, 1e-4])
    # The log of the mean of exp(b . u) over the box.
    each = [integrate.quad(lambda u, c=c: np.exp(c * u) / 2, -1, 1)[0] for c in b]
    tilt = Tilt(b[:, None, None], np.ones(()), unstretched((len(b), 1, 1)))
    tilts = jax.tree.map(lambda a: np.asarray(a)[None], tilt)
    got = log_constants(TILTED_BALLS["linf"], tilts)
    assert got == pytest.approx(np.log(each).sum(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("dim", "mode"), [(2, 0.95), (7, 0.9998)])
def test_the_caps_constant_is_the_density_integral(dim, mode):
    direction = np.zeros((1, dim, 1), np.float32)
    direction[0, 0] = 1
    mode = np.float32(mode)
    ball = TILTED_BALLS["l2"]
    cap = Tilt(direction, mode, unstretched(direction.shape))
    usual = integrate.quad(lambda s: (1 - s * s) ** ((dim - 1) / 2), -1, 1)[0]

    @jax.jit
    @jax.vmap
    def ratio(s):
        """Of the uniform to the tilted density, without the constant."""
        return ball.log_ratio(s * direction, cap)

    constant = log_constants(ball, jax.tree.map(lambda a: np.asarray(a)[None], cap))[0]

    # The tilted density, uniform times 1 / ratio, must integrate to 1.
    def density(s):
        uniform = (1 - s * s) ** ((dim - 1) / 2) / usual
        return uniform * np.exp(-np.asarray(ratio(np.float32(s)), float) - constant)

    ends = np.unique(np.clip(1 - (1 - mode) * np.geomspace(1e-2, 40, 9), -0.99999, 1))
    ends = [-0.99999, *ends[ends > -0.99999], 0.999999]
    mass = sum(
        integrate.fixed_quad(density, a, b, n=12)[0] for a, b in zip(ends, ends[1:])
    )
    assert mass == pytest.approx(1, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS[:2])
def test_a_tilt_leaves_room_for_what_is_not_linear(norm, steps=3.0):
    # Where scores are normal, exp(theta score) moves the part along the slope and the
    # rest in the proportion of their variances.
    slope = slope_of((8, 8, 1))
    sd = deviation(norm, slope)
    for ratio in (0.5, 1.0):
        parameters = towards(
            slope, np.float32(-steps * sd), np.float32((ratio * sd) ** 2), norm=norm
        )
        u, _ = draws(norm, parameters)
        margin = u @ slope.reshape(-1).astype(float) / sd
        assert margin.mean() == pytest.approx(steps / (1 + ratio**2), abs=0.15)


def stretched(norm, slope, steps, widths):
    """A tilt, wider along directions orthogonal to the slope and to each other."""
    parameters = towards(slope, np.float32(-steps * deviation(norm, slope)), norm=norm)
    columns = [slope.reshape(-1), *(slope_of(slope.size, n) for n in (1, 2, 3))]
    basis = np.linalg.qr(np.stack(columns[: 1 + len(widths)], axis=1))[0]
    directions = basis[:, 1:].T.reshape(-1, *slope.shape).astype(np.float32)
    stretch = Stretch(directions, np.float32(widths))
    return parameters._replace(stretch=stretch), directions.reshape(len(widths), -1)


@pytest.mark.parametrize("norm", ["linf", pytest.param("l2", marks=pytest.mark.slow)])
def test_weights_of_a_stretched_tilt_have_a_mean_of_one(norm):
    slope = slope_of((8, 8, 1))
    parameters, directions = stretched(norm, slope, 1.0, (3.0, 1.5))
    # Moments of the uniform distribution come out, also along the directions.
    check_weights(norm, parameters, [slope, *directions])


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS[:2])
def test_a_stretched_tilt_is_wider_along_its_directions_alone(norm):
    slope = slope_of((8, 8, 1))
    parameters, directions = stretched(norm, slope, 2.0, (4.0, 1.0))
    scale = TILTED_BALLS[norm].moments(parameters, slope).deviation
    u, _ = draws(norm, parameters)
    z = (u - u.mean(axis=0)) / np.asarray(scale, float).reshape(-1)
    found = (z @ directions.T.astype(float)).var(axis=0)
    np.testing.assert_allclose(found, (4.0, 1.0), rtol=0.15)
    other = slope_of(slope.size, 9)
    other = other - directions.T @ (directions @ other)
    assert (z @ other).var() / np.sum(other**2) == pytest.approx(1, rel=0.1)
    # The mean, and so the margin's distance from the boundary, stays.
    margin = u @ slope.reshape(-1).astype(float) / deviation(norm, slope)
    assert margin.mean() == pytest.approx(2, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_a_component_draws_as_it_would_alone(norm):
    slope = slope_of((8, 8, 1))
    if norm == "l1":
        each = [towards(a * slope, np.float32(-1), norm=norm) for a in (1, -1)]
    else:
        each = [
            stretched(norm, a * slope, 2.0, (w, 1.0))[0] for a, w in ((1, 3), (-1, 2))
        ]
    both = jax.device_put(jax.tree.map(lambda *a: np.stack(a), *each))
    keys = jax.random.split(jax.random.key(5), DRAWS)
    draw = jax.vmap(TILTED_BALLS[norm].draw, (0, None))
    of_both = jax.jit(lambda which: draw(keys, of_component(both, which)))
    for number, alone in enumerate(each):
        expected, _ = _draws(keys, alone, norm)
        # Two programs, which round in other orders.
        np.testing.assert_allclose(of_both(number), expected, atol=1e-4)
