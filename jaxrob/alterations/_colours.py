"""Brightness, contrast and saturation."""

import jax
import jax.numpy as jnp

from jaxrob._identity.digest import hashable_partial
from jaxrob.alterations._alteration import (
    About,
    Alteration,
    at_part,
    check_colours,
    check_image,
    checked_range,
    with_part,
)

# The largest plausible level: pixels six times as bright.
_BRIGHTEST = 5.0


def brightness(lower: float = -0.5, upper: float = 0.5) -> Alteration:
    """Under- or overexposure: every pixel times `1 + level`, clipped to [0, 1].

    Arcaini et al. (2020), table I (BV). The level is a relative change, at least -1,
    which gives a black image; the identity is 0.
    `PIL.ImageEnhance.Brightness(image).enhance(1 + level)` does the same on bytes. Of
    the range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("brightness", lower, upper, 0.0)
    if lower < -1:
        raise ValueError(
            "brightness: lower must lie in [-1, 0], because levels are relative "
            f"changes (divide percent by 100); got {lower:g}"
        )
    return Alteration(
        "brightness",
        _brighten,
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


def _brighten(image: jax.Array, level: jax.Array) -> jax.Array:
    check_image("brightness", image)
    return jnp.clip(image * (1 + level), 0.0, 1.0)


def contrast(lower: float = 0.05, upper: float = 1.0) -> Alteration:
    """Draws every value towards the mean of its channel, as haze or flat light does.

    The level is the factor of the distance to the mean, at least 0, which leaves a
    single colour; levels above 1, the identity, raise the contrast. The result is
    clipped to [0, 1]. Of the range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("contrast", lower, upper, 1.0, at_least=0)
    return Alteration(
        "contrast",
        hashable_partial(at_part, function=about_means),
        lower,
        upper,
        identity=1.0,
        unit="factor",
        prepare=hashable_partial(with_part, name="contrast", part=channel_means),
        about=About(
            "of the distance to the mean of each channel",
            range_from="ImageNet-C's severity 5",
        ),
    )


def channel_means(image: jax.Array) -> jax.Array:
    return image.mean((0, 1))


def about_means(
    image: jax.Array, means: jax.Array, factor: jax.typing.ArrayLike
) -> jax.Array:
    """Scales the image's distance to the means by a factor; clips to [0, 1]."""
    # Not the means plus the product: this form is exactly the image at a factor of 1.
    return jnp.clip(image * factor + means * (1 - factor), 0.0, 1.0)


def saturation(lower: float = 0.0, upper: float = 2.0) -> Alteration:
    """Makes colours paler or more vivid, at the same hue and value (V of HSV).

    The level is the factor of the saturation, S of HSV, which stays at most 1; the
    identity is 1. At 0, the lowest, each pixel is as bright as its brightest channel,
    and grey. Images have three channels. Of the range and errors see
    `jaxrob.alterations`.
    """
    lower, upper = checked_range("saturation", lower, upper, 1.0, at_least=0)
    return Alteration(
        "saturation",
        _at_saturation,
        lower,
        upper,
        identity=1.0,
        unit="factor",
        about=About(
            "of the saturation, S of HSV; 0 is grey",
            range_from="from grey to ImageNet-C's severity 3",
        ),
    )


def saturated(
    image: jax.Array, factor: jax.typing.ArrayLike, offset: jax.typing.ArrayLike
) -> jax.Array:
    # The saturation is clipped to [0, 1]. Grey has the hue of red.
    value = image.max(-1, keepdims=True)
    spread = value - image.min(-1, keepdims=True)
    # Grey pixels have no hue, and black ones no saturation: 1 avoids NaN in both.
    is_grey = spread == 0
    of_grey = jnp.clip(jnp.asarray(offset, jnp.float32), 0.0, 1.0)
    red = value * (1 - of_grey * jnp.array([0, 1, 1], jnp.float32))
    before = jnp.where(is_grey, 1.0, spread) / jnp.where(value > 0, value, 1.0)
    before = jnp.minimum(before, 1.0)
    more = (jnp.clip(factor * before + offset, 0.0, 1.0) - before) / before
    # Where nothing is added this is exactly the image, however XLA divides.
    coloured = jnp.where(is_grey, red, image + (image - value) * more)
    return jnp.clip(coloured, 0.0, 1.0)


def _at_saturation(image: jax.Array, level: jax.Array) -> jax.Array:
    check_colours("saturation", image)
    return saturated(image, level, 0.0)
