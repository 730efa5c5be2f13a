"""Snow by severity."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._motion_blur import Motion, draw_motion, moved, ready
from jaxrob.alterations._normal import normal
from jaxrob.alterations.corruptions._by_severity import between, by_severity
from jaxrob.alterations.corruptions._clipped_zoom import zoom_table, zoomed
from jaxrob.alterations.corruptions._parameters import SNOW, at

# Flakes fall in directions between these, in degrees.
_ANGLES = (-135.0, -45.0)
# The weights of red, green and blue in luminance (ITU-R BT.601).
_LUMINANCE = (0.299, 0.587, 0.114)


class SnowDraws(NamedTuple):
    """The random draws.

    Attributes:
      flakes: standard normal numbers, `[H, W]`.
      motion: the direction in which the flakes fall.
    """

    flakes: jax.Array
    motion: Motion


def snow(size: int | None = None) -> Alteration:
    """Flakes that fall in one direction, over a whitened image.

    Flakes are the brightest spots of a magnified noise map, blurred along their
    direction, plus the same map rotated by 180 degrees. Between two severities their
    brightness is a mixture of the two snowfalls, so that it is continuous.

    Args:
      size: the image size whose parameters it takes; see
        `jaxrob.alterations.corruptions`.

    Returns:
      The alteration for colour or grey images; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`; when applied, if the image has
        neither 1 nor 3 channels.
    """
    return by_severity(SNOW, _prepare, _apply, size=size, draw=_draw, check=_check)


def _check(name: str, image: jax.Array) -> None:
    check_image(name, image)
    if image.shape[-1] not in (1, 3):
        raise ValueError(
            f"{name}: image must be grey or of red, green and blue, because {name} "
            f"takes its luminance; got {image.shape[-1]} channels"
        )


def _draw(image: jax.Array, key: jax.Array, rows: np.ndarray) -> SnowDraws:
    del rows
    flakes, motion = jax.random.split(key)
    return SnowDraws(
        normal(flakes, image.shape[:2]),
        draw_motion(motion, *_ANGLES),
    )


def _prepare(image: jax.Array, draws: SnowDraws, rows: np.ndarray) -> jax.Array:
    """Returns the layers of flakes at levels 0 to 5, `[6, H, W, 1]`."""
    del image
    zooms = rows[:, 2]
    height, width = (zoom_table(side, zooms) for side in draws.flakes.shape)
    taps = 2 * int(rows[:, 4].max()) + 1

    def layer(row: jax.Array) -> jax.Array:
        mean, deviation, place, threshold, radius, sigma = row
        flakes = mean + deviation * zoomed(
            draws.flakes[..., None], height, width, place.astype(jnp.int32)
        )
        flakes = jnp.clip(jnp.where(flakes < threshold, 0.0, flakes), 0.0, 1.0)
        # The benchmark keeps the flakes as bytes, truncated both times.
        flakes = jnp.floor(255 * flakes) / 255
        line = ready(flakes, draws.motion, taps)
        fallen = jnp.floor(255 * moved(flakes, line, sigma, 2 * radius + 1)) / 255
        return fallen + fallen[::-1, ::-1]

    # The zoom's index instead of the factor; level 0 has no flakes.
    given = np.copy(rows[:, :6])
    given[:, 2] = np.arange(len(rows))
    given[0, :2] = 0
    # A loop, because XLA would otherwise redraw the numbers wherever they are read.
    return jax.lax.map(layer, jnp.asarray(given, jnp.float32))


def _apply(
    image: jax.Array, layers: jax.Array, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    share = at(rows, level)[-1]
    luminance = image
    if image.shape[-1] == 3:
        luminance = (image * jnp.asarray(_LUMINANCE, jnp.float32)).sum(
            -1, keepdims=True
        )
    whiter = jnp.maximum(image, 1.5 * luminance + 0.5)
    mixed = share * image + (1 - share) * whiter
    return jnp.clip(mixed + between(layers, level), 0.0, 1.0)
