"""Planes of luma and subsampled chroma, and matrices that resample chroma.

Everything is a small integer in float32, so that products of matrices are exact.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._jpeg_constants import FROM_RGB, FROM_RGB_BIAS


def levels_of(image: jax.Array) -> jax.Array:
    """Rounds pixels to the nearest of 256 levels, float32."""
    return jnp.clip(jnp.round(jnp.asarray(image, jnp.float32) * 255), 0, 255)


def planes_of(image: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Returns the planes that libjpeg transforms, edges repeated to whole blocks."""
    height, width, channels = jnp.shape(image)
    levels = levels_of(image)
    if channels == 1:
        luma, chroma = levels[None, :, :, 0], None
    else:
        colours = jnp.moveaxis(levels, 2, 0).astype(jnp.int32)
        planes = (FROM_RGB[:, :, None, None] * colours).sum(1, dtype=jnp.int32)
        planes = (planes + FROM_RGB_BIAS[:, None, None]) >> 16
        planes = planes.astype(jnp.float32)
        luma, chroma = planes[:1], _downsample(planes[1:])
    padding = ((0, 0), (0, -height % 8), (0, -width % 8))
    return jnp.pad(luma, padding, "edge"), chroma


def upsampling(size: int, length: int, smooth: bool) -> np.ndarray:
    """Returns the matrix `[size, length]` of 4 times chroma's interpolation on an axis.

    Each pixel is 3 parts its own sample and 1 part the next nearest along the axis.
    """
    index = np.arange(length)
    own = index // 2
    # Beyond the image's own samples the last one repeats.
    nearer = np.clip(own + 2 * (index % 2) - 1, 0, (length - 1) // 2)
    matrix = np.zeros((size, length), np.float32)
    np.add.at(matrix, (own, index), 3)
    np.add.at(matrix, (nearer if smooth else own, index), 1)
    return matrix


def is_smooth(width: int) -> bool:
    """Whether libjpeg interpolates; it repeats chroma too narrow for its filter."""
    return width > 4


def product(
    a: jax.Array, b: np.ndarray, axes: int | tuple[tuple[int, ...], tuple[int, ...]]
) -> jax.Array:
    """Contracts the axes, in full float32."""
    # A lower precision (TF32, bf16) would round the integers.
    return jnp.tensordot(a, b, axes, precision=jax.lax.Precision.HIGHEST)


def _downsample(chroma: jax.Array) -> jax.Array:
    """Averages chroma [2, H, W] over 2x2 pixels, edges repeated to whole blocks."""
    _, height, width = chroma.shape
    chroma = jnp.pad(chroma, ((0, 0), (0, height % 2), (0, 0)), "edge")
    rows = (height + 1) // 2
    pairs = chroma.reshape(2, rows, 2, width).sum(2)
    columns = -(-width // 16) * 8
    # Columns are repeated before averaging and rows after it, as libjpeg does.
    sample = np.minimum(np.arange(2 * columns), width - 1)
    right = np.zeros((width, columns), np.float32)
    np.add.at(right, (sample, np.arange(2 * columns) // 2), 1)
    sums = product(pairs, right, axes=((2,), (0,)))
    bias = 1 + np.arange(columns, dtype=np.float32) % 2
    means = jnp.floor((sums + bias) * 0.25)
    return jnp.pad(means, ((0, 0), (0, -rows % 8), (0, 0)), "edge")
