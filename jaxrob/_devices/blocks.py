"""A compiled step on rows, block by block."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jaxrob._devices.hosts import fetch, put
from jaxrob._devices.mesh import ImageMesh, sharded
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
