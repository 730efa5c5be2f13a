"""Perturbations other than balls: a sampler of the user's, or an alteration."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_type
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations import Alteration
from jaxrob.metrics._tolerance import masses
from jaxrob.roma._perturbation import Perturbation

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
    return alteration(image, level, jax.random.wrap_key_data(data))
