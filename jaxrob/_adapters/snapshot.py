"""Copies of variables, which nothing that happens later changes."""

from typing import Any

import jax


def snapshot(tree: Any) -> Any:
    """A pytree with copies of its arrays, in containers of their own.

    A module trained in place may write into its NumPy arrays, assign to its variables,
    or give the buffers of its arrays away.
    """
    return jax.tree.map(
        lambda leaf: leaf.copy() if hasattr(leaf, "copy") else leaf, tree
    )
