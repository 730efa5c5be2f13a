"""Brightness."""

import jax
import jax.numpy as jnp

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._checks import checked_range

# The largest plausible level: pixels six times as bright.
_BRIGHTEST = 5.0


def brightness(lower: float = -0.5, upper: float = 0.5) -> Alteration:
    """Under- or overexposure: every pixel times `1 + level`, clipped to [0, 1].

    Arcaini et al. (2020), table I (BV). The level is a relative change; -1 gives a
    black image. `PIL.ImageEnhance.Brightness(image).enhance(1 + level)` does the same
    on bytes.

    Args:
      lower: lowest level, at least -1 and at most 0.
      upper: highest level, at least 0.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if `lower` is below -1 or the range does not hold 0.
    """
    lower, upper = checked_range("brightness", lower, upper, 0.0)
    if lower < -1:
        raise ValueError(
            "brightness: lower must lie in [-1, 0], because levels are relative "
            f"changes (divide percent by 100); got {lower:g}"
        )
    return Alteration(
        "brightness",
        _scale,
        lower,
        upper,
        identity=0.0,
        unit="relative change",
        about=About(
            "pixels are multiplied by 1 + level",
            range_from="as in the papers",
            doubt=_doubt,
        ),
    )


def _doubt(lower: float, upper: float, image_shape: tuple[int, ...]) -> str | None:
    if upper <= _BRIGHTEST:
        return None
    return (
        f"a level of {upper:g} makes pixels {1 + upper:g} times as bright, so that all "
        "but the darkest are white. Levels are relative changes: divide percent by "
        f"100, {upper / 100:g}."
    )


def _scale(image: jax.Array, level: jax.Array) -> jax.Array:
    check_image("brightness", image)
    return jnp.clip(image * (1 + level), 0.0, 1.0)
