"""Motion blur by severity."""

import jax
import numpy as np

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._motion_blur import Line, Motion, draw_motion, moved, ready
from jaxrob.alterations.corruptions._by_severity import by_severity
from jaxrob.alterations.corruptions._parameters import MOTION_BLUR, at

# Directions lie within this many degrees of the rows.
_ANGLE = 45.0


def motion_blur(size: int | None = None) -> Alteration:
    """One half of a Gaussian along a line, as from a camera that moves.

    The direction is drawn uniformly within 45 degrees of the rows. The kernel's
    length and its standard deviation are linear in the level; the last tap may be
    fractional.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(MOTION_BLUR, _prepare, _apply, size=size, draw=_draw)


def _draw(image: jax.Array, key: jax.Array, rows: np.ndarray) -> Motion:
    del image, rows
    return draw_motion(key, -_ANGLE, _ANGLE)


def _prepare(image: jax.Array, motion: Motion, rows: np.ndarray) -> Line:
    return ready(image, motion, 2 * int(rows[:, 0].max()) + 1)


def _apply(
    image: jax.Array, line: Line, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    radius, sigma = at(rows, level)
    return moved(image, line, sigma, 2 * radius + 1)
