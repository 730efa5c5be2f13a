"""Brightness by severity."""

import jax
import jax.numpy as jnp

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations.corruptions._corruption import corruption
from jaxrob.alterations.corruptions._parameters import BRIGHTNESS


def brightness(size: int | None = None) -> Alteration:
    """More light: adds to V of HSV, and leaves hue and saturation as they are.

    On a grey image the amount is added to every value.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return corruption(BRIGHTNESS, _apply, size=size)


def _apply(image: jax.Array, prepared: None, added: jax.Array) -> jax.Array:
    value = image.max(-1, keepdims=True)
    brighter = jnp.clip(value + added, 0.0, 1.0)
    # Black has neither hue nor saturation: it becomes grey.
    is_black = value <= 0
    more = (brighter - value) / jnp.where(is_black, 1.0, value)
    return jnp.clip(jnp.where(is_black, brighter, image + image * more), 0.0, 1.0)
