"""Arrays that stay on the devices because a run will need them again."""

from collections.abc import Hashable
from typing import Any

import jax


class Kept:
    """Keeps arrays on the devices, as long as they fit.

    Attributes:
      rows: the most images of a block, chosen in the run's first round; None before.
    """

    def __init__(self, room: int) -> None:
        """Starts empty."""
        self.rows: int | None = None
        self._room = room
        self._trees: dict[Hashable, Any] = {}

    def find(self, name: Hashable) -> Any:
        """Returns the pytree of this name, or None."""
        return self._trees.get(name)

    def keep(self, name: Hashable, tree: Any) -> bool:
        """Keeps a pytree if it fits; says whether."""
        arrays = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
        size = sum(array.nbytes for array in arrays)
        if size > self._room:
            return False
        self._trees[name] = tree
        self._room -= size
        return True

    def drop(self) -> None:
        """Forgets all, when the run ends or fails."""
        self._trees.clear()
