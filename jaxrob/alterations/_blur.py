"""Gaussian blur and pixelation: a product with a matrix along either axis."""

import functools
import math

import jax
import jax.numpy as jnp

from jaxrob._identity.identity import hashable_partial
from jaxrob.alterations._alteration import (
    About,
    Alteration,
    check_image,
    checked_range,
    from_0_to_part,
)
from jaxrob.alterations._forms import by_platform
from jaxrob.alterations._resample import separable

# The kernel's half width in standard deviations: 5e-7 of its weight lies beyond.
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

    Arcaini et al. (2020), table I (BA). The level is the radius, from 0 to at most
    10,000, which is the Gaussian's standard deviation, in pixels. Beyond the edge, edge
    pixels repeat. Of the range and errors see `jaxrob.alterations`.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        blurred = blur(image, 1.5)
    """
    lower, upper = checked_range(
        "gaussian_blur", lower, upper, 0.0, at_least=0, at_most=_LARGEST
    )
    return Alteration(
        "gaussian blur",
        hashable_partial(_blur, largest=upper),
        lower,
        upper,
        identity=0.0,
        unit="px",
        prepare=_planes,
        about=About(
            "the Gaussian's standard deviation, in pixels of the image",
            default_range=functools.partial(from_0_to_part, number=25),
            range_from="4 % of the shorter side: 2 px of 50, as in the paper of 2020",
            doubt=_doubt,
            size_matters=True,
        ),
    )


def _doubt(lower: float, upper: float, image_shape: tuple[int, ...]) -> str | None:
    height, width = image_shape[:2]
    if upper < max(height, width):
        return None
    return (
        f"a radius of {upper:g} px blurs all of an image of {height} x {width} px into "
        "one. It is the Gaussian's standard deviation; a few pixels are usual."
    )


def _planes(image: jax.Array) -> jax.Array:
    check_image("gaussian_blur", image)
    return jnp.stack([image[..., channel] for channel in range(image.shape[-1])])


def _blur(planes: jax.Array, level: jax.Array, *, largest: float) -> jax.Array:
    _, height, width = planes.shape
    reach = max(1, math.ceil(_TRUNCATE * largest))
    return by_platform("blur", max(height, width), BLUR, planes, level, reach=reach)


def _by_planes(planes: jax.Array, level: jax.Array, *, reach: int) -> jax.Array:
    return separable(planes, *_matrices(planes, level, reach))


def _plane_by_plane(planes: jax.Array, level: jax.Array, *, reach: int) -> jax.Array:
    """Blurs each plane's rows by a product of its own, then all columns by one."""
    rows, columns = _matrices(planes, level, reach)
    # With one matrix for all planes `vmap` would transpose them, which takes a CPU as
    # long as the product; with matrices that depend on them it multiplies each alone.
    own = rows + 0 * planes[:, :1, :1]
    blurred = jnp.matmul(own, planes, precision=_HIGHEST)
    blurred = jnp.matmul(blurred, columns.T, precision=_HIGHEST)
    return jnp.stack(list(blurred), axis=-1)


def _by_shifts(planes: jax.Array, level: jax.Array, *, reach: int) -> jax.Array:
    """Adds up shifts along the rows, then along the columns."""
    # Channels stay innermost throughout, so that nothing is transposed, and all of an
    # image's columns shift together.
    channels, height, width = planes.shape
    # Products with matrices are faster than so many shifts.
    if 2 * (2 * reach + 1) > width:
        return _plane_by_plane(planes, level, reach=reach)
    image = jnp.stack(list(planes), axis=-1)
    # [row, column and channel].
    padded = jnp.pad(image, ((0, 0), (reach, reach), (0, 0)), mode="edge")
    blurred = _shifted(padded.reshape(height, -1), level, reach, 1, channels)
    padded = jnp.pad(blurred, ((reach, reach), (0, 0)), mode="edge")
    return _shifted(padded, level, reach, 0, 1).reshape(height, width, channels)


def _shifted(
    padded: jax.Array, level: jax.Array, reach: int, axis: int, step: int
) -> jax.Array:
    length = padded.shape[axis] - 2 * reach * step

    def added(reach_now: int) -> jax.Array:
        starts = range((reach - reach_now) * step, (reach + reach_now + 1) * step, step)
        parts = [
            weight * jax.lax.slice_in_dim(padded, start, start + length, axis=axis)
            for weight, start in zip(_kernel(level, reach_now, reach_now), starts)
        ]
        return functools.reduce(jnp.add, parts)

    # A CPU runs one branch only. Half of the taps suffice for half of the levels.
    half = reach // 2
    return jax.lax.cond(
        level * _TRUNCATE <= half, lambda: added(half), lambda: added(reach)
    )


def _by_blocks(planes: jax.Array, level: jax.Array, *, reach: int) -> jax.Array:
    """Blurs blocks of rows, then of columns, each from the pixels in its reach."""
    # Channels stay innermost: on a GPU, a transposition at the end would cost more than
    # both products.
    _, height, width = planes.shape
    rows, columns = _matrices(planes, level, reach)
    image = jnp.stack(list(planes), axis=-1)
    blurred = jnp.concatenate(
        [
            jnp.tensordot(rows[to, of], image[of], 1, precision=_HIGHEST)
            for to, of in _blocks(height, reach)
        ]
    )
    # One product for each row: a single product would need the channels transposed.
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


# The forms of the blur: functions of planes `[C, H, W]`, the level, and the kernel's
# reach in pixels.
BLUR = {
    "planes": _by_planes,
    "plane by plane": _plane_by_plane,
    "shifts": _by_shifts,
    "blocks": _by_blocks,
}


def _blocks(size: int, reach: int) -> list[tuple[slice, slice]]:
    """Returns blocks of an axis and the equally many pixels that each depends on."""
    # One block, unless several halve the work.
    block = _BLOCK if 2 * (_BLOCK + 2 * reach) <= size else size
    window = min(size, block + 2 * reach)
    firsts = range(0, size, block)
    starts = [min(max(0, first - reach), size - window) for first in firsts]
    return [
        (slice(first, min(size, first + block)), slice(start, start + window))
        for first, start in zip(firsts, starts)
    ]


def _matrices(
    planes: jax.Array, level: jax.Array, reach: int
) -> tuple[jax.Array, jax.Array]:
    _, height, width = planes.shape
    return _blur_matrix(level, reach, height), _blur_matrix(level, reach, width)


def _blur_matrix(sigma: jax.Array, reach: int, size: int) -> jax.Array:
    """Returns the matrix `[size, size]` whose row i is the kernel around pixel i."""
    span = max(reach, size)
    kernel = _kernel(sigma, reach, span)
    # tail[k] is the weight of all offsets <= k - span.
    tail = jnp.cumsum(kernel)
    pixel = jnp.arange(size, dtype=jnp.int32)
    matrix = kernel[pixel[None, :] - pixel[:, None] + span]
    # The first column takes every offset that reaches or passes the edge; the last does
    # so by symmetry.
    edge = tail[span - pixel]
    if size == 1:
        return jnp.ones((1, 1), kernel.dtype)
    return matrix.at[:, 0].set(edge).at[:, -1].set(edge[::-1])


def _kernel(sigma: jax.Array, reach: int, span: int) -> jax.Array:
    """Returns the kernel for offsets -span ... span, zero beyond the reach."""
    offsets = jnp.arange(-span, span + 1, dtype=jnp.float32)
    kernel = jnp.exp(-0.5 * jnp.square(offsets / jnp.maximum(sigma, _SMALLEST)))
    kernel = jnp.where(jnp.abs(offsets) <= reach, kernel, 0.0)
    return kernel / kernel.sum()


def pixelation(lower: float = 1.0, upper: float = 4.0) -> Alteration:
    """Shows the image by larger pixels, as a sensor of lower resolution does.

    The level is the side of a new pixel in pixels of the image, along either axis; 1,
    the lowest, is the identity. As many new pixels as fit in are used, so the visible
    level moves in steps. A new pixel is the mean of the pixels whose centres it covers
    (Pillow's `BOX`). Of the range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("pixelation", lower, upper, 1.0, at_least=1)
    return Alteration(
        "pixelation",
        _at_length,
        lower,
        upper,
        identity=1.0,
        unit="px",
        prepare=planes,
        about=About(
            "the side of the new pixels, in pixels of the image",
            range_from="ImageNet-C's severity 5",
            size_matters=True,
        ),
    )


def planes(image: jax.Array) -> jax.Array:
    check_image("pixelation", image)
    return jnp.moveaxis(image, -1, 0)


def pixelated(planes: jax.Array, share: jax.typing.ArrayLike) -> jax.Array:
    """Returns the image `[H, W, C]` with a share of the pixels along either axis."""
    _, height, width = planes.shape
    return separable(planes, _means(share, height), _means(share, width))


def _at_length(planes: jax.Array, level: jax.Array) -> jax.Array:
    return pixelated(planes, 1 / level)


def _means(share: jax.typing.ArrayLike, size: int) -> jax.Array:
    """Returns `[size, size]`: row i averages the new pixel in which pixel i lies."""
    # Rounding must not turn 0.9 of 100 into 89.
    number = jnp.floor(share * size + 1e-3).astype(jnp.int32)
    number = jnp.clip(number, 1, size)
    pixel = jnp.arange(size, dtype=jnp.int32)
    new = (2 * pixel + 1) * number // (2 * size)
    # The new pixel's ends, rounded to pixels, halves upwards. Pillow does the same up
    # to the rounding of doubles, as for 74 pixels of 299.
    start, stop = ((2 * (new + i) * size + number) // (2 * number) for i in (0, 1))
    inside = (start[:, None] <= pixel) & (pixel < stop[:, None])
    return inside / (stop - start).astype(jnp.float32)[:, None]
