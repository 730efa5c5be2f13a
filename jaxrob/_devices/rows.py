"""Rows of pytrees of arrays that share their first axis."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")


def first_of(tree: Tree, number: int) -> Tree:
    """The first rows of all arrays of a pytree."""
    return jax.tree.map(lambda array: array[:number], tree)


def taken(tree: Tree, chosen: np.ndarray | slice | int) -> Tree:
    """The rows chosen (by position) of all arrays of a pytree."""
    return jax.tree.map(lambda array: array[chosen], tree)


def put_at(tree: Tree, chosen: np.ndarray, part: Tree) -> Tree:
    """A copy of a pytree of NumPy arrays with other rows at the positions chosen."""

    def one(array: np.ndarray, new: np.ndarray) -> np.ndarray:
        array = np.array(array)
        array[chosen] = new
        return array

    return jax.tree.map(one, tree, part)


def joined(parts: list[Any]) -> Any:
    """Pytrees of arrays, concatenated along the first axis."""
    return jax.tree.map(lambda *some: np.concatenate(some), *parts)


def filled(rows: np.ndarray, size: int) -> np.ndarray:
    """A copy of at most `size` rows, the last one repeated up to `size`."""
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


def padded(rows: Any, size: int) -> Any:
    """A NumPy or JAX array of rows, padded with zeros to a size."""
    if len(rows) == size:
        return rows
    pad = jnp.pad if isinstance(rows, jax.Array) else np.pad
    return pad(rows, [(0, size - len(rows))] + [(0, 0)] * (rows.ndim - 1))


@jax.jit
def rows_on_device(rows: jax.Array, indices: np.ndarray) -> jax.Array:
    """The rows at these positions, where they are; zeros for positions behind them."""
    return jnp.take(rows, indices, axis=0, mode="fill", fill_value=0)
