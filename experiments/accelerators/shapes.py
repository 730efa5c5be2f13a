"""Arguments without values: shapes and types on devices of a mesh."""

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def array(
    shape: tuple[int, ...], dtype: Any, mesh: Mesh, split: bool = False
) -> jax.ShapeDtypeStruct:
    """An array, replicated on the devices or sharded along its first axis."""
    sharding = NamedSharding(mesh, P(mesh.axis_names) if split else P())
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def whole(tree: Any, mesh: Mesh) -> Any:
    """A pytree of arrays, or of their shapes, replicated on the devices."""
    return jax.tree.map(lambda leaf: array(leaf.shape, leaf.dtype, mesh), tree)
