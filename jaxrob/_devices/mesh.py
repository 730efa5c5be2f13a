"""Meshes of devices, and functions that run on each device alone."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxrob._arguments.checks import check_type


@dataclasses.dataclass(frozen=True)
class ImageMesh:
    """A mesh, and those of its axes along which images are split.

    Along the others, if any, XLA splits a network that is larger than a device.
    """

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
    """Returns the mesh on which a network with these variables is evaluated."""
    # The mesh is that of sharded variables, if there are any; images are split along
    # the axes that no variable names.
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
        for axis in _axes_of(sharding.spec)
    }
    axes = tuple(axis for axis in theirs.axis_names if axis not in named)
    return ImageMesh(_partitioned(theirs.devices, theirs.axis_names), axes)


def is_same(mesh: Any, other: Any) -> bool:
    """Whether meshes have the same devices and axes, of whatever types."""
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
    """Shards the first axis over the axes of the images."""
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


def _axes_of(spec: P) -> set[str]:
    parts = (part if isinstance(part, tuple) else (part,) for part in spec)
    return {axis for part in parts for axis in part if isinstance(axis, str)}


def _described(mesh: Any) -> str:
    sizes = ", ".join(f"{name!r}: {size}" for name, size in mesh.shape.items())
    if not isinstance(mesh, Mesh):
        return f"an abstract mesh ({sizes})"
    numbers = [device.id for device in mesh.devices.flat]
    shown = ", ".join(map(str, numbers[:16])) + ", ..." * (len(numbers) > 16)
    return f"the mesh ({sizes}) of the devices {shown}"
