"""JPEG compression by severity."""

import jax
import numpy as np

from jaxrob._runtime.bound import bind
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._jpeg_compression import jpeg_compression as to_quality
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import JPEG_COMPRESSION, checked_size

_COMPRESSION = to_quality()


def jpeg_compression(size: int | None = None) -> Alteration:
    """A JPEG file of lower quality, bit for bit as Pillow writes and reads it.

    The quality is an integer: the picture moves by steps. No gradient passes.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`. If it is given,
        levels of the same quality are evaluated once.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`; when applied, if the image has
        neither 1 nor 3 channels.
    """
    size = checked_size("jpeg compression", size)
    return corruption(
        JPEG_COMPRESSION,
        _apply,
        size=size,
        prepare=_COMPRESSION.prepared,
        representative=None if size is None else bind(_representative, size=size),
    )


def _apply(image: jax.Array, prepared: tuple, parameters: jax.Array) -> jax.Array:
    # Quality 100 stands for no compression: that is level 0 alone.
    return _COMPRESSION.at_level(prepared, 100 - parameters[0])


def _representative(levels: np.ndarray, *, size: int) -> np.ndarray:
    losses = 100 - JPEG_COMPRESSION.rows(size)[:, 0]
    severities = np.arange(len(losses))
    same = _COMPRESSION.canonical(np.interp(levels, severities, losses))
    return np.interp(same, losses, severities)
