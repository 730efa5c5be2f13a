"""The balls' distributions, against their radii and marginals in closed form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxrob.roma import ball
from jaxrob.roma._ball import nudged, put_within, within

NORMS = ("linf", "l2", "l1")
ORDERS = {"linf": np.inf, "l2": 2, "l1": 1}
EPSILON = 0.3
DRAWS = 4000
# A test of a true hypothesis fails with this probability; keys are fixed.
ALPHA = 1e-3


@functools.partial(jax.jit, static_argnames=("shape", "moves"))
def drawn(keys, perturbation, share, *, shape, moves):
    image = jnp.full(shape, 0.5)

    def one(key):
        first, *others = jax.random.split(key, 1 + moves)
        latent = perturbation.draw(first, image)
        for other in others:
            latent = perturbation.move(other, latent, share)
        return perturbation.perturbed(image, latent) - image

    return jax.vmap(one)(keys)


def changes(perturbation, shape, share=0.0, moves=0):
    """`[DRAWS, d]` changes of an image, in units of epsilon, after some moves."""
    keys = jax.random.split(jax.random.key(0), DRAWS)
    share = jnp.float32(share)
    found = drawn(keys, perturbation, share, shape=shape, moves=moves)
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


# Below and above the size from which 16 random bits make a pixel, odd ones too.
@pytest.mark.parametrize("shape", [(1, 3, 1), (5, 13, 1)])
@pytest.mark.parametrize("norm", NORMS)
def test_draws_are_uniform_in_the_ball(norm, shape):
    check_uniform(changes(ball(norm, EPSILON), shape), norm)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("norm", NORMS)
def test_moves_keep_the_distribution(norm, share):
    u = changes(ball(norm, EPSILON), (2, 3, 1), share=share, moves=3)
    check_uniform(u, norm)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 4, 1), (8, 8, 1)])
@pytest.mark.parametrize("norm", NORMS)
def test_moves_are_reversible_and_change_what_they_should(norm, shape):
    perturbation = ball(norm, 1.0)
    image = jnp.zeros(shape)

    def pair(key):
        first, second = jax.random.split(key)
        old = perturbation.draw(first, image)
        new = perturbation.move(second, old, jnp.float32(0.3))
        return perturbation.apply(image, old, 1.0), perturbation.apply(image, new, 1.0)

    keys = jax.random.split(jax.random.key(2), DRAWS)
    old, new = (np.asarray(a).reshape(DRAWS, -1) for a in jax.jit(jax.vmap(pair))(keys))
    # Detailed balance: (old, new) is distributed as (new, old).
    for f, g in ((lambda u: u[:, 0], lambda u: u[:, 0] ** 3), (np.amax, np.ptp)):
        if f is np.amax:
            a = f(old, axis=1) * g(new, axis=1) - f(new, axis=1) * g(old, axis=1)
        else:
            a = f(old) * g(new) - f(new) * g(old)
        assert abs(a.mean()) < 3.5 * a.std() / np.sqrt(DRAWS)
    if norm == "linf" and image.size == 64:
        assert (old != new).mean() == pytest.approx(0.3, abs=0.01)
    kept = np.corrcoef(old[:, 0], new[:, 0])[0, 1]
    assert 0.6 < kept < 0.95


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


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_a_latent_can_be_put_anywhere_in_the_ball(norm):
    perturbation, shape = ball(norm, 1.0), (2, 3, 1)
    keys = jax.random.split(jax.random.key(3), 500)
    latents = jax.vmap(lambda key: perturbation.draw(key, jnp.zeros(shape)))(keys)
    points = jax.vmap(lambda latent: within(norm, latent, shape))(latents)
    moved = 0.7 * points[::-1] + 0.2 * points
    put = jax.vmap(functools.partial(put_within, norm))
    found, possible = put(latents, moved)
    assert possible.all()
    again = jax.vmap(lambda latent: within(norm, latent, shape))(found)
    np.testing.assert_allclose(again, moved, atol=2e-5)
    # What else there is of the latent is where it was.
    np.testing.assert_allclose(put(latents, points)[0], latents, atol=5e-3)
    assert not put(latents, jnp.full_like(points, 1.1))[1].any()


def test_pixels_from_one_word_are_independent():
    u = changes(ball("linf", EPSILON), (5, 13, 1))
    half = 33  # pixel i and pixel i + half share a word
    for i in (0, 7, 31):
        assert abs(stats.spearmanr(u[:, i], u[:, i + half]).statistic) < 0.06
    assert len(np.unique(u)) > 30_000
    # Within float32's rounding of 0.5 + 0.3 u, symmetric.
    assert np.abs(u).max() < 1


def test_clip():
    def both(clip):
        perturbation = ball("linf", 0.4, clip)
        image = jnp.tile(jnp.float32([0, 1]), 6).reshape(4, 3, 1)
        draw = perturbation.draw(jax.random.key(0), image)
        return np.asarray(perturbation.perturbed(image, draw))

    free, clipped = both(False), both(True)
    assert free.min() < 0 and free.max() > 1
    np.testing.assert_array_equal(clipped, np.clip(free, 0, 1))


def test_another_epsilon_is_the_same_structure():
    structures = {jax.tree.structure(ball("l2", e)) for e in (0.1, 0.2)}
    assert len(structures) == 1
    latent = ball("l2", 0.1).draw(jax.random.key(0), jnp.zeros((2, 2, 1)))
    image = jnp.zeros((2, 2, 1))
    near, far = (ball("l2", e).perturbed(image, latent) for e in (0.1, 0.2))
    np.testing.assert_allclose(2 * near, far, rtol=1e-6)


def test_errors():
    with pytest.raises(ValueError, match="norm must be one of .*; got 'l3'"):
        ball("l3", 0.1)
    for epsilon in (0.0, -0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon must be positive and finite"):
            ball("linf", epsilon)
