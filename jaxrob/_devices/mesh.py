"""Meshes of devices, the processes that share one, and functions on each device."""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding
from jax.sharding import PartitionSpec as P

from jaxrob._arguments.checks import check_type
from jaxrob._keys import is_key


@dataclasses.dataclass(frozen=True)
class ImageMesh:
    """A mesh, and its axes along which images are split, not large networks."""

    mesh: Mesh  # XLA chooses all shardings (`AxisType.Auto`)
    axes: tuple[str, ...]  # may be empty

    @property
    def size(self) -> int:
        """The number of parts into which images are split."""
        return math.prod(self.mesh.shape[axis] for axis in self.axes)

    @property
    def splits_network(self) -> bool:
        return len(self.axes) < len(self.mesh.axis_names)

    @property
    def devices(self) -> list[Any]:
        return [*self.mesh.devices.flat]

    @property
    def local_devices(self) -> list[Any]:
        return self.mesh.local_devices

    @property
    def is_multi_process(self) -> bool:
        return self.mesh.is_multi_process


def checked_mesh(mesh: Mesh | None, variables: Any = ()) -> ImageMesh:
    # That of sharded variables, if any; images go along axes that no variable names.
    if any(
        isinstance(one, Tracer) for one in jax.tree.leaves((variables, jnp.asarray(0)))
    ):
        raise ValueError(
            "jaxrob must be called outside of jax.jit, jax.grad and jax.vmap, with "
            "variables that have values: it decides by the network's answers, and "
            "compiles the network itself. Only alterations can be used within"
        )
    found = mesh_for(mesh, variables)
    processes = {device.process_index for device in found.devices}
    if processes == {jax.process_index()} or len(processes) == jax.process_count():
        return found
    raise ValueError(
        "mesh must have devices of this process alone, or of all processes; got "
        f"those of {sorted(processes)} in process {jax.process_index()} of "
        f"{jax.process_count()}"
    )


def mesh_for(mesh: Mesh | None, variables: Any = ()) -> ImageMesh:
    """Returns the mesh as `checked_mesh` does, wherever its devices are."""
    if mesh is not None:
        check_type("mesh", mesh, Mesh, "a jax.sharding.Mesh or None")
    shardings = [
        leaf.sharding
        for leaf in jax.tree.leaves(variables)
        if isinstance(getattr(leaf, "sharding", None), NamedSharding)
    ]
    theirs = None
    for sharding in shardings:
        if sharding.is_fully_replicated:
            continue
        if theirs is not None and not is_same(sharding.mesh, theirs):
            raise ValueError(
                "variables must be sharded over one mesh; got some over "
                f"{_described(theirs)}, others over {_described(sharding.mesh)}"
            )
        theirs = sharding.mesh
    if theirs is None:
        theirs = mesh or Mesh(np.array(jax.local_devices()), ("images",))
    elif mesh is not None:
        if not is_same(mesh, theirs):
            raise ValueError(
                "mesh must be the one over which the variables are sharded, "
                f"{_described(theirs)}; got {_described(mesh)}. Pass the former"
            )
        theirs = mesh
    if not isinstance(theirs, Mesh):
        raise ValueError(
            "mesh must say which devices those of the variables' shapes are, of "
            f"{_described(theirs)}; got None"
        )
    named = {
        axis
        for sharding in shardings
        if is_same(sharding.mesh, theirs)
        for axis in jax.tree.leaves(tuple(sharding.spec))
    }
    axes = tuple(axis for axis in theirs.axis_names if axis not in named)
    return ImageMesh(_partitioned(theirs.devices, theirs.axis_names), axes)


def is_same(mesh: Any, other: Any) -> bool:
    # An abstract mesh, which shapes may have, is that of any devices.
    if (*mesh.shape.items(),) != (*other.shape.items(),):
        return False
    if not (isinstance(mesh, Mesh) and isinstance(other, Mesh)):
        return True
    return np.array_equal(mesh.devices, other.devices)


def along_images(mesh: ImageMesh) -> ImageMesh:
    """Puts a mesh's devices along one axis, for programs that XLA itself splits."""
    return ImageMesh(_partitioned(np.array(mesh.devices), ("images",)), ("images",))


def sharded(mesh: ImageMesh) -> NamedSharding:
    return NamedSharding(mesh.mesh, P(mesh.axes or None))


def replicated(mesh: ImageMesh) -> NamedSharding:
    return NamedSharding(mesh.mesh, P())


def own_sharding(leaf: Any, mesh: ImageMesh) -> NamedSharding | None:
    """Returns the sharding of an array that already lies on a split network's mesh."""
    sharding = getattr(leaf, "sharding", None)
    if not (mesh.splits_network and isinstance(sharding, NamedSharding)):
        return None
    if not is_same(sharding.mesh, mesh.mesh):
        return None
    return NamedSharding(mesh.mesh, sharding.spec)


def platform(mesh: ImageMesh) -> str:
    return mesh.devices[0].platform


def on_each_device(
    function: Callable[..., Any],
    mesh: ImageMesh,
    split: Sequence[bool],
    joined_along: int = 0,
) -> Callable[..., Any]:
    """Makes a function that each device runs on its own rows, without communication."""
    # Devices that share the parts of a split network share their rows too.
    if not mesh.axes:
        return function
    rows = P(mesh.axes)
    return jax.shard_map(
        function,
        mesh=mesh.mesh,
        in_specs=tuple(rows if some else P() for some in split),
        out_specs=P(*[None] * joined_along, mesh.axes),
        axis_names={*mesh.axes},
        check_vma=False,
    )


def _partitioned(devices: np.ndarray, axis_names: tuple[str, ...]) -> Mesh:
    return Mesh(devices, axis_names, axis_types=(AxisType.Auto,) * len(axis_names))


def _described(mesh: Any) -> str:
    sizes = ", ".join(f"{name!r}: {size}" for name, size in mesh.shape.items())
    if not isinstance(mesh, Mesh):
        return f"an abstract mesh ({sizes})"
    numbers = [device.id for device in mesh.devices.flat]
    shown = ", ".join(map(str, numbers[:16])) + ", ..." * (len(numbers) > 16)
    return f"the mesh ({sizes}) of the devices {shown}"


def put(tree: Any, sharding: Sharding) -> Any:
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
    # Uncommitted arrays stay on a single device: putting hundreds takes milliseconds.
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
    first = jax.tree.leaves(tree)[0]
    if first.is_fully_addressable:
        return tree
    return _gather(NamedSharding(first.sharding.mesh, PartitionSpec()))(tree)


def fetch(tree: Any) -> Any:
    return jax.device_get(gathered(tree))


def local(tree: Any) -> Any:
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
