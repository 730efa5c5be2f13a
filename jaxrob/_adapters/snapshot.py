"""Copies of variables that later training does not change."""

from typing import Any

import jax


def snapshot(tree: Any) -> Any:
    """Copies a pytree's arrays and containers."""
    # A module trained in place may write into its NumPy arrays, assign to its
    # variables, or donate the buffers of its arrays.
    return jax.tree.map(
        lambda leaf: leaf.copy() if hasattr(leaf, "copy") else leaf, tree
    )
