"""Images and labels as arrays that devices take."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxrob._arguments.checks import checked_integer
from jaxrob._arguments.naming import named, wrong_type


def checked_images(images: Any) -> np.ndarray | jax.Array:
    """Returns images in a type that devices support and in native byte order."""
    # It does not copy arrays that are so already, and does not look at the values.
    given = images
    if not isinstance(images, np.memmap | jax.Array):
        wanted = "an array [N, ...] of uint8 or floating numbers"
        images = plain_array("images", images, wanted)
    if isinstance(images, Tracer):
        raise wrong_type("images", "an array with values", given)
    dtype = images.dtype
    if dtype != np.uint8 and not jnp.issubdtype(dtype, jnp.floating):
        hint = ""
        if jnp.issubdtype(dtype, jnp.integer):
            hint = "; divide 0-255 by 255 in floating point, or pass uint8"
        elif jnp.issubdtype(dtype, jnp.bool_):
            hint = "; pass images.astype('float32')"
        raise TypeError(
            f"images must be uint8 or floating; got {dtype} ({named(given)}){hint}"
        )
    if images.ndim < 2:
        raise ValueError(
            "images must have a leading axis of inputs and at least one more; got "
            f"the shape {images.shape} ({named(given)})"
        )
    if images.size == 0:
        raise ValueError(
            f"images is empty (shape {images.shape}); at least one is needed"
        )
    # JAX knows no floating type of more than 8 bytes. It takes the bytes of the other
    # order as they are.
    native = np.dtype(np.float32) if dtype.itemsize > 8 else dtype.newbyteorder("=")
    if native == dtype:
        return images
    if isinstance(images, np.memmap):
        raise TypeError(
            f"images must be of this machine's byte order and at most 8 bytes a number "
            f"where they are a memory map, which is not converted; got {dtype!r}"
        )
    return images.astype(native)


def looks_channels_first(image_shape: tuple[int, ...]) -> bool:
    """Whether an image looks like `[C, H, W]`, which would be taken as `[H, W, C]`."""
    if len(image_shape) != 3 or image_shape[0] not in (1, 3, 4):
        return False
    return min(image_shape[1:]) > 4


def plain_array(name: str, values: Any, wanted: str) -> np.ndarray:
    """Converts values to an array of NumPy's own class."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be masked, because the mask would be lost; got a "
            f"{type(values).__name__} (fill it, or leave the elements out)"
        )
    try:
        return np.asarray(values)
    # Lists of unequal lengths; random keys; values that are not known yet.
    except (TypeError, ValueError) as error:
        raise wrong_type(name, wanted, values) from error


def checked_size(size: Any, name: str = "size") -> tuple[int, int] | None:
    """Returns height and width in pixels, or None. One number stands for both."""
    if size is None:
        return None
    is_array = isinstance(size, np.ndarray) and size.ndim > 0
    if is_array or (isinstance(size, Sequence) and not isinstance(size, str)):
        if len(size) != 2:
            raise ValueError(
                f"{name} must be (height, width) in pixels, or one number for both; "
                f"got {named(size)}"
            )
        height, width = size
    else:
        height = width = size
    return (
        checked_integer(name, height, at_least=1),
        checked_integer(name, width, at_least=1),
    )
