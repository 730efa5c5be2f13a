"""Defocus, motion and zoom blur by severity."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._lens import (
    Line,
    Motion,
    defocused,
    draw_motion,
    moved,
    ready_for_disk,
    ready_for_line,
)
from jaxrob.alterations._resample import corner_weights, gathered
from jaxrob.alterations.corruptions._parameters import (
    DEFOCUS_BLUR,
    MOTION_BLUR,
    ZOOM_BLUR,
    at,
)
from jaxrob.alterations.corruptions._severity import between, by_severity

# Half the side of the square on which a disk is softened; larger disks use their own.
_HALF_SIDE = 8
# Taps with a smaller weight at all severities are left out.
_SMALLEST = 1e-9


def defocus_blur(size: int | None = None) -> Alteration:
    """A soft-edged disk around every point, as from a lens out of focus.

    The kernels of the benchmark are disks of whole pixels, softened by a Gaussian.
    Between two severities the kernel is a mixture of theirs.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(DEFOCUS_BLUR, _prepare_disks, _apply_disks, size=size)


def _prepare_disks(image: jax.Array, rows: np.ndarray) -> jax.Array:
    return ready_for_disk(image, _taps(rows)[0])


def _apply_disks(
    image: jax.Array, padded: jax.Array, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    offsets, weights = _taps(rows)
    return defocused(image, padded, offsets, between(jnp.asarray(weights), level))


def _taps(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the taps of all severities: row and column `[T, 2]`, weights `[6, T]`."""
    kernels = [_kernel(radius, sigma) for radius, sigma in rows]
    half = max(len(kernel) for kernel in kernels) // 2
    stacked = np.stack([np.pad(one, half - len(one) // 2) for one in kernels])
    kept = np.argwhere((stacked > _SMALLEST).any(0))
    weights = stacked[:, kept[:, 0], kept[:, 1]]
    return kept - half, weights.astype(np.float32)


def _kernel(radius: float, sigma: float) -> np.ndarray:
    """Returns a disk, softened by a Gaussian of `sigma`, as an array of odd sides."""
    half = max(_HALF_SIDE, int(radius))
    y, x = np.mgrid[-half : half + 1, -half : half + 1]
    disk = (x**2 + y**2 <= radius**2).astype(np.float64)
    disk /= disk.sum()
    if sigma == 0:
        return disk
    reach = 1 if radius <= _HALF_SIDE else 2
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    taps /= taps.sum()
    # The benchmark mirrors at the square's edges, so the sum may differ from 1.
    for axis in (0, 1):
        disk = scipy.ndimage.convolve1d(disk, taps, axis, mode="mirror")
    return disk


# Directions lie within this many degrees of the rows.
_ANGLE = 45.0


def motion_blur(size: int | None = None) -> Alteration:
    """One half of a Gaussian along a line, as from a camera that moves.

    The direction is drawn uniformly within 45 degrees of the rows. The kernel's
    length and its standard deviation are linear in the level; the last tap may be
    fractional.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(
        MOTION_BLUR, _prepare_line, _apply_line, size=size, draw=_draw_direction
    )


def _draw_direction(image: jax.Array, key: jax.Array, rows: np.ndarray) -> Motion:
    del image, rows
    return draw_motion(key, -_ANGLE, _ANGLE)


def _prepare_line(image: jax.Array, motion: Motion, rows: np.ndarray) -> Line:
    return ready_for_line(image, motion, 2 * int(rows[:, 0].max()) + 1)


def _apply_line(
    image: jax.Array, line: Line, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    radius, sigma = at(rows, level)
    return moved(image, line, sigma, 2 * radius + 1)


def zoom_blur(size: int | None = None) -> Alteration:
    """The mean of an image and its zooms, as from a camera that approaches its subject.

    Zooms of all factors from 1 to a maximum are averaged. Between two severities the
    weights of the factors are linear in the level.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(ZOOM_BLUR, _prepare_zooms, _apply_zooms, size=size)


class _Group(NamedTuple):
    """Factors that the same severities share."""

    factors: tuple[float, ...]
    weights: tuple[float, ...]  # the weight of each factor in the mean at levels 0 to 5


def _prepare_zooms(image: jax.Array, rows: np.ndarray) -> jax.Array:
    """Returns the blurred images at levels 0 to 5, `[6, H, W, C]`."""
    # The zooms are most of the work, and many severities share one.
    groups = _groups(rows)
    sums = [_sum_of_zooms(image, group.factors) for group in groups]
    weights = np.array([group.weights for group in groups], np.float32)
    number = np.array([len(group.factors) for group in groups], np.float32)
    own = 1 - (number[:, None] * weights).sum(0)
    blurred = []
    for level, share in enumerate(own):
        mean = share * image
        for weight, one in zip(weights[:, level], sums):
            mean = mean + weight * one if weight else mean
        blurred.append(mean)
    return jnp.stack(blurred)


def _apply_zooms(
    image: jax.Array, blurred: jax.Array, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    del image, rows
    return jnp.clip(between(blurred, level), 0.0, 1.0)


def _sum_of_zooms(image: jax.Array, factors: tuple[float, ...]) -> jax.Array:
    height, width, _ = image.shape
    rows = zoom_table(height, np.array(factors))
    columns = zoom_table(width, np.array(factors))

    def add(place: jax.Array, found: jax.Array) -> jax.Array:
        return found + zoomed(image, rows, columns, place)

    return jax.lax.fori_loop(0, len(factors), add, jnp.zeros_like(image))


def _groups(rows: np.ndarray) -> list[_Group]:
    """Returns the factors above 1, grouped by the severities that use them."""
    found: dict[float, list[float]] = {}
    for level, (end, step) in enumerate(rows[1:], 1):
        factors = np.arange(1, end, step)
        for factor in factors[1:]:
            # Not rounded: at 1.25 the last digit decides on a pixel.
            weights = found.setdefault(float(factor), [0.0] * len(rows))
            weights[level] = 1 / (len(factors) + 1)
    groups: dict[tuple[float, ...], list[float]] = {}
    for factor, weights in found.items():
        groups.setdefault(tuple(weights), []).append(factor)
    return [_Group(tuple(factors), weights) for weights, factors in groups.items()]


class ZoomTable(NamedTuple):
    """The source positions of an axis' pixels under some zooms."""

    before: np.ndarray  # int32 `[K, N]`, the pixel at or before each position
    share: np.ndarray  # float32 `[K, N]`, the distance from it, in [0, 1]


def zoom_table(size: int, factors: np.ndarray) -> ZoomTable:
    """Returns the positions along an axis of `size` pixels for factors from 1 up."""
    positions = np.stack([_positions(size, factor) for factor in factors])
    before = np.clip(np.floor(positions), 0, max(size - 2, 0))
    return ZoomTable(before.astype(np.int32), (positions - before).astype(np.float32))


def zoomed(
    image: jax.Array, rows: ZoomTable, columns: ZoomTable, place: jax.typing.ArrayLike
) -> jax.Array:
    top, left = jnp.asarray(rows.before)[place], jnp.asarray(columns.before)[place]
    down, right = jnp.asarray(rows.share)[place], jnp.asarray(columns.share)[place]
    corner = top[:, None] * image.shape[1] + left
    return gathered(image, corner, corner_weights(down[:, None], right))


def _positions(size: int, factor: float) -> np.ndarray:
    """Returns float64 `[size]`: the crop's ends become the zoom's, which is trimmed."""
    crop = int(np.ceil(size / factor))
    zoomed = max(round(crop * factor), size)
    first = (zoomed - size) // 2
    step = (crop - 1) / max(zoomed - 1, 1)
    return (size - crop) // 2 + np.arange(first, first + size) * step
