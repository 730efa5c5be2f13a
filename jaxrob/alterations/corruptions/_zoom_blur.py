"""Zoom blur by severity."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations.corruptions._by_severity import between, by_severity
from jaxrob.alterations.corruptions._clipped_zoom import zoom_table, zoomed
from jaxrob.alterations.corruptions._parameters import ZOOM_BLUR


def zoom_blur(size: int | None = None) -> Alteration:
    """The mean of an image and its zooms, as from a camera that approaches its subject.

    Zooms of all factors from 1 to a maximum are averaged. Between two severities the
    weights of the factors are linear in the level.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(ZOOM_BLUR, _prepare, _apply, size=size)


class _Group(NamedTuple):
    """Factors that the same severities share.

    Attributes:
      factors: the factors.
      weights: the weight of each factor in the mean at levels 0 to 5.
    """

    factors: tuple[float, ...]
    weights: tuple[float, ...]


def _prepare(image: jax.Array, rows: np.ndarray) -> jax.Array:
    """Returns the blurred images at levels 0 to 5, `[6, H, W, C]`."""
    # The zooms are most of the work, and many severities share one.
    groups = _groups(rows)
    sums = [_sum_of_zooms(image, group.factors) for group in groups]
    weights = np.array([group.weights for group in groups], np.float32)
    number = np.array([len(group.factors) for group in groups], np.float32)
    own = 1 - (number[:, None] * weights).sum(0)
    blurred = []
    for level, share in enumerate(own):
        mean = share * image
        for weight, one in zip(weights[:, level], sums):
            mean = mean + weight * one if weight else mean
        blurred.append(mean)
    return jnp.stack(blurred)


def _apply(
    image: jax.Array, blurred: jax.Array, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    del image, rows
    return jnp.clip(between(blurred, level), 0.0, 1.0)


def _sum_of_zooms(image: jax.Array, factors: tuple[float, ...]) -> jax.Array:
    height, width, _ = image.shape
    rows = zoom_table(height, np.array(factors))
    columns = zoom_table(width, np.array(factors))

    def add(place: jax.Array, found: jax.Array) -> jax.Array:
        return found + zoomed(image, rows, columns, place)

    return jax.lax.fori_loop(0, len(factors), add, jnp.zeros_like(image))


def _groups(rows: np.ndarray) -> list[_Group]:
    """Returns the factors above 1, grouped by the severities that use them."""
    found: dict[float, list[float]] = {}
    for level, (end, step) in enumerate(rows[1:], 1):
        factors = np.arange(1, end, step)
        for factor in factors[1:]:
            # Not rounded: at 1.25 the last digit decides on a pixel.
            weights = found.setdefault(float(factor), [0.0] * len(rows))
            weights[level] = 1 / (len(factors) + 1)
    groups: dict[tuple[float, ...], list[float]] = {}
    for factor, weights in found.items():
        groups.setdefault(tuple(weights), []).append(factor)
    return [_Group(tuple(factors), weights) for weights, factors in groups.items()]
