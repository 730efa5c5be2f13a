"""Gaussian blur."""

import math

import jax
import jax.numpy as jnp

from jaxrob._runtime.bound import bind
from jaxrob.alterations._alteration import Alteration, check_image, checked_range
from jaxrob.alterations._resample import separable

# The kernel's half width in standard deviations: what lies beyond is 5e-7 of it.
_TRUNCATE = 5.0
# Larger radii would make kernels of gigabytes, to the same effect.
_LARGEST = 10_000.0
# Below this standard deviation (in pixels) float32's kernel is exactly one pixel.
_SMALLEST = 0.05


def gaussian_blur(lower: float = 0.0, upper: float = 2.0) -> Alteration:
    """Blurs, as a lens out of focus does: convolution with a Gaussian.

    Arcaini et al. (2020), table I (BA). The level is the radius, which is the
    Gaussian's standard deviation, in pixels. Beyond the edge, edge pixels repeat.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        blurred = blur(image, 1.5)

    Args:
      lower: smallest radius, 0: the range must hold the identity.
      upper: largest radius, at most 10,000.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if `lower` is not 0 or the range empty.
    """
    lower, upper = checked_range(
        "gaussian_blur", lower, upper, 0.0, at_least=0, at_most=_LARGEST
    )
    return Alteration(
        "gaussian blur",
        bind(_blur, largest=upper),
        lower,
        upper,
        identity=0.0,
        unit="px",
        prepare=_planes,
    )


def _planes(image: jax.Array) -> jax.Array:
    check_image("gaussian_blur", image)
    return jnp.moveaxis(image, -1, 0)


def _blur(planes: jax.Array, level: jax.Array, *, largest: float) -> jax.Array:
    _, height, width = planes.shape
    reach = max(1, math.ceil(_TRUNCATE * largest))
    return separable(
        planes, _blur_matrix(level, reach, height), _blur_matrix(level, reach, width)
    )


def _blur_matrix(sigma: jax.Array, reach: int, size: int) -> jax.Array:
    """`[size, size]`: row i holds the kernel around pixel i, its tails on the edges."""
    # The kernel for offsets -span ... span, zero beyond the reach.
    span = max(reach, size)
    offsets = jnp.arange(-span, span + 1)
    kernel = jnp.exp(-0.5 * jnp.square(offsets / jnp.maximum(sigma, _SMALLEST)))
    kernel = jnp.where(jnp.abs(offsets) <= reach, kernel, 0.0)
    kernel = kernel / kernel.sum()
    # tail[k] is the weight of all offsets <= k - span.
    tail = jnp.cumsum(kernel)
    pixel = jnp.arange(size)
    matrix = kernel[pixel[None, :] - pixel[:, None] + span]
    # The first column takes every offset that reaches it or goes beyond, and so does
    # the last, by symmetry.
    edge = tail[span - pixel]
    if size == 1:
        return jnp.ones((1, 1), kernel.dtype)
    return matrix.at[:, 0].set(edge).at[:, -1].set(edge[::-1])
