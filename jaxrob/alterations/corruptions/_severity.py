"""Benchmark corruptions by severity: their parameters, and the shared makers."""

import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import checked_integer
from jaxrob._identity.identity import hashable_partial
from jaxrob._numbers import unit_range
from jaxrob.alterations._alteration import (
    About,
    Alteration,
    check_colours,
    check_image,
    in_float32,
)
from jaxrob.alterations._blur import gaussian_blur as of_radius
from jaxrob.alterations._blur import pixelated, planes
from jaxrob.alterations._jpeg import jpeg_coefficients, jpeg_decode
from jaxrob.alterations._jpeg import jpeg_compression as to_quality
from jaxrob.alterations._photometric import (
    about_means,
    add_noise,
    add_speckle,
    channel_means,
    count_photons,
    draw_impulses,
    draw_noise,
    draw_shots,
    saturated,
    set_impulses,
)

SIZES = (32, 64, 224, 299)
# An image's size may differ from a table's by this factor: the same blur in pixels, or
# photons per pixel, has another effect on much larger images.
FARTHEST = 1.5


@dataclasses.dataclass(frozen=True)
class Table:
    """A corruption's parameters."""

    corruption: str
    # at levels 0 to 5, by the image size: `[6, P]`, float64
    by_size: dict[int, np.ndarray] = dataclasses.field(compare=False, repr=False)
    # the meaning of the parameters, in words
    sets: str = dataclasses.field(compare=False)

    def about(self, size: int | None) -> About:
        return About(
            f"1 to 5 are the benchmark's severities, which set {self.sets}",
            {"size": functools.partial(size_for, self.corruption, size=size)},
            {"size": "px, for which the benchmark has these parameters"},
            doubt=hashable_partial(_doubt, size=size),
            size_matters=True,
        )

    def rows_for(self, image: jax.Array, size: int | None) -> np.ndarray:
        return self.by_size[size_for(self.corruption, image.shape, size)]


@functools.cache
def table(name: str) -> Table:
    """Reads a corruption's parameters from `parameters.toml`."""
    text = pathlib.Path(__file__).with_name("parameters.toml").read_text("utf-8")
    found = tomllib.loads(text)[name]
    by_size = {}
    for size in SIZES:
        severities = np.array(found.get(str(size), found["224"]), np.float64)
        # A single parameter is written without brackets.
        by_size[size] = np.vstack([found["identity"], severities.reshape(5, -1)])
    return Table(name.replace("_", " "), by_size, found["sets"])


def checked_size(name: str, size: int | None) -> int | None:
    """Returns a size that has parameters, or None for the nearest to the image's."""
    if size is None:
        return None
    size = checked_integer(f"{name}: size", size)
    if size not in SIZES:
        raise ValueError(
            f"{name}: size must be one of {SIZES}, the sizes of images in pixels for "
            f"which the benchmark has parameters; got {size}"
        )
    return size


def size_for(name: str, image_shape: tuple[int, ...], size: int | None = None) -> int:
    """The image's entry of `SIZES`: `size`, or the nearest to its shorter side."""
    if size is not None:
        return size
    height, width = image_shape[:2]
    side = min(height, width)
    found = min(SIZES, key=lambda one: max(one / side, side / one))
    if max(found / side, side / found) > FARTHEST:
        raise ValueError(
            f"{name}: the benchmark has no parameters for an image of {height} x "
            f"{width} px, only for sizes near {SIZES}; choose those of one size, "
            f"size={found} for instance"
        )
    return found


def _doubt(
    lower: float, upper: float, image_shape: tuple[int, ...], *, size: int | None
) -> str | None:
    side = min(image_shape[:2])
    if size is None or max(size / side, side / size) <= FARTHEST:
        return None
    return (
        f"its parameters are those for images of {size} px, and these have "
        f"{image_shape[0]} x {image_shape[1]} px, for which as many pixels mean "
        "something else. size=None takes those of the nearest size."
    )


def at(rows: np.ndarray, level: jax.typing.ArrayLike) -> jax.Array:
    """Returns the parameters at a level, float32 `[P]`, linear between the rows."""
    return between(jnp.asarray(rows, jnp.float32), level)


def between(values: jax.Array, level: jax.typing.ArrayLike) -> jax.Array:
    """Interpolates values at levels 0 to 5, `[6, ...]`, linearly: `[...]`."""
    level = jnp.asarray(level, jnp.float32)
    before = jnp.clip(jnp.floor(level), 0, 4).astype(jnp.int32)
    share = level - before
    return (1 - share) * values[before] + share * values[before + 1]


def by_severity(
    name: str,
    apply: Callable[[jax.Array, Any, jax.Array, np.ndarray], jax.Array],
    *,
    size: int | None,
    draw: Callable[[jax.Array, jax.Array], Any] | None = None,
    prepare: Callable[..., Any] | None = None,
    check: Callable[[str, jax.Array], None] = check_image,
    representative: Callable[..., Any] | None = None,
    moves_pixels: bool = False,
) -> Alteration:
    """Makes an alteration with levels from 0, the identity, to severity 5."""
    # `apply` and `prepare` receive the parameters at levels 0 to 5, float64 `[6, P]`,
    # as constants.
    parameters = table(name)
    size = checked_size(parameters.corruption, size)
    return Alteration(
        parameters.corruption,
        hashable_partial(_at_severity, apply=apply, table=parameters, size=size),
        0.0,
        5.0,
        identity=0.0,
        unit="severity",
        stochastic=draw is not None,
        prepare=hashable_partial(
            _prepare,
            prepare=prepare,
            draw=draw,
            check=check,
            table=parameters,
            size=size,
        ),
        representative=representative,
        about=parameters.about(size),
        moves_pixels=moves_pixels,
    )


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
    rows = table.rows_for(image, size)
    draws = () if draw is None else (draw(image, *key),)
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
    return apply(image, prepared, level, table.rows_for(image, size))


# The benchmark truncates the Gaussian at 4 standard deviations, this blur at 5: a
# difference of 6e-5.
_BLUR = of_radius(0.0, 6.5)
_COMPRESSION = to_quality()
_HELD_BACK = "It is one of the four corruptions held back for validation."
_SEE = "Of `size`, of levels and errors see `jaxrob.alterations.corruptions`."


class _Maker(Protocol):
    def __call__(self, size: int | None = None) -> Alteration: ...


def _scheduled(
    name: str,
    apply: Callable[..., jax.Array],
    what: str,
    more: str = "",
    *,
    prepare: Callable[[jax.Array], Any] | None = None,
    representative: Callable[..., Any] | None = None,
    **parts: Any,
) -> _Maker:
    """Makes a corruption's public function, for functions of the level's parameters."""
    parts["prepare"] = prepare and hashable_partial(_without_rows, prepare=prepare)

    def make(size: int | None = None) -> Alteration:
        size = checked_size(name.replace("_", " "), size)
        same = None
        if representative is not None and size is not None:
            same = hashable_partial(representative, size=size)
        at_level = hashable_partial(_at_parameters, apply=apply)
        return by_severity(name, at_level, size=size, representative=same, **parts)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "\n\n".join(filter(None, (what, more, _SEE)))
    return make


def _without_rows(
    image: jax.Array, rows: np.ndarray, *, prepare: Callable[[jax.Array], Any]
) -> Any:
    return prepare(image)


def _at_parameters(
    image: jax.Array,
    prepared: Any,
    level: jax.Array,
    rows: np.ndarray,
    *,
    apply: Callable[..., jax.Array],
) -> jax.Array:
    return apply(image, prepared, *at(rows, level))


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
    losses = 100 - table("jpeg_compression").by_size[size][:, 0]
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
    "brightness",
    _brighten,
    "More light: adds to V of HSV, and leaves hue and saturation as they are.",
    "On a grey image the amount is added to every value.",
)
gaussian_noise = _scheduled(
    "gaussian_noise",
    add_noise,
    "Normal noise on every value, as from a sensor in low light.",
    draw=draw_noise,
)
shot_noise = _scheduled(
    "shot_noise",
    count_photons,
    "Counts of photons, as from a sensor in low light.",
    draw=draw_shots,
)
impulse_noise = _scheduled(
    "impulse_noise",
    set_impulses,
    "Salt and pepper on single values, as from bit errors.",
    draw=draw_impulses,
)
contrast = _scheduled(
    "contrast",
    about_means,
    "Values drawn towards the mean of their channel, as by flat light.",
    prepare=channel_means,
)
pixelate = _scheduled(
    "pixelate",
    _pixelate,
    "Larger pixels, as from a sensor of lower resolution.",
    "The number of pixels is an integer: the picture moves by steps.",
    prepare=planes,
)
jpeg_compression = _scheduled(
    "jpeg_compression",
    _compress,
    "A JPEG file of lower quality, bit for bit as Pillow writes and reads it.",
    "The quality is an integer: the picture moves by steps, and if `size` is given,\n"
    "levels of the same quality are evaluated once. No gradient passes. Images have 1\n"
    "or 3 channels.",
    prepare=_transform,
    representative=_same_quality,
)
speckle_noise = _scheduled(
    "speckle_noise",
    add_speckle,
    "Normal noise in proportion to the value.",
    _HELD_BACK,
    draw=draw_noise,
)
gaussian_blur = _scheduled(
    "gaussian_blur",
    _blur,
    "Convolution with a Gaussian, as from a lens out of focus.",
    _HELD_BACK,
    prepare=_ready_to_blur,
)
saturate = _scheduled(
    "saturate",
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
