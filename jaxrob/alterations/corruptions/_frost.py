"""Frost by severity."""

import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob._pixels import unit_range
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations.corruptions._corruption import corruption
from jaxrob.alterations.corruptions._frost_pictures import (
    FrostPictures,
    frost_pictures,
    scaled,
)
from jaxrob.alterations.corruptions._parameters import (
    FROST,
    FROST_SCALES,
    checked_size,
    size_for,
)


class FrostDraws(NamedTuple):
    """The picture, from 0 to 4, and its pixel at the image's upper left corner."""

    picture: jax.Array
    row: jax.Array
    column: jax.Array


def frost(
    size: int | None = None, folder: str | os.PathLike[str] | None = None
) -> Alteration:
    """A picture of frost on glass over the image.

    The corruption needs the benchmark's own pictures. They are not part of this
    package, and their licence is not stated. They are read at the call, and must equal
    the benchmark's byte for byte.

    Args:
      size: the image size whose parameters it takes; see
        `jaxrob.alterations.corruptions`.
      folder: the folder of frost1.png, frost2.png, frost3.png, frost4.jpg and
        frost5.jpg. None takes them from the files of the package imagecorruptions, if
        it is installed; none of its code is imported.

    Returns:
      The alteration, of images with three channels; levels in [0, 5], identity 0.

    Raises:
      FileNotFoundError: if a picture is missing.
      ImportError: if Pillow is not installed.
      ValueError: if there are no parameters for `size`, or a file is not the
        benchmark's; when applied, if the image has no three channels or is larger than
        the pictures.
    """
    size = checked_size("frost", size)
    draw = hashable_partial(_draw, size=size, pictures=frost_pictures(folder))
    return corruption(FROST, _apply, size=size, draw=draw, in_colour=True)


def _draw(
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
    return crop(found, FrostDraws(picture, row, column), image.shape)


def crop(
    pictures: tuple[np.ndarray, ...], draws: FrostDraws, shape: tuple[int, ...]
) -> jax.Array:
    """Crops one of the pictures to the image's shape, in [0, 1]."""
    height, width = np.max([one.shape[:2] for one in pictures], 0)
    stacked = np.zeros((len(pictures), height, width, 3), np.uint8)
    for target, one in zip(stacked, pictures):
        target[: one.shape[0], : one.shape[1]] = one
    start = (draws.picture, draws.row, draws.column, 0)
    found = jax.lax.dynamic_slice(jnp.asarray(stacked), start, (1, *shape))
    return unit_range(found[0])


def _apply(
    image: jax.Array, frost: jax.Array, of_image: jax.Array, of_frost: jax.Array
) -> jax.Array:
    return jnp.clip(of_image * image + of_frost * frost, 0.0, 1.0)
