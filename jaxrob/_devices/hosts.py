"""Several processes that share one mesh and make the same calls on it."""

import functools
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from jaxrob._devices.mesh import ImageMesh, own_sharding, replicated
from jaxrob._keys import is_key


def put(tree: Any, sharding: Sharding) -> Any:
    """Puts whole arrays, the same in all processes, on the devices of a mesh."""
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def one(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.device_put(leaf, sharding)
        if is_key(leaf):
            data = one(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        if not isinstance(leaf, np.ndarray):
            leaf = np.asarray(jnp.asarray(leaf))
        return jax.make_array_from_process_local_data(sharding, leaf, leaf.shape)

    return jax.tree.map(one, tree)


def put_whole(tree: Any, mesh: ImageMesh) -> Any:
    """Puts arrays whole on every device of a mesh, except for a split network's."""
    # On a single device, arrays that are not committed to one stay as they are: putting
    # the hundreds of arrays of a deep network takes JAX milliseconds.
    if mesh.splits_network:
        return jax.tree.map(lambda leaf: _put_beside(leaf, mesh), tree)
    if len(mesh.devices) > 1:
        return put(tree, replicated(mesh))
    (device,) = mesh.devices
    leaves, structure = jax.tree.flatten(tree)
    # Numbers and NumPy arrays too, so that the same program takes all.
    arrays = [
        leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf) for leaf in leaves
    ]
    if all(one.devices() == {device} and not one.committed for one in arrays):
        return structure.unflatten(arrays)
    return put(tree, replicated(mesh))


def put_rows(
    read: Callable[[slice], np.ndarray], number: int, sharding: NamedSharding
) -> jax.Array:
    """Puts an array on the mesh. Each process reads only its own devices' rows."""
    own = [read(rows) for rows in own_rows(sharding, number)]
    own = own[0] if len(own) == 1 else np.concatenate(own)
    if sharding.is_fully_addressable:
        return jax.device_put(own, sharding)
    shape = (number, *own.shape[1:])
    return jax.make_array_from_process_local_data(sharding, own, shape)


def own_rows(sharding: NamedSharding, number: int) -> list[slice]:
    """Returns the rows of this process's devices, in order, in the fewest slices."""
    if sharding.is_fully_addressable:
        return [slice(0, number)]
    parts = sharding.addressable_devices_indices_map((number,)).values()
    found: list[slice] = []
    # Devices that share a split network share their rows.
    for start, stop in sorted({part[0].indices(number)[:2] for part in parts if part}):
        if found and found[-1].stop == start:
            found[-1] = slice(found[-1].start, stop)
        else:
            found.append(slice(start, stop))
    return found


def gathered(tree: Any) -> Any:
    """Gathers arrays of a mesh that spans processes, so that each can fetch all."""
    first = jax.tree.leaves(tree)[0]
    if first.is_fully_addressable:
        return tree
    return _gather(NamedSharding(first.sharding.mesh, PartitionSpec()))(tree)


def fetch(tree: Any) -> Any:
    """Fetches arrays of one mesh to the host, gathered if the mesh spans processes."""
    return jax.device_get(gathered(tree))


def local(tree: Any) -> Any:
    """Converts replicated arrays to arrays of this process alone."""
    # They are committed to no device, so they combine with arrays on any device.
    return jax.tree.map(jnp.asarray, jax.device_get(tree))


def is_first() -> bool:
    return jax.process_index() == 0


def from_first(value: Any, mesh: ImageMesh) -> Any:
    if not mesh.is_multi_process:
        return value
    text = np.frombuffer(json.dumps(value).encode(), np.uint8)
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(text))))
    text = np.resize(text, length) if is_first() else np.zeros(length, np.uint8)
    return json.loads(multihost_utils.broadcast_one_to_all(text).tobytes())


def smallest(number: int, mesh: ImageMesh) -> int:
    if not mesh.is_multi_process:
        return number
    return int(multihost_utils.process_allgather(np.int32(number)).min())


def check_same(what: str, digest: Callable[[], str], mesh: ImageMesh) -> None:
    if not mesh.is_multi_process:
        return
    own = np.frombuffer(bytes.fromhex(digest()), np.uint8)
    others = multihost_utils.process_allgather(own)
    differing = np.flatnonzero((others != others[0]).any(axis=1))
    if len(differing):
        raise ValueError(
            f"{what} must be the same in all processes; those of process "
            f"{differing[0]} differ from those of process 0"
        )


@functools.lru_cache(maxsize=16)
def _gather(whole: NamedSharding) -> Callable[[Any], Any]:
    return jax.jit(lambda tree: tree, out_shardings=whole)


def _put_beside(leaf: Any, mesh: ImageMesh) -> jax.Array:
    """Puts an array whole on every device, unless it already lies on the mesh."""
    own = own_sharding(leaf, mesh)
    if own is None or is_key(leaf):
        return put(leaf, replicated(mesh))
    if own.memory_kind != leaf.sharding.memory_kind:
        # Kept in the host's memory: each device gets its part.
        return jax.device_put(leaf, own)
    if own == leaf.sharding:
        return leaf
    # The same buffers, on a mesh of other axis types.
    parts = [shard.data for shard in leaf.addressable_shards]
    return jax.make_array_from_single_device_arrays(leaf.shape, own, parts)
