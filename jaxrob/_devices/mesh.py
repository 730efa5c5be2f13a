"""Meshes of devices, and functions that run on each device alone."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxrob._arguments.checks import check_type


def checked_mesh(mesh: Mesh | None) -> Mesh:
    """Returns the mesh; by default one of all devices of this process.

    Raises:
      TypeError: if it is not a mesh.
      ValueError: unless its devices belong to this process alone, or to all processes.
    """
    if mesh is None:
        return Mesh(np.array(jax.local_devices()), ("images",))
    check_type("mesh", mesh, Mesh, "a jax.sharding.Mesh or None")
    processes = {device.process_index for device in mesh.devices.flat}
    if processes == {jax.process_index()} or len(processes) == jax.process_count():
        return mesh
    raise ValueError(
        "mesh must have devices of this process alone, or of all processes; got "
        f"those of {sorted(processes)} in process {jax.process_index()} of "
        f"{jax.process_count()}"
    )


def along_images(mesh: Mesh) -> Mesh:
    """Puts a mesh's devices along one axis, for programs that XLA itself splits."""
    return Mesh(mesh.devices.ravel(), ("images",))


def sharded(mesh: Mesh) -> NamedSharding:
    """Shards the first axis over all axes of a mesh."""
    return NamedSharding(mesh, P(mesh.axis_names))


def replicated(mesh: Mesh) -> NamedSharding:
    """Replicates arrays on every device of a mesh."""
    return NamedSharding(mesh, P())


def platform(mesh: Mesh) -> str:
    """Returns the devices' platform: "cpu", "gpu" or "tpu"."""
    return mesh.devices.flat[0].platform


def on_each_device(
    function: Callable[..., Any],
    mesh: Mesh,
    split: Sequence[bool],
    joined_along: int = 0,
) -> Callable[..., Any]:
    """Makes a function that each device runs on its own rows, without communication.

    Args:
      function: takes pytrees of arrays, returns one.
      mesh: the devices.
      split: for each argument, whether the first axis of its arrays is split over the
        devices. Every device gets the other arguments whole.
      joined_along: the axis of the results along which the devices' parts are joined.

    Returns:
      A function of the same arguments. Call it within `jax.jit`.
    """
    rows = P(mesh.axis_names)
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=tuple(rows if some else P() for some in split),
        out_specs=P(*[None] * joined_along, mesh.axis_names),
        check_vma=False,
    )
