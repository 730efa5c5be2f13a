"""Resampling an image at positions that depend on the level alone.

What depends on the level alone is computed once for each level under `vmap` over
images: the matrices of `separable`, the indices and weights of `bilinear`.
"""

import functools

import jax
import jax.numpy as jnp

from jaxrob._runtime.checks import check_choice

# What stands where the image has no pixel; the caller takes care of "crop".
FILLS = ("crop", "edge", "constant")

# Up to this many pixels along an axis two dense products are faster than gathers, by
# two hundredths of a small network's forward pass; at 50 they are slower by a fifth.
_LARGEST_PRODUCT = 32


def separable(planes: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """`rows @ plane @ columns.T` for each channel.

    Args:
      planes: `[C, H, W]`.
      rows: `[H', H]`.
      columns: `[W', W]`.

    Returns:
      `[H', W', C]`.
    """

    def product(planes: jax.Array, matrix: jax.Array, axis: int) -> jax.Array:
        # TPUs would multiply in bfloat16 and GPUs in TF32 at a lower precision.
        return jnp.tensordot(
            planes, matrix, ((axis,), (1,)), precision=jax.lax.Precision.HIGHEST
        )

    # In this order XLA has the least to transpose between the products.
    return product(product(planes, columns, 2), rows, 1).T


def grid(image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str) -> jax.Array:
    """The image at every pair of a row and a column position; see `bilinear`.

    Args:
      image: `[H, W, C]`.
      rows: `[H']` row positions.
      columns: `[W']` column positions.
      fill: as for `bilinear`.

    Returns:
      `[H', W', C]`.
    """
    if max(image.shape[:2]) > _LARGEST_PRODUCT:
        return bilinear(image, rows[:, None], columns, fill)

    def matrix(positions: jax.Array, size: int) -> jax.Array:
        if fill != "constant":
            positions = jnp.clip(positions, 0, size - 1)
        distance = jnp.abs(positions[:, None] - jnp.arange(size))
        return jnp.maximum(0.0, 1.0 - distance)

    height, width, _ = image.shape
    planes = jnp.moveaxis(image, -1, 0)
    return separable(planes, matrix(rows, height), matrix(columns, width))


def bilinear(
    image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str
) -> jax.Array:
    """The image at the given positions, interpolated linearly along both axes.

    Four gathers, whose indices and weights are the same for all images of a batch:
    under `vmap` over images they are computed once and vectorise over the pixels.

    Args:
      image: `[H, W, C]`.
      rows: row positions, in pixels from the first pixel's centre, of a shape that
        goes with that of `columns`.
      columns: column positions, likewise.
      fill: "constant" takes what lies outside the image as 0; anything else takes the
        nearest edge pixel.

    Returns:
      `[..., C]`, of the shape to which rows and columns broadcast.
    """
    if fill == "constant":
        # A black frame one pixel wide, which positions outside the image reach.
        image = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
        rows, columns = rows + 1, columns + 1
    height, width, channels = image.shape

    corner, weights = _table(rows, columns, height, width)
    beside, below = min(width - 1, 1), width * min(height - 1, 1)
    pixels = image.reshape(height * width, channels)
    # Sums of weight times gather, in this form, are what XLA makes one fast loop of.
    found = sum(
        weight.reshape(-1, 1)
        * jnp.take(pixels, (corner + offset).reshape(-1), axis=0, mode="clip")
        for weight, offset in zip(weights, (0, beside, below, below + beside))
    )
    return jnp.asarray(found).reshape(*corner.shape, channels)


def window_positions(
    start: jax.typing.ArrayLike, scale: jax.typing.ArrayLike, size: int
) -> jax.Array:
    """Where `size` pixels fall that show the window from `start`, `scale` a pixel.

    Args:
      start: the window's left end, in pixels from the axis' left end.
      scale: the window's length over `size`.
      size: number of pixels.

    Returns:
      `[size]` positions; the pixel centres 0, 1, ... for start 0 and scale 1, exactly.
    """
    return jnp.asarray(start + (jnp.arange(size) + 0.5) * scale - 0.5)


def check_fill(name: str, fill: str) -> None:
    """Refuses a fill that is none of `FILLS`."""
    check_choice(f"{name}: fill", fill, FILLS)


# Compiled also where it is called eagerly, or the loop would be compiled each time.
@functools.partial(jax.jit, static_argnames=("height", "width"))
def _table(
    rows: jax.Array, columns: jax.Array, height: int, width: int
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """The index of the pixel before each position, and four neighbours' weights."""

    def line(
        positions: tuple[jax.Array, jax.Array],
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        rows, columns = positions
        top, down = _neighbour(rows, height)
        left, right = _neighbour(columns, width)
        return top * width + left, (
            (1 - down) * (1 - right),
            (1 - down) * right,
            down * (1 - right),
            down * right,
        )

    # A loop, because XLA would fuse what it can into the gathers and compute it again
    # for each image: with a loop, an MLP's step at 28x28 takes half of the time.
    return jax.lax.map(line, tuple(jnp.broadcast_arrays(rows, columns)))


def _neighbour(positions: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """The pixel before each position, and the way beyond it."""
    positions = jnp.clip(positions, 0, size - 1)
    before = jnp.minimum(jnp.floor(positions), max(size - 2, 0))
    return before.astype(jnp.int32), positions - before
