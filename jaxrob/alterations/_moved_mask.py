"""Masks that follow the pixels of an altered picture."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.naming import wrong_type
from jaxrob.alterations._alteration import Alteration, as_given, check_level, in_float32
from jaxrob.alterations._moves import Move, check_moves, moves_of
from jaxrob.alterations._resample import bilinear


def move_mask(
    alteration: Alteration, mask: jax.Array | np.ndarray, level: jax.typing.ArrayLike
) -> jax.Array:
    """Alters a mask as the alteration moves the pixels of its picture.

    It may be compiled, and vectorised over masks and levels. Colours and noise leave a
    mask as it is.

    Example::

        turned = rotation(-15, 15)(image, level)
        mask_of_turned = move_mask(rotation(-15, 15), mask, level)

    Args:
      alteration: one that does not move pixels, or says where to
        (`unmoved_reason`).
      mask: `[H, W]` or `[H, W, C]`, of the picture's size, since levels may be in
        pixels. Integers and booleans take the nearest pixel's value, floating numbers
        (depths, probabilities) are interpolated linearly.
      level: a scalar in the alteration's range; not checked if it is traced.

    Returns:
      The altered mask, of the same shape and type. Outside the picture it goes on as
      the picture does: its edge repeats, or where that is black, it is 0. At the
      identity it is the mask, bit for bit.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if the mask has another shape or integers beyond JAX's, the level lies
        outside the range, or the alteration moves pixels and does not say where to.
    """
    check_moves(alteration)
    check_level(alteration, level)
    mask = _checked_mask(mask)
    level = jnp.asarray(level, jnp.float32)
    moves = moves_of(alteration, level, mask.shape[:2])
    if not moves:
        return mask
    is_soft = jnp.issubdtype(mask.dtype, jnp.floating)
    moved = in_float32(mask) if is_soft else mask
    moved = moved.reshape(*mask.shape[:2], -1)
    height, width = mask.shape[:2]
    x = jnp.arange(width, dtype=jnp.float32) + 0.5
    centres = x, jnp.arange(height, dtype=jnp.float32)[:, None] + 0.5
    if is_soft:  # As the picture, which each movement interpolates.
        for move in moves:
            columns, rows = _before(move, *centres)
            moved = bilinear(moved, rows - 0.5, columns - 0.5, move.fill)
    else:
        moved = _nearest(moved, moves, *centres)
    moved = as_given(moved.reshape(mask.shape), mask)
    # Not 0 times a neighbour, which may be NaN.
    return jnp.where(level == alteration.identity, mask, moved)


def _checked_mask(mask: jax.Array | np.ndarray) -> jax.Array:
    """Returns a mask as a JAX array that holds the same numbers."""
    kinds = jnp.bool_, jnp.integer, jnp.floating
    if not isinstance(mask, np.ndarray | jax.Array) or not any(
        jnp.issubdtype(mask.dtype, kind) for kind in kinds
    ):
        raise wrong_type("mask", "an array of integers, booleans or numbers", mask)
    if mask.ndim not in (2, 3) or 0 in mask.shape:
        raise ValueError(
            f"mask must have the shape [H, W] or [H, W, C]; got {mask.shape}"
        )
    check_integers("mask", mask)
    return jnp.asarray(mask)


def check_integers(name: str, array: jax.Array | np.ndarray) -> None:
    """Rejects an array whose integers JAX would wrap around."""
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    if dtype == array.dtype or not jnp.issubdtype(dtype, jnp.integer):
        return
    limits = jnp.iinfo(dtype)
    if array.min() < limits.min or array.max() > limits.max:
        raise ValueError(
            f"{name} must lie in [{limits.min}, {limits.max}], JAX's integers unless "
            f"jax_enable_x64 is set; got {array.min()} to {array.max()}"
        )


def _before(move: Move, x: Any, y: Any) -> tuple[Any, Any]:
    across, down = (
        a * x + b * y + c for a, b, c in jnp.asarray(move.matrix, jnp.float32)
    )
    return across, down


def _nearest(mask: jax.Array, moves: Sequence[Move], x: Any, y: Any) -> jax.Array:
    """Returns the mask `[H, W, C]` after all movements, by the nearest pixel once."""
    height, width, _ = mask.shape
    inside = jnp.array(True)
    for move in reversed(moves):
        x, y = _before(move, x, y)
        if move.fill == "edge":
            # Where the picture is interpolated, edges repeat from pixels' centres on.
            x, y = jnp.clip(x, 0.5, width - 0.5), jnp.clip(y, 0.5, height - 0.5)
        else:
            inside &= (y >= 0) & (y < height) & (x >= 0) & (x < width)
    down = jnp.floor(jnp.clip(y, 0, height - 1)).astype(jnp.int32)
    right = jnp.floor(jnp.clip(x, 0, width - 1)).astype(jnp.int32)
    return jnp.where(inside[..., None], mask[down, right], jnp.zeros((), mask.dtype))
