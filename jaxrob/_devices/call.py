"""A compiled function with its arguments: the library runs it, or looks at it."""

import contextlib
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, Sharding

from jaxrob._devices.mesh import replicated


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
    mesh: Mesh | None = None

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
        return jax.set_mesh(self.mesh) if self.mesh else contextlib.nullcontext()


def shapes_whole(tree: Any, mesh: Mesh) -> Any:
    """The shapes and types of the arrays that `hosts.put_whole` puts on a mesh."""
    return shapes_of(tree, None if mesh.size == 1 else replicated(mesh))


def shapes_of(tree: Any, sharding: Sharding | None) -> Any:
    """The arrays of a pytree as shapes and types on the devices of a sharding."""

    def one(leaf: Any) -> jax.ShapeDtypeStruct:
        kind = jax.typeof(leaf)
        return jax.ShapeDtypeStruct(
            kind.shape, kind.dtype, weak_type=kind.weak_type, sharding=sharding
        )

    return jax.tree.map(one, tree)
