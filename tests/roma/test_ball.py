"""The balls' distributions, against their radii and marginals in closed form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxrob.roma import ball
from jaxrob.roma._perturbation import nudged

NORMS = ("linf", "l2", "l1")
ORDERS = {"linf": np.inf, "l2": 2, "l1": 1}
EPSILON = 0.3
DRAWS = 4000
# A test of a true hypothesis fails with this probability; keys are fixed.
ALPHA = 1e-3


@functools.partial(jax.jit, static_argnames="shape")
def drawn(keys, perturbation, *, shape):
    image = jnp.full(shape, 0.5)

    def one(key):
        return perturbation.perturbed(image, perturbation.draw(key, image)) - image

    return jax.vmap(one)(keys)


def changes(perturbation, shape):
    """`[DRAWS, d]` changes of an image, in units of epsilon."""
    found = drawn(jax.random.split(jax.random.key(0), DRAWS), perturbation, shape=shape)
    return np.asarray(found, np.float64).reshape(DRAWS, -1) / EPSILON


def marginal(norm, dim):
    """The distribution function of one coordinate of a uniform point."""
    if norm == "linf":
        return stats.uniform(-1, 2).cdf
    if norm == "l2":
        half = (dim + 1) / 2
        return stats.beta(half, half, -1, 2).cdf
    # |u| of a coordinate in the L1 ball is Beta(1, d).
    size = stats.beta(1, dim)
    return lambda u: 0.5 + np.sign(u) * size.cdf(np.abs(u)) / 2


def check_uniform(u, norm):
    dim = u.shape[1]
    radius = np.linalg.norm(u, ORDERS[norm], axis=1)
    assert radius.max() <= 1 + 1e-6
    assert stats.kstest(radius**dim, "uniform").pvalue > ALPHA
    columns = np.unique(np.linspace(0, dim - 1, 12).astype(int))
    for column in columns:
        pvalue = stats.kstest(u[:, column], marginal(norm, dim)).pvalue
        assert pvalue > ALPHA / len(columns)
    standard = u.mean(axis=0) / u.std(axis=0) * np.sqrt(len(u))
    assert np.abs(standard).max() < stats.norm.isf(ALPHA / dim / 2)


# Above the size from which 16 random bits make a pixel, and an odd one; below it moves,
# which are below, show draws too.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "shape"), [("linf", (5, 13, 1)), ("l2", (1, 3, 1)), ("l1", (5, 13, 1))]
)
def test_draws_are_uniform_in_the_ball(norm, shape):
    u = changes(ball(norm, EPSILON), shape)
    check_uniform(u, norm)
    if norm == "linf":
        # Pixels i and i + 33 share a word.
        for i in (0, 7, 31):
            assert abs(stats.spearmanr(u[:, i], u[:, i + 33]).statistic) < 0.06
        assert len(np.unique(u)) > 30_000
        # Within float32's rounding of 0.5 + 0.3 u, symmetric.
        assert np.abs(u).max() < 1


@functools.partial(jax.jit, static_argnames=("norm", "shape"))
def pairs(keys, *, norm, shape):
    perturbation, image = ball(norm, 1.0), jnp.zeros(shape)

    def pair(key):
        first, second = jax.random.split(key)
        old = perturbation.draw(first, image)
        new = perturbation.move(second, old, jnp.float32(0.3))
        return perturbation.apply(image, old, 1.0), perturbation.apply(image, new, 1.0)

    return jax.vmap(pair)(keys)


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "shape"),
    [("linf", (8, 8, 1)), ("l1", (8, 8, 1)), *((norm, (2, 4, 1)) for norm in NORMS)],
)
def test_moves_are_reversible_and_change_what_they_should(norm, shape):
    found = pairs(jax.random.split(jax.random.key(2), DRAWS), norm=norm, shape=shape)
    old, new = (np.asarray(a).reshape(DRAWS, -1) for a in found)
    for u in (old, new):
        check_uniform(np.float64(u), norm)
    # Detailed balance: (old, new) is distributed as (new, old).
    first, last = old[:, 0], new[:, 0]
    for a in (
        first * last**3 - last * first**3,
        np.amax(old, axis=1) * np.ptp(new, axis=1)
        - np.amax(new, axis=1) * np.ptp(old, axis=1),
    ):
        assert abs(a.mean()) < 3.5 * a.std() / np.sqrt(DRAWS)
    if norm == "linf" and old.shape[1] == 64:
        assert (old != new).mean() == pytest.approx(0.3, abs=0.01)
    assert 0.6 < np.corrcoef(first, last)[0, 1] < 0.95


@functools.partial(jax.jit, static_argnames="norm")
def nudges(keys, share, *, norm):
    perturbation, image = ball(norm, 1.0), jnp.zeros((8, 8, 1))

    def one(key):
        first, second = jax.random.split(key)
        latent = perturbation.draw(first, image)
        moved = nudged(norm, second, latent, share)
        both = perturbation.apply(image, latent, 1), perturbation.apply(image, moved, 1)
        return jax.tree.map(jnp.ravel, both)

    return jax.vmap(one)(keys)


@pytest.mark.parametrize("norm", ["linf", pytest.param("l1", marks=pytest.mark.slow)])
def test_nudges_keep_the_distribution_and_are_reversible(norm):
    keys = jax.random.split(jax.random.key(0), DRAWS)
    for share in (0.01, 1.0):
        found = nudges(keys, jnp.float32(share), norm=norm)
        before, after = (np.asarray(u, np.float64) for u in found)
        check_uniform(after, norm)
        # All components are moved, by as much in one direction as in the other.
        assert (before != after).mean() > 0.999
        forth, back = before[:, 0] ** 2 * after[:, 0], after[:, 0] ** 2 * before[:, 0]
        apart = forth - back
        assert abs(apart.mean()) < 4 * apart.std() / np.sqrt(DRAWS)
        if norm == "linf":
            assert np.abs(after - before).max() <= share


def test_clip_and_another_epsilon_of_the_same_structure():
    @jax.jit
    def both(image, near, far, clipped):
        latent = near.draw(jax.random.key(0), image)
        return [each.perturbed(image, latent) for each in (near, far, clipped)]

    image = np.tile(np.float32([0, 1]), 6).reshape(4, 3, 1)
    balls = ball("linf", 0.2), ball("linf", 0.4), ball("linf", 0.4, clip=True)
    assert jax.tree.structure(balls[0]) == jax.tree.structure(balls[1])
    near, far, clipped = jax.device_get(both(image, *balls))
    np.testing.assert_allclose(2 * (near - image), far - image, atol=1e-6)
    assert far.min() < 0 and far.max() > 1
    np.testing.assert_array_equal(clipped, np.clip(far, 0, 1))


def test_errors():
    with pytest.raises(ValueError, match="norm"):
        ball("l3", 0.1)
    for epsilon in (0.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon"):
            ball("linf", epsilon)
