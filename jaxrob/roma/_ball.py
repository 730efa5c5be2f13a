"""Uniform distributions in the balls of radius epsilon around an image.

Each is a transformation of independent components. The move of multilevel splitting
draws a share of these anew. Where there are few, they are normal, and it moves all of
them a little: a move that may renew none of a handful stands still too often.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import check_choice, checked_number
from jaxrob._pixels import warn_beyond_pixels
from jaxrob.roma._perturbation import Perturbation

# From this many pixels on components are independent as the ball has them, and a draw
# in the L-infinity ball takes 16 random bits a pixel. Random bits take most of the time
# of an MLP's draws, and steps of epsilon / 32768 in each of so many pixels are below
# what a classifier's outputs resolve. Below, they are normal.
_MANY = 64
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


def is_ball(perturbation: Perturbation) -> bool:
    """Whether it is one of the balls here; a user's own may have a norm as well."""
    norm = perturbation.norm
    return norm is not None and perturbation.apply is _BALLS[norm][1]


def has_few_normals(perturbation: Perturbation, size: int) -> bool:
    """Whether a latent is one array of few independent standard normal numbers."""
    return size < _MANY and is_ball(perturbation)


def can_be_nudged(perturbation: Perturbation, size: int) -> bool:
    """Whether its move draws anew some of many components, so that `nudged` differs."""
    return size >= _MANY and is_ball(perturbation) and perturbation.norm != "l2"


def nudged(
    norm: str | None, key: jax.Array, latent: jax.Array, share: jax.Array
) -> jax.Array:
    """A latent of many components, all of them moved a little."""
    # Reversible, as a move. Where few components matter, one that draws some anew
    # stands still in these or goes too far, while all steps of this one are as small as
    # need be.
    if norm == "l1":
        return _laplace(_move_normal(key, _normal(latent), share))
    moved = latent + share * _symmetric(
        jax.random.bits(key, latent.shape, jnp.uint32) >> 16
    )
    # Mirrored at the ball's ends.
    return jnp.where(jnp.abs(moved) > 1, jnp.sign(moved) * 2 - moved, moved)


def within(norm: str, latent: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The point of the unit ball that a latent of few normal numbers stands for."""
    return _BALLS[norm][1](jnp.zeros(shape, jnp.float32), latent, 1.0)


def put_within(
    norm: str, latent: jax.Array, point: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A latent moved to another point of the unit ball."""
    # What else there is of the latent stays, so that a move of the point that keeps the
    # uniform distribution keeps the latent's. The inverse of `within`.
    point = point.reshape(-1)
    if norm == "linf":
        moved = math.sqrt(2) * jax.scipy.special.erfinv(point)
        return moved.reshape(latent.shape), jnp.abs(point).max() < 1
    if norm == "l2":
        size = jnp.linalg.norm(latent)
        left = 1 - jnp.sum(point**2)
        rest = latent[-2:] / jnp.linalg.norm(latent[-2:])
        rest = jnp.sqrt(jnp.maximum(left, 0)) * rest
        return size * jnp.concatenate([point, rest]), left > 0
    total = jnp.abs(_laplace(latent)).sum()
    left = 1 - jnp.abs(point).sum()
    last = jnp.where(latent[-1:] < 0, -left, left)
    return _normal(total * jnp.concatenate([point, last])), left > 0


def _draw_linf(key: jax.Array, image: jax.Array) -> jax.Array:
    if image.size < _MANY:
        return jax.random.normal(key, image.shape, jnp.float32)
    words = jax.random.bits(key, (-(-image.size // 2),), jnp.uint32)
    halves = jnp.concatenate([words & 0xFFFF, words >> 16])[: image.size]
    return _symmetric(halves).reshape(image.shape)


def _apply_linf(image: jax.Array, latent: jax.Array, epsilon: Any) -> jax.Array:
    if image.size < _MANY:
        latent = jax.scipy.special.erf(latent / math.sqrt(2))
    return image + epsilon * latent


def _move_linf(key: jax.Array, latent: jax.Array, share: jax.Array) -> jax.Array:
    if latent.size < _MANY:
        return _move_normal(key, latent, share)
    # One word for each pixel: half of it says whether, the other half where to.
    words = jax.random.bits(key, latent.shape, jnp.uint32)
    renewed = (words >> 16) < jnp.uint32(share * 2**16)
    return jnp.where(renewed, _symmetric(words & 0xFFFF), latent)


def _draw_l2(key: jax.Array, image: jax.Array) -> jax.Array:
    # The first d of d + 2 coordinates of a uniform point on a sphere are uniform in
    # the ball (Barthe et al. 2005).
    return jax.random.normal(key, (image.size + 2,), jnp.float32)


def _apply_l2(image: jax.Array, latent: jax.Array, epsilon: Any) -> jax.Array:
    inside = latent[:-2] / jnp.linalg.norm(latent)
    return image + epsilon * inside.reshape(image.shape)


def _draw_l1(key: jax.Array, image: jax.Array) -> jax.Array:
    # d of d + 1 exponentials, divided by their sum, with random signs.
    if image.size < _MANY:
        return jax.random.normal(key, (image.size + 1,), jnp.float32)
    return jax.random.laplace(key, (image.size + 1,), jnp.float32)


def _apply_l1(image: jax.Array, latent: jax.Array, epsilon: Any) -> jax.Array:
    if image.size < _MANY:
        latent = _laplace(latent)
    inside = latent[:-1] / jnp.abs(latent).sum()
    return image + epsilon * inside.reshape(image.shape)


def _move_l1(key: jax.Array, latent: jax.Array, share: jax.Array) -> jax.Array:
    # It has one component more than the image.
    if latent.size <= _MANY:
        return _move_normal(key, latent, share)
    which, what = jax.random.split(key)
    renewed = jax.random.bernoulli(which, jnp.float32(share), latent.shape)
    fresh = jax.random.laplace(what, latent.shape, jnp.float32)
    return jnp.where(renewed, fresh, latent)


def _laplace(normal: jax.Array) -> jax.Array:
    """Laplace variables from normal ones."""
    beyond = jax.scipy.special.erfc(jnp.abs(normal) / math.sqrt(2))
    return -jnp.sign(normal) * jnp.log(beyond)


def _normal(laplace: jax.Array) -> jax.Array:
    """Normal variables from Laplace ones."""
    normal = -jax.scipy.special.ndtri(jnp.exp(-jnp.abs(laplace)) / 2)
    return jnp.sign(laplace) * normal


def _move_normal(key: jax.Array, latent: jax.Array, share: jax.Array) -> jax.Array:
    # A preconditioned Crank-Nicolson step, reversible for the normal distribution.
    fresh = jax.random.normal(key, latent.shape, jnp.float32)
    return jnp.sqrt(1 - share) * latent + jnp.sqrt(share) * fresh


def _symmetric(halves: jax.Array) -> jax.Array:
    """Uniform in (-1, 1) from 16 bits, symmetric about 0."""
    return (halves.astype(jnp.float32) - (2**15 - 0.5)) / 2**15


_BALLS = {
    "linf": (_draw_linf, _apply_linf, _move_linf),
    "l2": (_draw_l2, _apply_l2, _move_normal),
    "l1": (_draw_l1, _apply_l1, _move_l1),
}
