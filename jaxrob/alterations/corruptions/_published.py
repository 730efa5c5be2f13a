"""Storage of corrupted images as in the benchmarks' files."""

import jax
import jax.numpy as jnp

from jaxrob._pixels import unit_range
from jaxrob.alterations._jpeg import jpeg_coefficients, jpeg_decode

_QUALITY = 85
# Whole bytes that float32 left slightly lower must not lose one.
_SLACK = 1e-4


def truncation_to_bytes(image: jax.Array) -> jax.Array:
    """Rounds pixels down to bytes, as the benchmark's `np.uint8` does."""
    levels = jnp.floor(jnp.clip(image, 0.0, 1.0) * 255 + _SLACK)
    return unit_range(levels)


def truncation_to_bytes_and_jpeg_85(image: jax.Array) -> jax.Array:
    """Rounds down to bytes and saves as a JPEG file of quality 85, as ImageNet-C does.

    The benchmark saves with `optimize=True`, which changes the file's size alone.
    """
    image = truncation_to_bytes(image)
    quality = jnp.asarray(_QUALITY, jnp.int32)
    return jpeg_decode(jpeg_coefficients(image), quality, image.shape)
