"""Gaussian blur."""

import functools
import math

import jax
import jax.numpy as jnp

from jaxrob._runtime.bound import bind
from jaxrob.alterations._alteration import Alteration, check_image, checked_range
from jaxrob.alterations._forms import by_platform
from jaxrob.alterations._resample import separable

# The kernel's half width in standard deviations: what lies beyond is 5e-7 of it.
_TRUNCATE = 5.0
# Larger radii would make kernels of gigabytes, to the same effect.
_LARGEST = 10_000.0
# Below this standard deviation (in pixels) float32's kernel is exactly one pixel.
_SMALLEST = 0.05
# Pixels in a block of `_by_blocks`.
_BLOCK = 32
_HIGHEST = jax.lax.Precision.HIGHEST  # no TF32 or bfloat16


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
    return jnp.stack([image[..., channel] for channel in range(image.shape[-1])])


def _blur(planes: jax.Array, level: jax.Array, *, largest: float) -> jax.Array:
    _, height, width = planes.shape
    reach = max(1, math.ceil(_TRUNCATE * largest))
    forms = {name: functools.partial(form, reach=reach) for name, form in BLUR.items()}
    return by_platform(
        "blur",
        max(height, width),
        forms,
        planes,
        _blur_matrix(level, reach, height),
        _blur_matrix(level, reach, width),
    )


def _by_planes(
    planes: jax.Array, rows: jax.Array, columns: jax.Array, *, reach: int
) -> jax.Array:
    """Two products with all planes."""
    del reach
    return separable(planes, rows, columns)


def _plane_by_plane(
    planes: jax.Array, rows: jax.Array, columns: jax.Array, *, reach: int
) -> jax.Array:
    """A product for the rows of each plane as it lies, then one for all columns."""
    del reach
    # With matrices that depend on the planes, `vmap` multiplies each plane alone: with
    # one matrix for all it would turn them round, which takes a CPU as long.
    own = rows + 0 * planes[:, :1, :1]
    blurred = jnp.matmul(own, planes, precision=_HIGHEST)
    blurred = jnp.matmul(blurred, columns.T, precision=_HIGHEST)
    return jnp.stack(list(blurred), axis=-1)


def _by_blocks(
    planes: jax.Array, rows: jax.Array, columns: jax.Array, *, reach: int
) -> jax.Array:
    """Blocks of rows, then of columns, each from the pixels in its reach alone.

    With channels innermost all along: on a GPU, moving them there in the end would cost
    more than both products.
    """
    _, height, width = planes.shape
    image = jnp.stack(list(planes), axis=-1)
    blurred = jnp.concatenate(
        [
            jnp.tensordot(rows[to, of], image[of], 1, precision=_HIGHEST)
            for to, of in _blocks(height, reach)
        ]
    )
    # A product for each row: as one for all, it would need the channels moved.
    return jnp.concatenate(
        [
            jax.lax.dot_general(
                jnp.broadcast_to(columns[to, of], (height, *columns[to, of].shape)),
                blurred[:, of],
                (((2,), (1,)), ((0,), (0,))),
                precision=_HIGHEST,
            )
            for to, of in _blocks(width, reach)
        ],
        axis=1,
    )


# The forms of the blur: functions of planes `[C, H, W]`, of the matrices of rows and
# columns, and of the kernel's reach in pixels.
BLUR = {
    "planes": _by_planes,
    "plane by plane": _plane_by_plane,
    "blocks": _by_blocks,
}


def _blocks(size: int, reach: int) -> list[tuple[slice, slice]]:
    """Blocks of an axis, and the pixels that each depends on, as many for each."""
    # One block, unless several halve the work.
    block = _BLOCK if 2 * (_BLOCK + 2 * reach) <= size else size
    window = min(size, block + 2 * reach)
    firsts = range(0, size, block)
    starts = [min(max(0, first - reach), size - window) for first in firsts]
    return [
        (slice(first, min(size, first + block)), slice(start, start + window))
        for first, start in zip(firsts, starts)
    ]


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
