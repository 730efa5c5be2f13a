"""Pairs of an input and a class, estimated side by side."""

from typing import NamedTuple

import jax

# The index of no input: from here the lanes' keys branch off those of plain draws.
_LANES = 2**32 - 2


class Lanes(NamedTuple):
    """Pairs of an input and a class it may be mistaken for.

    Attributes:
      images: float32 `[L, H, W, C]`.
      index: `[L]` uint32, the inputs' indices, which the random keys depend on.
      classes: `[L]` int32, the classes.
    """

    images: jax.Array
    index: jax.Array
    classes: jax.Array


def lane_keys(key: jax.Array, lanes: Lanes, stage: int) -> jax.Array:
    """`[L]` keys that depend on the input, the class and the stage alone."""
    key = jax.random.fold_in(key, _LANES)

    def one(index, cls):
        of_class = jax.random.fold_in(jax.random.fold_in(key, index), cls)
        return jax.random.fold_in(of_class, stage)

    return jax.vmap(one)(lanes.index, lanes.classes.astype("uint32"))
