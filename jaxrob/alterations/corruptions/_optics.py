"""Blurs, glass and an elastic transform by severity."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._identity.identity import hashable_partial
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._geometric import Displacement, displaced, draw_uniform, smooth
from jaxrob.alterations._lens import (
    Line,
    defocused,
    draw_angle,
    in_a_loop,
    moved,
    ready_for_disk,
    ready_for_line,
    shifts,
)
from jaxrob.alterations._resample import corner_weights, gathered, warped
from jaxrob.alterations.corruptions._severity import (
    at,
    between,
    by_severity,
    checked_size,
    table,
)

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
    return by_severity("defocus_blur", _apply_disks, size=size, prepare=_prepare_disks)


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
    fractional. Masks and boxes stay, at one end of the motion.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(
        "motion_blur",
        _apply_line,
        size=size,
        draw=_draw_direction,
        prepare=_prepare_line,
    )


def _draw_direction(image: jax.Array, key: jax.Array) -> jax.Array:
    return draw_angle(key, -_ANGLE, _ANGLE)


def _prepare_line(image: jax.Array, angle: jax.Array, rows: np.ndarray) -> Line:
    return ready_for_line(image, angle, 2 * int(rows[:, 0].max()) + 1)


def _apply_line(
    image: jax.Array, line: Line, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    radius, sigma = at(rows, level)
    return moved(image, line, sigma, 2 * radius + 1)


def zoom_blur(size: int | None = None) -> Alteration:
    """The mean of an image and its zooms, as from a camera that approaches its subject.

    Zooms of all factors from 1 to a maximum are averaged. Between two severities the
    weights of the factors are linear in the level. Masks and boxes stay.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity("zoom_blur", _apply_zooms, size=size, prepare=_prepare_zooms)


def _prepare_zooms(image: jax.Array, rows: np.ndarray) -> jax.Array:
    """Returns the blurred images at levels 0 to 5, `[6, H, W, C]`."""
    # The zooms are most of the work, and many severities share one.
    groups = _factors_by_weights(rows)
    sums = [_sum_of_zooms(image, factors) for factors in groups.values()]
    weights = np.array([*groups], np.float32)
    number = np.array([*map(len, groups.values())], np.float32)
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
    return jnp.clip(between(blurred, level), 0.0, 1.0)


def _sum_of_zooms(image: jax.Array, factors: list[float]) -> jax.Array:
    height, width, _ = image.shape
    rows = zoom_table(height, np.array(factors))
    columns = zoom_table(width, np.array(factors))

    def add(place: jax.Array, found: jax.Array) -> jax.Array:
        return found + zoomed(image, rows, columns, place)

    return jax.lax.fori_loop(0, len(factors), add, jnp.zeros_like(image))


def _factors_by_weights(rows: np.ndarray) -> dict[tuple[float, ...], list[float]]:
    """Groups the factors above 1 by their weights in the means at levels 0 to 5."""
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
    return groups


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


# The Gaussian's half width in standard deviations, rounded to pixels.
_TRUNCATE = 4.0
# Below this standard deviation (in pixels) the kernel is one pixel.
_NARROWEST = 0.05
# float32's rounding may miss a byte by this much, in units of a byte.
_SLACK = 5e-5


def glass_blur(size: int | None = None) -> Alteration:
    """Pixels taken from their neighbourhood at random, as seen through frosted glass.

    The image is blurred and truncated to bytes, its pixels are moved, and it is blurred
    again. The blurs are continuous in the level. The distance and the number of rounds
    of the moves are those of the nearest severity, with the same random numbers at all
    levels. Masks and boxes stay.

    The benchmark's code intends to swap pixels but copies them: the second pixel
    keeps its value. This does the same, for grey images too. Gradients pass the
    truncation unchanged.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    draw = hashable_partial(_draw_glass, size=checked_size("glass blur", size))
    return by_severity(
        "glass_blur", _apply_glass, size=size, draw=draw, prepare=_prepare_glass
    )


def _draw_glass(image: jax.Array, key: jax.Array, *, size: int | None) -> jax.Array:
    """Draws numbers in [0, 1) for each round and pixel, `[rounds, H, W]`."""
    rounds = int(table("glass_blur").rows_for(image, size)[:, 2].max())
    return jax.random.uniform(key, (rounds, *image.shape[:2]), jnp.float32)


def _prepare_glass(image: jax.Array, uniform: jax.Array, rows: np.ndarray) -> jax.Array:
    """Returns each pixel's source for each kind of `_kinds`: int32 `[V, H * W]`."""
    kinds, _ = _kinds(rows)
    rounds = [(far, turn) for far, turns in kinds for turn in range(turns)]
    order = sorted(set(rounds))
    chains = max(far for far, _ in order) > 1
    own = jnp.arange(uniform[0].size, dtype=jnp.int32)

    # Loops, because XLA would otherwise redraw the numbers wherever they are read.
    def one_round(distance_and_turn: jax.Array) -> jax.Array:
        farthest, turn = distance_and_turn
        return _sources(uniform[turn], farthest, chains)

    moved = jax.lax.map(one_round, jnp.array(order, jnp.int32))

    def all_rounds(found: jax.Array) -> jax.Array:
        # Earlier rounds have already moved the pixels that a round takes.
        return jax.lax.fori_loop(
            0,
            len(found),
            lambda turn, sources: jax.lax.cond(
                found[turn] < 0,
                lambda: sources,
                lambda: jnp.take(sources, moved[found[turn]], mode="clip"),
            ),
            own,
        )

    # The rounds of each kind, padded with -1.
    which = np.full((len(kinds), len(uniform)), -1, np.int32)
    for kind, (far, turns) in enumerate(kinds):
        which[kind, :turns] = [order.index((far, turn)) for turn in range(turns)]
    return jax.lax.map(all_rounds, jnp.asarray(which))


def _apply_glass(
    image: jax.Array, sources: jax.Array, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    sigma = at(rows, level)[0]
    nearest = jnp.floor(level + 0.5).astype(jnp.int32)
    kind = jnp.asarray(_kinds(rows)[1])[nearest]
    largest = rows[:, 0].max()

    def altered() -> jax.Array:
        blurred = _blur(image, sigma, largest)
        # Truncated to bytes, as the benchmark does between its blurs, as floats.
        found = jnp.floor(255 * blurred + _SLACK) / 255
        blurred += jax.lax.stop_gradient(found - blurred)
        pixels = blurred.reshape(-1, image.shape[-1])
        moved = jnp.take(pixels, sources[kind], axis=0, mode="clip")
        return jnp.clip(_blur(moved.reshape(image.shape), sigma, largest), 0.0, 1.0)

    return jax.lax.cond(level == 0, lambda: image, altered)


def _kinds(rows: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Returns pairs of distance and rounds, and the pair's index at levels 0 to 5."""
    pairs = [(int(farthest), int(turns)) for _, farthest, turns in rows]
    kinds = sorted(set(pairs))
    return kinds, np.array([kinds.index(pair) for pair in pairs])


def _sources(uniform: jax.Array, farthest: jax.Array, chains: bool) -> jax.Array:
    """Returns the pixel whose value each pixel takes in one round, int32 `[H * W]`."""
    # The benchmark gives each pixel, from last to first, the current value of another,
    # which may have one from elsewhere: chains, whose ends doubling the steps finds.
    height, width = uniform.shape
    row = jnp.arange(height, dtype=jnp.int32)[:, None]
    column = jnp.arange(width, dtype=jnp.int32)
    down, right = moves(uniform, farthest)

    def visited(row: jax.Array, column: jax.Array) -> jax.Array:
        inside = (row > farthest) & (row <= height - farthest)
        return inside & (column > farthest) & (column <= width - farthest)

    own = jnp.arange(height * width, dtype=jnp.int32)
    step = jnp.where(visited(row, column), down * width + right, 0)
    other = own + step.reshape(-1)
    if not chains:
        return other
    earlier = (step > 0) & visited(row + down, column + right)
    follow = jnp.where(earlier.reshape(-1), other, own)

    def doubled(follow: jax.Array) -> tuple[jax.Array, jax.Array]:
        twice = jnp.take(follow, follow, mode="clip")
        return twice, (twice != follow).any()

    end, _ = jax.lax.while_loop(
        lambda state: state[1], lambda state: doubled(state[0]), doubled(follow)
    )
    return jnp.take(other, end, mode="clip")


def moves(
    uniform: jax.Array, farthest: jax.typing.ArrayLike
) -> tuple[jax.Array, jax.Array]:
    """Returns moves down and right, int32, uniform in -farthest ... farthest - 1."""
    scaled = 2 * farthest * uniform
    down = jnp.floor(scaled)
    right = jnp.floor(2 * farthest * (scaled - down))
    return down.astype(jnp.int32) - farthest, right.astype(jnp.int32) - farthest


def _blur(image: jax.Array, sigma: jax.Array, largest: float) -> jax.Array:
    """Convolves with a Gaussian of at most `largest`; edge pixels repeat."""
    reach = int(_TRUNCATE * largest + 0.5)
    offsets = jnp.arange(-reach, reach + 1, dtype=jnp.int32)
    taps = jnp.exp(-0.5 * jnp.square(offsets / jnp.maximum(sigma, _NARROWEST)))
    taps = jnp.where(jnp.abs(offsets) <= jnp.floor(_TRUNCATE * sigma + 0.5), taps, 0.0)
    taps = taps / taps.sum()
    for rows, columns in ((offsets, 0 * offsets), (0 * offsets, offsets)):
        padded = shifts(image, len(offsets), reach, "edge")
        image = in_a_loop(padded, taps, rows, columns, reach)
    return image


class ElasticDraws(NamedTuple):
    """The random draws, numbers in [-1, 1)."""

    # the moves of the affine map's three points, `[3, 2]`, x before y
    corners: jax.Array
    field: Displacement  # the noise that becomes the displacement


def elastic_transform(size: int | None = None) -> Alteration:
    """A random affine map, and a smooth random displacement of every pixel after it.

    Between two severities the displacement is a mixture of theirs, and the moves of the
    affine map's three points are linear in the level.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(
        "elastic_transform",
        _apply_elastic,
        size=size,
        draw=_draw_elastic,
        prepare=_prepare_elastic,
        moves_pixels=True,
    )


def _draw_elastic(image: jax.Array, key: jax.Array) -> ElasticDraws:
    corners, field = jax.random.split(key)
    return ElasticDraws(
        jax.random.uniform(corners, (3, 2), jnp.float32, -1.0),
        draw_uniform(image, field),
    )


def _prepare_elastic(
    image: jax.Array, draws: ElasticDraws, rows: np.ndarray
) -> ElasticDraws:
    """Returns the field convolved with each of the Gaussians, `[S, H, W]` twice."""
    found = [smooth(draws.field, sigma) for sigma in _strengths(rows)[0]]
    return draws._replace(field=jax.tree.map(lambda *one: jnp.stack(one), *found))


def _apply_elastic(
    image: jax.Array, draws: ElasticDraws, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    jitter = at(rows, level)[2]
    strengths = at(_strengths(rows)[1], level)

    def altered() -> jax.Array:
        field = jax.tree.map(
            lambda smooth: jnp.tensordot(strengths, smooth, 1), draws.field
        )
        stages = _affine(image.shape, jitter * draws.corners), displaced(field)
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
