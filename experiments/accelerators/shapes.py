"""What programs take, as shapes and types that lie on devices of a mesh."""

from typing import Any

import jax
from jax.sharding import Mesh

from jaxrob._devices.mesh import replicated, sharded


def array(
    shape: tuple[int, ...], dtype: Any, mesh: Mesh, split: bool = False
) -> jax.ShapeDtypeStruct:
    """An array, whole on each device or split along its first axis."""
    sharding = sharded(mesh) if split else replicated(mesh)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def whole(tree: Any, mesh: Mesh) -> Any:
    """A pytree of arrays, or of their shapes, whole on each device."""
    return jax.tree.map(lambda leaf: array(leaf.shape, leaf.dtype, mesh), tree)


def split(tree: Any, mesh: Mesh) -> Any:
    """The same, split along the leaves' first axes."""
    return jax.tree.map(lambda leaf: array(leaf.shape, leaf.dtype, mesh, True), tree)


def key(mesh: Mesh) -> jax.ShapeDtypeStruct:
    """A random key."""
    return whole(jax.eval_shape(lambda: jax.random.key(0)), mesh)
