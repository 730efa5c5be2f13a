"""Defocus blur by severity."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._defocus_blur import defocused, ready
from jaxrob.alterations.corruptions._by_severity import between, by_severity
from jaxrob.alterations.corruptions._parameters import DEFOCUS_BLUR

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
    return by_severity(DEFOCUS_BLUR, _prepare, _apply, size=size)


def _prepare(image: jax.Array, rows: np.ndarray) -> jax.Array:
    return ready(image, _taps(rows)[0])


def _apply(
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
