"""A compiled function with its arguments: the library runs it, or looks at it."""

import contextlib
from typing import Any, NamedTuple

import jax
from jax.sharding import Sharding

from jaxrob._devices.mesh import ImageMesh, own_sharding, replicated


class Call(NamedTuple):
    """A call of a compiled function.

    The arguments may be shapes (`jax.ShapeDtypeStruct`): then it can only be lowered.

    Attributes:
      function: what `jax.jit` returned.
      args: its arguments.
      static: its static arguments, by name.
      mesh: the mesh that is set where it runs, None if none is.
    """

    function: Any
    args: tuple[Any, ...]
    static: dict[str, Any] = {}
    mesh: ImageMesh | None = None

    def run(self) -> Any:
        """What the function returns."""
        with self._mesh_set():
            return self.function(*self.args, **self.static)

    def lower(self) -> jax.stages.Lowered:
        """The program for the devices of the arguments, which need not be there."""
        with self._mesh_set():
            return self.function.lower(*self.args, **self.static)

    def _mesh_set(self) -> contextlib.AbstractContextManager[Any]:
        # The caller may have set another one.
        return jax.set_mesh(self.mesh.mesh) if self.mesh else contextlib.nullcontext()


def shapes_whole(tree: Any, mesh: ImageMesh) -> Any:
    """The shapes and types of the arrays that `hosts.put_whole` puts on a mesh."""
    whole = None if len(mesh.devices) == 1 else replicated(mesh)
    return jax.tree.map(
        lambda leaf: _shape_of(leaf, own_sharding(leaf, mesh) or whole), tree
    )


def shapes_of(tree: Any, sharding: Sharding) -> Any:
    """The arrays of a pytree as shapes and types on the devices of a sharding."""
    return jax.tree.map(lambda leaf: _shape_of(leaf, sharding), tree)


def _shape_of(leaf: Any, sharding: Sharding | None) -> jax.ShapeDtypeStruct:
    kind = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(
        kind.shape, kind.dtype, weak_type=kind.weak_type, sharding=sharding
    )
