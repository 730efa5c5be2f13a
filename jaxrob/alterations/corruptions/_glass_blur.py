"""Glass blur by severity."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._shifts import in_a_loop, shifts
from jaxrob.alterations.corruptions._by_severity import by_severity
from jaxrob.alterations.corruptions._parameters import GLASS_BLUR, at

# The Gaussian's half width in standard deviations, rounded to pixels.
_TRUNCATE = 4.0
# Below this standard deviation (in pixels) the kernel is one pixel.
_SMALLEST = 0.05
# float32's rounding may miss a byte by this much, in units of a byte.
_SLACK = 5e-5


def glass_blur(size: int | None = None) -> Alteration:
    """Pixels taken from their neighbourhood at random, as seen through frosted glass.

    The image is blurred and truncated to bytes, its pixels are moved, and it is blurred
    again. The blurs are continuous in the level. The distance and the number of rounds
    of the moves are those of the nearest severity, with the same random numbers at all
    levels.

    The benchmark's code intends to swap pixels but copies them: the second pixel
    keeps its value. This does the same, for grey images too. Gradients pass the
    truncation unchanged.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return by_severity(GLASS_BLUR, _prepare, _apply, size=size, draw=_draw)


def _draw(image: jax.Array, key: jax.Array, rows: np.ndarray) -> jax.Array:
    """Draws numbers in [0, 1) for each round and pixel, `[rounds, H, W]`."""
    shape = int(rows[:, 2].max()), *image.shape[:2]
    return jax.random.uniform(key, shape, jnp.float32)


def _prepare(image: jax.Array, uniform: jax.Array, rows: np.ndarray) -> jax.Array:
    """Returns each pixel's source for each kind of `_kinds`: int32 `[V, H * W]`."""
    del image
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


def _apply(
    image: jax.Array, sources: jax.Array, level: jax.Array, rows: np.ndarray
) -> jax.Array:
    sigma = at(rows, level)[0]
    nearest = jnp.floor(level + 0.5).astype(jnp.int32)
    kind = jnp.asarray(_kinds(rows)[1])[nearest]
    largest = rows[:, 0].max()

    def altered() -> jax.Array:
        blurred = _truncated(_blur(image, sigma, largest))
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
    # The benchmark goes from the last pixel to the first and gives each the current
    # value of another. If the other pixel came earlier, it has already taken a value
    # from elsewhere, and so on: chains, whose ends are found by doubling the steps.
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
    taps = jnp.exp(-0.5 * jnp.square(offsets / jnp.maximum(sigma, _SMALLEST)))
    taps = jnp.where(jnp.abs(offsets) <= jnp.floor(_TRUNCATE * sigma + 0.5), taps, 0.0)
    taps = taps / taps.sum()
    for rows, columns in ((offsets, 0 * offsets), (0 * offsets, offsets)):
        padded = shifts(image, len(offsets), reach, "edge")
        image = in_a_loop(padded, taps, rows, columns, reach)
    return image


def _truncated(image: jax.Array) -> jax.Array:
    """Truncates to bytes, as the benchmark does between its blurs, as floats."""
    found = jnp.floor(255 * image + _SLACK) / 255
    return image + jax.lax.stop_gradient(found - image)
