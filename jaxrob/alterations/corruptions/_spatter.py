"""Spatter by severity.

Water is as OpenCV's edge detector, distance transform and equalisation find it:
`canny`, `distances` and `equalised` reproduce its functions on bytes, in integers.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob.alterations._alteration import Alteration, check_colours
from jaxrob.alterations._photometric import normal
from jaxrob.alterations.corruptions._severity import at, by_severity

_WATER = np.array([175, 238, 238], np.float32) / 255
_MUD = np.array([63, 42, 20], np.float32) / 255
# Thinner mud is ignored.
_THINNEST = 0.8


# Of water and of mud: the amount on each pixel, `[H, W]` for each severity, or None.
Layers = tuple[tuple[jax.Array | None, ...], ...]


def spatter(size: int | None = None) -> Alteration:
    """Drops on the lens: water at severities 1 to 3, mud at 4 and 5.

    Between severities the layers of both are mixed. It is one of the four corruptions
    held back for validation. No gradient passes through the drops. Images have three
    channels.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(
        "spatter", _apply, size=size, draw=_draw, prepare=_prepare, check=check_colours
    )


def _draw(image: jax.Array, key: jax.Array) -> jax.Array:
    return normal(key, image.shape[:2])


def _prepare(image: jax.Array, noise: jax.Array, rows: np.ndarray) -> Layers:
    return layers(noise, rows)


def layers(noise: jax.Array, rows: np.ndarray) -> Layers:
    """Returns the layers of all severities, from one standard normal map `[H, W]`."""
    water, mud = [], []
    for mean, spread, sigma, threshold, strength, is_mud in rows[1:].tolist():
        liquid = mean + spread * _blurred(noise, sigma)
        if is_mud:
            covered = (liquid > threshold).astype(jnp.float32)
            thick = _blurred(covered, strength)
            mud.append(jnp.where(thick < _THINNEST, 0.0, thick))
            water.append(None)
        else:
            liquid = jnp.where(liquid < threshold, 0.0, liquid)
            water.append(strength * water_on(liquid))
            mud.append(None)
    return tuple(water), tuple(mud)


def _apply(
    image: jax.Array, prepared: Layers, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    # Parameters cannot be interpolated between water and mud. Linear in the level is
    # the share of each severity's own layer.
    shares = at(np.eye(len(rows))[:, 1:], level)
    water, mud = (_mixed(layer, shares) for layer in prepared)
    return jnp.clip(image * (1 - mud) + mud * _MUD + water * _WATER, 0.0, 1.0)


def _mixed(layer: tuple[jax.Array | None, ...], shares: jax.Array) -> jax.Array:
    return jnp.stack(
        [share * one for share, one in zip(shares, layer) if one is not None], -1
    ).sum(-1, keepdims=True)


def _blurred(plane: jax.Array, sigma: float) -> jax.Array:
    """Convolves with a Gaussian of a fixed standard deviation, edges repeated."""
    rows, columns = (
        scipy.ndimage.gaussian_filter1d(np.eye(size), sigma, axis=0, mode="nearest")
        for size in plane.shape
    )
    highest = jax.lax.Precision.HIGHEST
    right = jnp.matmul(plane, columns.T.astype(np.float32), precision=highest)
    return jnp.matmul(rows.astype(np.float32), right, precision=highest)


# Canny's thresholds of the gradient.
_LOW, _HIGH = 50, 150
# The tangent of 22.5 degrees times 2^15.
_TANGENT = 13573
# The longest distance from an edge that counts, in px.
_FARTHEST = 20
# `distanceTransform` adds up steps to neighbours: along an axis, diagonal, and the
# knight's move of chess. These are their lengths in units of 1e-4 px.
_PX = 10_000
_STEPS = {(0, 1): _PX, (1, 1): 14_000, (1, 2): 21_969}
_RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def water_on(liquid: jax.Array) -> jax.Array:
    """Returns the visible amount of water where liquid lies: `[H, W]`, at most 1."""
    level = (liquid * 255).astype(jnp.int32) % 256
    distance = distances(canny(level))
    depth = _sums(distance, np.ones((3, 3), int)) // (9 * _PX)
    relief = jnp.clip(_sums(equalised(depth, _FARTHEST), _RELIEF), 0, 255)
    relief = (_sums(relief, np.ones((3, 3), int)) + 4) // 9
    found = (level * relief).astype(jnp.float32)
    highest = found.max()
    return found / jnp.where(highest > 0, highest, 1.0)


def canny(level: jax.Array) -> jax.Array:
    """Finds the edges of bytes `[H, W]`."""
    wide = jnp.pad(level, 1, "edge")
    smooth = np.array([1, 2, 1])
    slope = np.array([-1, 0, 1])
    dx = _correlated(wide, np.outer(smooth, slope))
    dy = _correlated(wide, np.outer(slope, smooth))
    size = jnp.abs(dx) + jnp.abs(dy)

    def beside(row: int, column: int) -> jax.Array:
        return _shifted(size, row, column, 0)

    # Local maxima across the edge, in one of four directions.
    x, y = jnp.abs(dx), jnp.abs(dy) << 15
    flat = x * _TANGENT
    steep = flat + (x << 16)
    across = (size > beside(0, -1)) & (size >= beside(0, 1))
    along = (size > beside(-1, 0)) & (size >= beside(1, 0))
    falling = (size > beside(-1, -1)) & (size > beside(1, 1))
    rising = (size > beside(-1, 1)) & (size > beside(1, -1))
    diagonal = jnp.where((dx ^ dy) < 0, rising, falling)
    thin = jnp.where(y < flat, across, jnp.where(y > steep, along, diagonal))
    thin = thin & (size > _LOW)
    return _connected(thin & (size > _HIGH), thin)


def _connected(strong: jax.Array, thin: jax.Array) -> jax.Array:
    """Keeps the parts of the thin lines that are connected to strong pixels."""

    def grown(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found, _ = state
        more = found
        # Several steps between the checks for changes.
        for _ in range(4):
            more = jax.lax.reduce_window(
                more, False, jax.lax.bitwise_or, (3, 3), (1, 1), "SAME"
            )
            more = more & thin
        return more, (more != found).any()

    return jax.lax.while_loop(lambda state: state[1], grown, (strong, jnp.array(True)))[
        0
    ]


def distances(edges: jax.Array) -> jax.Array:
    """Returns the distance from the nearest edge, at most 20 px, in 1e-4 px: int32."""
    farthest = _FARTHEST * _PX
    steps = [
        (sign_row * row, sign_column * column, length)
        for (short, far), length in _STEPS.items()
        for row, column in {(short, far), (far, short)}
        for sign_row in ({1, -1} if row else {1})
        for sign_column in ({1, -1} if column else {1})
    ]

    def nearer(_: jax.Array, found: jax.Array) -> jax.Array:
        through = (
            _shifted(found, row, column, farthest) + length
            for row, column, length in steps
        )
        return jnp.minimum(found, jnp.stack(list(through)).min(0))

    start = jnp.where(edges, 0, farthest)
    # A path of more steps is longer than `_FARTHEST`.
    return jax.lax.fori_loop(0, _FARTHEST, nearer, start)


def equalised(level: jax.Array, highest: int) -> jax.Array:
    """Equalises the histogram of integers `[H, W]` up to `highest`, to 0 to 255."""
    count = (level == jnp.arange(highest + 1)[:, None, None]).sum((1, 2))
    lowest = jnp.argmax(count > 0)
    others = level.size - count[lowest]
    above = jnp.cumsum(count) - count[lowest]
    scale = jnp.float32(255) / jnp.maximum(others, 1).astype(jnp.float32)
    table = jnp.round(jnp.clip(above * scale, 0, 255)).astype(jnp.int32)
    return jnp.where(others == 0, level, table[level])


def _sums(plane: jax.Array, weights: np.ndarray) -> jax.Array:
    """Correlates with a kernel; beyond the edge the image is mirrored."""
    return _correlated(jnp.pad(plane, 1, "reflect"), weights)


def _correlated(wide: jax.Array, weights: np.ndarray) -> jax.Array:
    height, width = wide.shape[0] - 2, wide.shape[1] - 2
    terms = [
        int(weight) * wide[row : row + height, column : column + width]
        for (row, column), weight in np.ndenumerate(weights)
        if weight
    ]
    return jnp.stack(terms).sum(0)


def _shifted(plane: jax.Array, row: int, column: int, fill: int) -> jax.Array:
    """Returns the neighbour at an offset of up to 2, `fill` beyond the edge."""
    height, width = plane.shape
    wide = jnp.pad(plane, 2, constant_values=fill)
    return wide[2 + row : 2 + row + height, 2 + column : 2 + column + width]
