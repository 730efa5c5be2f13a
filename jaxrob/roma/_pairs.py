"""Pairs of an input and a class that it may be mistaken for."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp

from jaxrob.roma._work import Array

# The index of no input: here the pairs' keys branch off from those of plain draws.
_PAIRS = 2**32 - 2

#: Uses of random numbers, each with keys of its own. Results depend on these numbers:
#: add new ones at the end.
STARTS, SEARCH, REFINEMENT, MIXTURE, SPLITTING, SCOUTS = range(6)
#: Further runs of splitting.
AGAIN = (6, 7, 8)
#: Further groups of scouts.
MORE_SCOUTS = (9, 10)
#: In place of a class: whichever comes nearest to being the distinct answer.
ANY_CLASS = -1


class Pairs(NamedTuple, Generic[Array]):
    """P pairs of an input and a class.

    Attributes:
      images: `[P, H, W, C]`, uint8 or float32 in [0, 1].
      indices: `[P]` uint32, the inputs' indices, which the random keys depend on.
      classes: `[P]` int32, the classes; `ANY_CLASS` for all of them together.
      excluded: `[P]` int32, the class predicted at the input.
    """

    images: Array
    indices: Array
    classes: Array
    excluded: Array


def pair_keys(
    key: jax.Array, pairs: Pairs[jax.Array], use: int | jax.Array
) -> jax.Array:
    """`[P]` keys that depend on the input, the class and the use alone."""
    key = jax.random.fold_in(key, _PAIRS)

    def one(index: jax.Array, cls: jax.Array) -> jax.Array:
        of_class = jax.random.fold_in(jax.random.fold_in(key, index), cls)
        return jax.random.fold_in(of_class, use)

    return jax.vmap(one)(pairs.indices, pairs.classes.astype(jnp.uint32))
