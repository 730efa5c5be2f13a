"""Arrays that stay on the devices because a run will need them again."""

from collections.abc import Hashable
from typing import Any

import jax


class Kept:
    """Keeps arrays on the devices, as long as they fit."""

    def __init__(self, room: int) -> None:
        """Starts empty.

        Args:
          room: the most bytes, on all devices together.
        """
        self._room = room
        self._trees: dict[Hashable, Any] = {}

    def find(self, name: Hashable) -> Any:
        """Returns the pytree of this name, or None."""
        return self._trees.get(name)

    def fits(self, tree: Any) -> bool:
        """Whether a pytree's arrays fit beside those that are kept."""
        return _num_bytes(tree) <= self._room

    def keep(self, name: Hashable, tree: Any) -> None:
        """Keeps a pytree if it fits."""
        if self.fits(tree):
            self._trees[name] = tree
            self._room -= _num_bytes(tree)


def _num_bytes(tree: Any) -> int:
    arrays = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
    return sum(array.nbytes for array in arrays)
