"""Elastic transform by severity."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._elastic_deformation import (
    Displacement,
    displaced,
    draw_uniform,
    smooth,
)
from jaxrob.alterations._warp import warped
from jaxrob.alterations.corruptions._by_severity import by_severity
from jaxrob.alterations.corruptions._parameters import ELASTIC_TRANSFORM, at


class ElasticDraws(NamedTuple):
    """The random draws, numbers in [-1, 1).

    Attributes:
      corners: the moves of the affine map's three points, `[3, 2]`, x before y.
      field: the noise that becomes the displacement.
    """

    corners: jax.Array
    field: Displacement


class _Fields(NamedTuple):
    """The parts that do not depend on the level.

    Attributes:
      corners: as in `ElasticDraws`.
      smooth: the field convolved with each of the Gaussians, `[S, H, W]` twice.
    """

    corners: jax.Array
    smooth: Displacement


def elastic_transform(size: int | None = None) -> Alteration:
    """A random affine map, and a smooth random displacement of every pixel after it.

    Between two severities the displacement is a mixture of theirs, and the moves of the
    affine map's three points are linear in the level.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(
        ELASTIC_TRANSFORM, _prepare, _apply, size=size, draw=_draw, moves_pixels=True
    )


def _draw(image: jax.Array, key: jax.Array, rows: np.ndarray) -> ElasticDraws:
    del rows
    corners, field = jax.random.split(key)
    return ElasticDraws(
        jax.random.uniform(corners, (3, 2), jnp.float32, -1.0),
        draw_uniform(image, field),
    )


def _prepare(image: jax.Array, draws: ElasticDraws, rows: np.ndarray) -> _Fields:
    del image
    found = [smooth(draws.field, sigma) for sigma in _strengths(rows)[0]]
    return _Fields(draws.corners, jax.tree.map(lambda *one: jnp.stack(one), *found))


def _apply(
    image: jax.Array, fields: _Fields, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    jitter = at(rows, level)[2]
    strengths = at(_strengths(rows)[1], level)

    def altered() -> jax.Array:
        field = jax.tree.map(
            lambda smooth: jnp.tensordot(strengths, smooth, 1), fields.smooth
        )
        stages = _affine(image.shape, jitter * fields.corners), displaced(field)
        places = jax.tree.map(lambda *both: jnp.stack(both), *stages)
        # A loop, because XLA would otherwise resample the image wherever it is read.
        moved = jax.lax.fori_loop(
            0, 2, lambda stage, image: warped(image, *(x[stage] for x in places)), image
        )
        return jnp.clip(moved, 0.0, 1.0)

    return jax.lax.cond(level == 0, lambda: image, altered)


def _strengths(rows: np.ndarray) -> tuple[list[float], np.ndarray]:
    """Returns the Gaussians' standard deviations, and the fields' factors `[6, S]`."""
    sigmas = sorted({sigma for strength, sigma, _ in rows.tolist() if strength})
    return sigmas, rows[:, :1] * (rows[:, 1:2] == sigmas)


def _affine(shape: tuple[int, ...], moves: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the rows and columns that an affine map shows, both `[H, W]`."""
    # Beyond the edge the image is mirrored, its edge pixels not repeated.
    height, width, _ = shape
    # The benchmark uses the height's middle as x. The points are (u + s, v + s), (u +
    # s, v - s) and (u - s, v - s).
    middle = np.array((height // 2, width // 2))
    side = max(min(height, width) // 3, 1)
    first, second, third = moves
    second = second + middle + np.array((side, -side))
    # Where the map sends unit steps along x and y.
    along = jnp.array((1, 0), jnp.float32) + (moves[1] - third) / (2 * side)
    down = jnp.array((0, 1), jnp.float32) + (first - moves[1]) / (2 * side)
    determinant = along[0] * down[1] - along[1] * down[0]
    # A map onto a line has no inverse; OpenCV then shows one pixel everywhere.
    singular = determinant == 0
    inverse = jnp.where(singular, 0.0, 1 / jnp.where(singular, 1.0, determinant))
    x = jnp.arange(width, dtype=jnp.float32) - second[0]
    y = (jnp.arange(height, dtype=jnp.float32) - second[1])[:, None]
    columns = middle[0] + side + inverse * (down[1] * x - down[0] * y)
    rows = middle[1] - side + inverse * (along[0] * y - along[1] * x)
    return _mirrored(rows, height), _mirrored(columns, width)


def _mirrored(positions: jax.Array, size: int) -> jax.Array:
    """Mirrors positions at the edges, into [0, size - 1]."""
    last = max(size - 1, 1)
    turn = jnp.mod(positions, 2 * last)
    return jnp.minimum(jnp.minimum(turn, 2 * last - turn), size - 1)
