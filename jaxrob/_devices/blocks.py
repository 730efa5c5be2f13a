"""A compiled step on rows, block by block."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Sharding

from jaxrob._devices.hosts import fetch, put
from jaxrob._devices.mesh import ImageMesh, own_sharding, replicated, sharded
from jaxrob._devices.rows import filled, first_of


def in_blocks(
    step: Callable[..., Any],
    take: Callable[[np.ndarray], tuple[Any, ...]],
    rows: np.ndarray,
    size: int,
    mesh: ImageMesh,
) -> Iterator[tuple[np.ndarray, Any]]:
    """Runs a step on blocks of rows of one size, each split over the devices."""
    # All blocks have one size, so the step is compiled once. The last row is repeated
    # to fill the last block, and what the step returns for the repetitions is dropped.
    # The devices work on the next block while the caller has the one before.
    before = None
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        placed = put(take(filled(block, size)), sharded(mesh))
        # The caller may have set another mesh.
        with jax.set_mesh(mesh.mesh):
            found = step(*placed)
        if before is not None:
            yield _fetched(*before)
        before = block, found
    if before is not None:
        yield _fetched(*before)


def _fetched(block: np.ndarray, found: Any) -> tuple[np.ndarray, Any]:
    return block, first_of(fetch(found), len(block))


class Call(NamedTuple):
    """A call of a compiled function.

    The arguments may be shapes (`jax.ShapeDtypeStruct`): then it can only be lowered.
    """

    function: Any  # what `jax.jit` returned
    args: tuple[Any, ...]  # its arguments
    static: dict[str, Any] = {}  # its static arguments, by name
    mesh: ImageMesh | None = None  # the mesh that is set where it runs, None if none is

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
