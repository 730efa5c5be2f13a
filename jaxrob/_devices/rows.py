"""Rows of pytrees of arrays that share their first axis."""

from typing import Any, TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrob._devices.mesh import ImageMesh

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


def padded(rows: np.ndarray, size: int) -> np.ndarray:
    """The rows, padded with zeros to a size."""
    if len(rows) == size:
        return rows
    return np.pad(rows, [(0, size - len(rows))] + [(0, 0)] * (rows.ndim - 1))


def is_on_devices(rows: Any) -> TypeGuard[jax.Array]:
    """Whether it is a JAX array in its devices' own memory, not in the host's."""
    if not isinstance(rows, jax.Array):
        return False
    (device, *_) = rows.devices()
    return rows.sharding.memory_kind in (None, device.default_memory().kind)


def is_on(rows: Any, mesh: ImageMesh) -> bool:
    """Whether it is a JAX array in the memory of a mesh's devices alone."""
    return is_on_devices(rows) and rows.devices() == {*mesh.devices}


def taken_on_devices(rows: jax.Array, indices: np.ndarray, size: int) -> jax.Array:
    """The rows at these positions, padded with zeros to a size, without the host."""
    if len(rows) == size and np.array_equal(indices, np.arange(size)):
        return rows
    mesh: Any = getattr(rows.sharding, "mesh", None)
    if mesh is None:
        mesh = Mesh(np.array([*rows.devices()]), ("rows",))
    places = np.full(size, len(rows))
    places[: len(indices)] = indices
    # The caller may have set a mesh of other devices.
    with jax.set_mesh(mesh):
        return _taken_or_zero(rows, places)


@jax.jit
def _taken_or_zero(rows: jax.Array, indices: np.ndarray) -> jax.Array:
    return jnp.take(rows, indices, axis=0, mode="fill", fill_value=0)
