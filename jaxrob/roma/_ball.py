"""Uniform distributions in the balls of radius epsilon around an image.

Each is a transformation of independent components. The move of multilevel splitting
draws a share of these anew.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._runtime.checks import check_choice, checked_number
from jaxrob._runtime.pixels import warn_beyond_pixels
from jaxrob.roma._perturbation import Perturbation

# From this many pixels on, a draw in the L-infinity ball takes 16 random bits a pixel.
# Random bits take most of the time of an MLP's draws, and steps of epsilon / 32768 in
# each of so many pixels are below what a classifier's outputs resolve.
_HALF_WORDS_FROM = 64
# Beyond, float32 would overflow.
LARGEST_EPSILON = 2.0**30


def ball(norm: str, epsilon: float, clip: bool = False) -> Perturbation:
    """Perturbed images drawn uniformly, in volume, from a ball around the image.

    The ball around an image x0 is `{x: |x - x0| <= epsilon}`. `jaxrob.roma.assess`
    makes it from its own arguments; make one to draw perturbed images yourself.

    Example::

        near = jaxrob.roma.ball("linf", epsilon=0.1)
        latent = near.draw(jax.random.key(0), image)
        perturbed = near.perturbed(image, latent)

    Args:
      norm: "linf", the largest change of a pixel, as Levy and Katz (2022); "l2", the
        Euclidean one; "l1", the sum of absolute changes.
      epsilon: the radius, in units of pixels in [0, 1].
      clip: whether perturbed images are clipped to [0, 1]. Then they are not uniform.
        The paper does not clip.

    Raises:
      ValueError: if the norm is none of these, or epsilon is not positive and finite.
    """
    check_choice("norm", norm, _BALLS)
    epsilon = checked_number("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON)
    warn_beyond_pixels(epsilon, norm)
    draw, apply, move = _BALLS[norm]
    return Perturbation(f"{norm} ball", draw, apply, move, norm, epsilon, clip)


def _draw_linf(key: jax.Array, image: jax.Array) -> jax.Array:
    if image.size < _HALF_WORDS_FROM:
        return jax.random.uniform(key, image.shape, minval=-1.0)
    words = jax.random.bits(key, (-(-image.size // 2),))
    halves = jnp.concatenate([words & 0xFFFF, words >> 16])[: image.size]
    return _symmetric(halves).reshape(image.shape)


def _apply_linf(image: jax.Array, latent: jax.Array, epsilon: Any) -> jax.Array:
    return image + epsilon * latent


def _move_linf(key: jax.Array, latent: jax.Array, share: jax.Array) -> jax.Array:
    if latent.size < _HALF_WORDS_FROM:
        which, where = jax.random.split(key)
        renewed = jax.random.bernoulli(which, share, latent.shape)
        fresh = jax.random.uniform(where, latent.shape, minval=-1.0)
        return jnp.where(renewed, fresh, latent)
    # One word for each pixel: half of it says whether, the other half where to.
    words = jax.random.bits(key, latent.shape)
    renewed = (words >> 16) < jnp.uint32(share * 2**16)
    return jnp.where(renewed, _symmetric(words & 0xFFFF), latent)


def _draw_l2(key: jax.Array, image: jax.Array) -> jax.Array:
    # The first d of d + 2 coordinates of a uniform point on a sphere are uniform in
    # the ball (Barthe et al. 2005).
    return jax.random.normal(key, (image.size + 2,))


def _apply_l2(image: jax.Array, latent: jax.Array, epsilon: Any) -> jax.Array:
    inside = latent[:-2] / jnp.linalg.norm(latent)
    return image + epsilon * inside.reshape(image.shape)


def _move_l2(key: jax.Array, latent: jax.Array, share: jax.Array) -> jax.Array:
    # A preconditioned Crank-Nicolson step, reversible for the normal distribution.
    fresh = jax.random.normal(key, latent.shape)
    return jnp.sqrt(1 - share) * latent + jnp.sqrt(share) * fresh


def _draw_l1(key: jax.Array, image: jax.Array) -> jax.Array:
    # d of d + 1 exponentials, divided by their sum, with random signs.
    return jax.random.laplace(key, (image.size + 1,))


def _apply_l1(image: jax.Array, latent: jax.Array, epsilon: Any) -> jax.Array:
    inside = latent[:-1] / jnp.abs(latent).sum()
    return image + epsilon * inside.reshape(image.shape)


def _move_l1(key: jax.Array, latent: jax.Array, share: jax.Array) -> jax.Array:
    which, what = jax.random.split(key)
    renewed = jax.random.bernoulli(which, share, latent.shape)
    return jnp.where(renewed, jax.random.laplace(what, latent.shape), latent)


def _symmetric(halves: jax.Array) -> jax.Array:
    """Uniform in (-1, 1) from 16 bits, symmetric about 0."""
    return (halves.astype(jnp.float32) - (2**15 - 0.5)) / 2**15


_BALLS = {
    "linf": (_draw_linf, _apply_linf, _move_linf),
    "l2": (_draw_l2, _apply_l2, _move_l2),
    "l1": (_draw_l1, _apply_l1, _move_l1),
}
