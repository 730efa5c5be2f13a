"""Inputs drawn from a population by a function."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.naming import named
from jaxrob._keys import alteration_keys

# Inputs drawn in one call.
_BLOCK = 1024


def drawn_inputs(
    fn: Callable[[jax.Array], Any], number: int, key: jax.Array
) -> tuple[np.ndarray, np.ndarray | None]:
    """Images, and labels if there are any, as a function of the user's draws them."""
    # The input of an index depends on the key and the index alone.
    found = jax.eval_shape(fn, jax.random.key(0))
    has_labels = isinstance(found, tuple)
    parts = found if has_labels else (found,)
    shapes = [getattr(part, "shape", None) for part in parts]
    if None in shapes or len(parts) > 2 or (has_labels and shapes[1:] != [()]):
        raise TypeError(
            "images must be an array, or a function of a key that returns an image or "
            f"an image and its label; got {named(fn)}, which returns {found}"
        )
    draw = jax.jit(lambda indices: jax.vmap(fn)(alteration_keys(key, indices)))
    # Whole blocks: one program.
    size = min(_BLOCK, number)
    blocks = []
    for first in range(0, number, size):
        drawn = draw(first + jnp.arange(size, dtype=jnp.uint32))
        blocks.append(jax.tree.map(np.asarray, drawn if has_labels else (drawn,)))
    columns = [np.concatenate(column)[:number] for column in zip(*blocks)]
    return columns[0], columns[1] if has_labels else None
