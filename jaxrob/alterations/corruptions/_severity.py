"""Benchmark corruptions by severity, and those that our alterations make."""

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._identity.digest import hashable_partial
from jaxrob._pixels import unit_range
from jaxrob.alterations._alteration import (
    Alteration,
    check_colours,
    check_image,
    in_float32,
)
from jaxrob.alterations._blur import gaussian_blur as of_radius
from jaxrob.alterations._blur import pixelated, planes
from jaxrob.alterations._colours import about_means, channel_means, saturated
from jaxrob.alterations._jpeg import jpeg_coefficients, jpeg_decode
from jaxrob.alterations._jpeg import jpeg_compression as to_quality
from jaxrob.alterations._noise import (
    add_noise,
    add_speckle,
    count_photons,
    draw_impulses,
    draw_noise,
    draw_shots,
    set_impulses,
)
from jaxrob.alterations.corruptions._parameters import (
    BRIGHTNESS,
    CONTRAST,
    GAUSSIAN_BLUR,
    GAUSSIAN_NOISE,
    IMPULSE_NOISE,
    JPEG_COMPRESSION,
    PIXELATE,
    SATURATE,
    SHOT_NOISE,
    SPECKLE_NOISE,
    Table,
    at,
    checked_size,
    size_for,
)


def corruption(
    table: Table,
    apply: Callable[..., jax.Array],
    *,
    size: int | None,
    draw: Callable[[jax.Array, jax.Array], Any] | None = None,
    prepare: Callable[[jax.Array], Any] | None = None,
    **more: Any,
) -> Alteration:
    """Is `by_severity` for functions of the parameters at the level alone."""
    return by_severity(
        table,
        prepare and hashable_partial(_without_rows, function=prepare),
        hashable_partial(_at_parameters, apply=apply),
        size=size,
        draw=draw and hashable_partial(_without_rows, function=draw),
        **more,
    )


def by_severity(
    table: Table,
    prepare: Callable[..., Any] | None,
    apply: Callable[[jax.Array, Any, jax.Array, np.ndarray], jax.Array],
    *,
    size: int | None,
    draw: Callable[[jax.Array, jax.Array, np.ndarray], Any] | None = None,
    check: Callable[[str, jax.Array], None] = check_image,
    representative: Callable[..., Any] | None = None,
    moves_pixels: bool = False,
) -> Alteration:
    """Makes an alteration with levels from 0, the identity, to severity 5."""
    # All functions receive the parameters at levels 0 to 5, float64 `[6, P]`, as
    # constants.
    size = checked_size(table.corruption, size)
    return Alteration(
        table.corruption,
        hashable_partial(_at_severity, apply=apply, table=table, size=size),
        0.0,
        5.0,
        identity=0.0,
        unit="severity",
        stochastic=draw is not None,
        prepare=hashable_partial(
            _prepare, prepare=prepare, draw=draw, check=check, table=table, size=size
        ),
        representative=representative,
        about=table.about(size),
        moves_pixels=moves_pixels,
    )


def between(found: jax.Array, level: jax.Array) -> jax.Array:
    """Interpolates values at levels 0 to 5, `[6, ...]`, linearly: `[...]`."""
    level = jnp.asarray(level, jnp.float32)
    before = jnp.clip(jnp.floor(level), 0, 4).astype(jnp.int32)
    share = level - before
    low, high = found[before], found[before + 1]
    return (1 - share) * low + share * high


def _without_rows(*arguments: Any, function: Callable[..., Any]) -> Any:
    return function(*arguments[:-1])


def _at_parameters(
    image: jax.Array,
    prepared: Any,
    level: jax.Array,
    rows: np.ndarray,
    *,
    apply: Callable[..., jax.Array],
) -> jax.Array:
    return apply(image, prepared, *at(rows, level))


def _prepare(
    image: jax.Array,
    *key: jax.Array,
    prepare: Callable[..., Any] | None,
    draw: Callable[..., Any] | None,
    check: Callable[[str, jax.Array], None],
    table: Table,
    size: int | None,
) -> tuple[jax.Array, Any]:
    check(table.corruption, image)
    image = in_float32(image)
    rows = table.rows(size_for(table.corruption, image.shape, size))
    draws = () if draw is None else (draw(image, *key, rows),)
    if prepare is None:
        return image, draws[0] if draws else None
    return image, prepare(image, *draws, rows)


def _at_severity(
    image_and_prepared: tuple[jax.Array, Any],
    level: jax.Array,
    *,
    apply: Callable[..., jax.Array],
    table: Table,
    size: int | None,
) -> jax.Array:
    image, prepared = image_and_prepared
    rows = table.rows(size_for(table.corruption, image.shape, size))
    return apply(image, prepared, level, rows)


# The benchmark truncates the Gaussian at 4 standard deviations, this blur at 5: a
# difference of 6e-5.
_BLUR = of_radius(0.0, 6.5)
_COMPRESSION = to_quality()
_HELD_BACK = "It is one of the four corruptions held back for validation."
_SEE = "Of `size`, of levels and errors see `jaxrob.alterations.corruptions`."


class _Maker(Protocol):
    def __call__(self, size: int | None = None) -> Alteration: ...


def _scheduled(
    table: Table,
    apply: Callable[..., jax.Array],
    what: str,
    more: str = "",
    *,
    representative: Callable[..., Any] | None = None,
    **parts: Any,
) -> _Maker:
    """Returns a function of a size that makes a corruption."""

    def make(size: int | None = None) -> Alteration:
        size = checked_size(table.corruption, size)
        same = None
        if representative is not None and size is not None:
            same = hashable_partial(representative, size=size)
        return corruption(table, apply, size=size, representative=same, **parts)

    make.__name__ = make.__qualname__ = table.corruption.replace(" ", "_")
    make.__doc__ = "\n\n".join(filter(None, (what, more, _SEE)))
    return make


def _ready_to_blur(image: jax.Array) -> Any:
    return _BLUR.prepared(image)


def _blur(image: jax.Array, prepared: tuple, radius: jax.Array) -> jax.Array:
    return _BLUR.at_level(prepared, radius)


def _pixelate(image: jax.Array, planes: jax.Array, share: jax.Array) -> jax.Array:
    return pixelated(planes, share)


def _saturate(
    image: jax.Array, prepared: None, factor: jax.Array, offset: jax.Array
) -> jax.Array:
    return saturated(image, factor, offset)


def _transform(image: jax.Array) -> Any:
    return _COMPRESSION.prepared(image)


def _compress(image: jax.Array, prepared: tuple, quality: jax.Array) -> jax.Array:
    # Quality 100 means no compression here: that is level 0 alone.
    return _COMPRESSION.at_level(prepared, 100 - quality)


def _same_quality(levels: np.ndarray, *, size: int) -> np.ndarray:
    losses = 100 - JPEG_COMPRESSION.rows(size)[:, 0]
    severities = np.arange(len(losses))
    same = _COMPRESSION.canonical(np.interp(levels, severities, losses))
    return np.interp(same, losses, severities)


def _brighten(image: jax.Array, prepared: None, added: jax.Array) -> jax.Array:
    value = image.max(-1, keepdims=True)
    brighter = jnp.clip(value + added, 0.0, 1.0)
    # Black has neither hue nor saturation: it becomes grey.
    is_black = value <= 0
    more = (brighter - value) / jnp.where(is_black, 1.0, value)
    return jnp.clip(jnp.where(is_black, brighter, image + image * more), 0.0, 1.0)


brightness = _scheduled(
    BRIGHTNESS,
    _brighten,
    "More light: adds to V of HSV, and leaves hue and saturation as they are.",
    "On a grey image the amount is added to every value.",
)
gaussian_noise = _scheduled(
    GAUSSIAN_NOISE,
    add_noise,
    "Normal noise on every value, as from a sensor in low light.",
    draw=draw_noise,
)
shot_noise = _scheduled(
    SHOT_NOISE,
    count_photons,
    "Counts of photons, as from a sensor in low light.",
    draw=draw_shots,
)
impulse_noise = _scheduled(
    IMPULSE_NOISE,
    set_impulses,
    "Salt and pepper on single values, as from bit errors.",
    draw=draw_impulses,
)
contrast = _scheduled(
    CONTRAST,
    about_means,
    "Values drawn towards the mean of their channel, as by flat light.",
    prepare=channel_means,
)
pixelate = _scheduled(
    PIXELATE,
    _pixelate,
    "Larger pixels, as from a sensor of lower resolution.",
    "The number of pixels is an integer: the picture moves by steps.",
    prepare=planes,
)
jpeg_compression = _scheduled(
    JPEG_COMPRESSION,
    _compress,
    "A JPEG file of lower quality, bit for bit as Pillow writes and reads it.",
    "The quality is an integer: the picture moves by steps, and if `size` is given,\n"
    "levels of the same quality are evaluated once. No gradient passes. Images have 1\n"
    "or 3 channels.",
    prepare=_transform,
    representative=_same_quality,
)
speckle_noise = _scheduled(
    SPECKLE_NOISE,
    add_speckle,
    "Normal noise in proportion to the value.",
    _HELD_BACK,
    draw=draw_noise,
)
gaussian_blur = _scheduled(
    GAUSSIAN_BLUR,
    _blur,
    "Convolution with a Gaussian, as from a lens out of focus.",
    _HELD_BACK,
    prepare=_ready_to_blur,
)
saturate = _scheduled(
    SATURATE,
    _saturate,
    "Paler colours at severities 1 and 2, more vivid ones from 3 on.",
    "Not monotone: accuracy may rise from severity 2 to 3. Images have 3 channels.\n"
    + _HELD_BACK,
    check=check_colours,
)


_QUALITY = 85
# Whole bytes that float32 left slightly lower must not lose one.
_BYTE_SLACK = 1e-4


def truncation_to_bytes(image: jax.Array) -> jax.Array:
    """Rounds pixels down to bytes, as the benchmark's `np.uint8` does."""
    levels = jnp.floor(jnp.clip(image, 0.0, 1.0) * 255 + _BYTE_SLACK)
    return unit_range(levels)


def truncation_to_bytes_and_jpeg_85(image: jax.Array) -> jax.Array:
    """Truncates, and saves as a JPEG file of quality 85, as ImageNet-C does."""
    image = truncation_to_bytes(image)
    quality = jnp.asarray(_QUALITY, jnp.int32)
    return jpeg_decode(jpeg_coefficients(image), quality, image.shape)
