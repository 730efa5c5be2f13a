"""Distributions of perturbed images: balls, samplers, alterations."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_flag,
    checked_number,
    checked_text,
)
from jaxrob._arguments.messages import failed_on_images
from jaxrob._identity.identity import hashable_partial, is_identifiable, traced
from jaxrob._identity.program import fingerprinted_parts
from jaxrob._numbers import warn_beyond_pixels
from jaxrob.alterations import Alteration
from jaxrob.metrics._tolerance import masses

NORMS = ("linf", "l2", "l1")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Perturbation:
    """How random images near an image are drawn.

    `ball`, `from_sampler` and `from_alteration` make the usual ones. Make your own to
    give splitting a move.

    The latent's distribution does not depend on `size`, so that the same draws serve
    every epsilon. It is a pytree whose one leaf is `size`: another epsilon goes through
    the same compiled program.

    Example::

        def draw(key, image):
            return jax.random.normal(key, image.shape)

        def apply(image, latent, size):
            return image + size * latent

        def move(key, latent, share):
            fresh = jax.random.normal(key, latent.shape)
            return jnp.sqrt(1 - share) * latent + jnp.sqrt(share) * fresh

        noise = jaxrob.roma.Perturbation("noise", draw, apply, move, size=0.1)

    Attributes:
      name: what reports call it.
      draw: `draw(key, image)`, a pytree of arrays.
      apply: `apply(image, latent, size)`, the perturbed image.
      move: `move(key, latent, share)`, a latent that differs from the old one in about
        `share` (in (0, 1]) of what it consists of, reversible with respect to the
        latent's distribution; None if there is none. Multilevel splitting needs it.
      norm: "linf", "l2" or "l1" for the uniform distribution in a ball; None otherwise.
        Importance sampling tilts those that `ball` makes.
      size: epsilon.
      clip: whether perturbed images are clipped to [0, 1].
    """

    name: str = dataclasses.field(metadata={"static": True})
    draw: Callable[..., Any] = dataclasses.field(metadata={"static": True})
    apply: Callable[..., jax.Array] = dataclasses.field(metadata={"static": True})
    move: Callable[..., Any] | None = dataclasses.field(
        default=None, metadata={"static": True}
    )
    norm: str | None = dataclasses.field(default=None, metadata={"static": True})
    size: Any = 0.0
    clip: bool = dataclasses.field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        checked_text("name", self.name)
        check_type("draw", self.draw, Callable, "a function of a key and an image")
        wanted = "a function of an image, a latent draw and a size"
        check_type("apply", self.apply, Callable, wanted)
        if self.move is not None:
            wanted = "a function of a key, a latent draw and a share, or None"
            check_type("move", self.move, Callable, wanted)
        if self.norm is not None:
            check_choice("norm", self.norm, NORMS)
        checked_flag("clip", self.clip)
        # The size is a leaf, and JAX builds trees with leaves of its own.
        if isinstance(self.size, bool | int | float | complex | str | bytes | list):
            checked_number("size", self.size, at_least=0)

    def perturbed(self, image: jax.Array, latent: Any) -> jax.Array:
        """The perturbed image, clipped if `clip` says so."""
        return self.clipped(self.apply(image, latent, self.size))

    def clipped(self, image: jax.Array) -> jax.Array:
        """The image, clipped to [0, 1] if `clip` says so."""
        return jnp.clip(image, 0, 1) if self.clip else image


def fingerprinted_perturbation(
    perturbation: Perturbation, image_shape: tuple[int, ...]
) -> Perturbation:
    """Fingerprints a perturbation as it is now, by what it computes."""
    # The library's own equal by parameters; others are traced, with what they capture.
    if is_identifiable(perturbation):
        return perturbation

    def all_of_it(
        key: jax.Array, image: jax.Array, share: jax.Array, of: Perturbation
    ) -> Any:
        latent = of.draw(key, image)
        moved = None if of.move is None else of.move(key, latent, share)
        return of.perturbed(image, latent), moved

    key = jax.eval_shape(jax.random.key, 0)
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    # Its size is an input: another one is no other program.
    try:
        program, (found, _) = traced(all_of_it, key, image, 0.5, perturbation)
        again, _ = traced(all_of_it, key, image, 0.5, perturbation)
    except Exception as error:  # The user's code may raise anything.
        what = f"perturbation {perturbation.name}, called with a key and an image,"
        raise failed_on_images(what, image_shape, error) from error
    if getattr(found, "shape", None) != image_shape:
        raise ValueError(
            f"{perturbation.name} must return an image of the shape {image_shape}; got "
            f"{found}"
        )
    return fingerprinted_parts(perturbation, ("draw", "apply", "move"), program, again)


# From here on components are independent, of 16 bits (L-infinity: epsilon / 32768,
# below what outputs resolve). Below, they are normal.
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
    # Where few components matter, redrawing some stands still or goes too far.
    if norm == "l1":
        return _laplace(_move_normal(key, _normal(latent), share))
    moved = latent + share * _symmetric(
        jax.random.bits(key, latent.shape, jnp.uint32) >> 16
    )
    return jnp.where(jnp.abs(moved) > 1, jnp.sign(moved) * 2 - moved, moved)


def within(norm: str, latent: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The point of the unit ball that a latent of few normal numbers stands for."""
    return _BALLS[norm][1](jnp.zeros(shape, jnp.float32), latent, 1.0)


def put_within(
    norm: str, latent: jax.Array, point: jax.Array
) -> tuple[jax.Array, jax.Array]:
    # The inverse of `within`. What else there is of the latent stays.
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
    # d of d + 2 coordinates on a sphere are uniform in the ball (Barthe et al. 2005).
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
    beyond = jax.scipy.special.erfc(jnp.abs(normal) / math.sqrt(2))
    return -jnp.sign(normal) * jnp.log(beyond)


def _normal(laplace: jax.Array) -> jax.Array:
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


# Cells of the range in each of which a level's density is taken as constant.
_CELLS = 1024


def from_sampler(fn: Callable[..., jax.Array], clip: bool = False) -> Perturbation:
    """Perturbed images as a function of yours draws them.

    The estimator "splitting" has no move for it.

    Example::

        def speckle(key, image):
            return image * (1 + 0.1 * jax.random.normal(key, image.shape))

        noisy = jaxrob.roma.from_sampler(speckle, clip=True)
        found = jaxrob.roma.assess(classifier, images, perturbation=noisy, key=key)

    Args:
      fn: `fn(key, image)`, a pure function that returns an image of the same shape.
      clip: whether perturbed images are clipped to [0, 1].
    """
    check_type("fn", fn, Callable, "a function of a key and an image")
    name = getattr(fn, "__name__", "sampler")
    return Perturbation(
        name, _take_key, hashable_partial(_apply_sampler, fn=fn), clip=clip
    )


def from_alteration(
    alteration: Alteration, level_distribution: Any = None, clip: bool = False
) -> Perturbation:
    """Perturbed images as an alteration gives them at a random level.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        blurred = jaxrob.roma.from_alteration(blur)
        found = jaxrob.roma.assess(classifier, images, perturbation=blurred, key=key)

    Args:
      alteration: the alteration.
      level_distribution: NumPyro's distribution of the level, which has a CDF. It is
        renormalised to the alteration's range; uniform by default.
      clip: whether perturbed images are clipped to [0, 1].

    Raises:
      TypeError: as `metrics.tolerance_robustness`.
      ValueError: as `metrics.tolerance_robustness`.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    ends = np.linspace(alteration.lower, alteration.upper, _CELLS + 1)
    below = np.append(0.0, np.cumsum(masses(ends, level_distribution)))
    cumulative = tuple((below / below[-1]).tolist())
    apply = hashable_partial(
        _apply_alteration,
        alteration=alteration,
        cumulative=cumulative,
        ends=tuple(ends.tolist()),
    )
    return Perturbation(alteration.name, _draw_level, apply, _move_level, clip=clip)


def _take_key(key: jax.Array, image: jax.Array) -> jax.Array:
    del image
    return key


def _apply_sampler(
    image: jax.Array, key: jax.Array, size: Any, *, fn: Callable[..., jax.Array]
) -> jax.Array:
    del size
    return fn(key, image)


def _draw_level(key: jax.Array, image: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A normal number, which stands for a level, and the data of a key."""
    del image
    which, rest = jax.random.split(key)
    return jax.random.normal(which, (), jnp.float32), jax.random.key_data(rest)


def _move_level(
    key: jax.Array, latent: tuple[jax.Array, jax.Array], share: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The level moves a little; the alteration's own noise stays or is redrawn."""
    normal, data = latent
    which, whether, rest = jax.random.split(key, 3)
    fresh = jax.random.normal(which, (), jnp.float32)
    moved = jnp.sqrt(1 - share) * normal + jnp.sqrt(share) * fresh
    renewed = jax.random.bernoulli(whether, jnp.float32(0.5))
    return moved, jnp.where(renewed, jax.random.key_data(rest), data)


@functools.cache
def _constant(values: tuple[float, ...]) -> np.ndarray:
    return np.asarray(values, np.float32)


def _apply_alteration(
    image: jax.Array,
    latent: tuple[jax.Array, jax.Array],
    size: Any,
    *,
    alteration: Alteration,
    cumulative: tuple[float, ...],
    ends: tuple[float, ...],
) -> jax.Array:
    del size
    normal, data = latent
    # By the inverse of the level's distribution function.
    position = jax.scipy.special.ndtr(normal)
    level = jnp.interp(position, _constant(cumulative), _constant(ends))
    data = jax.random.wrap_key_data(data, impl="threefry2x32")
    return alteration(image, level, data)
