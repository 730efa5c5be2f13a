"""Zoom."""

from typing import Any

import jax

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._moves import Move, window
from jaxrob.alterations._resample import grid, window_positions


def zoom(lower: float = 1.0, upper: float = 2.0) -> Alteration:
    """Magnifies about the centre: a central crop, rescaled bilinearly.

    Arcaini et al. (2020), table I (Z). The level is the factor of magnification.

    Args:
      lower: smallest factor, 1: the range must hold the identity, and a factor below 1
        would show what lies outside the image.
      upper: largest factor.

    Returns:
      The alteration; identity 1.

    Raises:
      ValueError: if `lower` is not 1 or the range empty.
    """
    lower, upper = checked_range("zoom", lower, upper, 1.0, at_least=1)
    return Alteration(
        "zoom",
        _magnify,
        lower,
        upper,
        identity=1.0,
        unit="factor",
        geometry=_moves,
        about=About("above 1 the image is magnified", range_from="as in the papers"),
    )


def _magnify(image: jax.Array, level: jax.Array) -> jax.Array:
    check_image("zoom", image)
    height, width, _ = image.shape
    scale = 1 / level

    def positions(size: int) -> jax.Array:
        return window_positions(0.5 * size * (1 - scale), scale, size)

    return grid(image, positions(height), positions(width), "edge")


def _moves(level: Any, size: tuple[int, int]) -> tuple[Move, ...]:
    height, width = size
    scale = 1 / level
    start = 0.5 * height * (1 - scale), 0.5 * width * (1 - scale)
    return window(level, start, scale, "crop")
