"""Errors of functions that users pass in."""

from collections.abc import Mapping
from typing import Any

from jaxrob._arguments.naming import named
from jaxrob._arguments.readable import error_text


def failed_on_images(
    what: str, image_shape: tuple[int, ...], error: Exception
) -> ValueError:
    """Makes the error for a function that fails on images of a shape.

    Args:
      what: the function, as the sentence's subject.
      image_shape: the shape of one image.
      error: what the function raised.
    """
    shape, hint = ", ".join(map(str, image_shape)), ""
    if len(image_shape) == 2:
        hint = " (if the axis of the channels is missing, images[..., None] adds it)"
    return ValueError(
        f"{what} failed on images of the shape [B, {shape}]{hint}: {error_text(error)}"
    )


def check_one_array(what: str, returned: Any) -> None:
    """Raises an error for several arrays, which could be mistaken for samples.

    Args:
      what: the function, as the sentence's subject.
      returned: what it returned.

    Raises:
      TypeError: if it is a tuple, a list or a mapping.
    """
    if not isinstance(returned, tuple | list | Mapping):
        return
    which = "[0]"
    if isinstance(returned, Mapping) and returned:
        which = f"[{next(iter(returned))!r}]"
    raise TypeError(
        f"{what} must return one array [B, K]; got {named(returned)}. Return the class "
        f"outputs alone, for instance outputs{which}; samples, [S, B, K], as one array "
        "by jnp.stack(outputs)"
    )
