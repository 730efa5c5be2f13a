"""The random order in which images are evaluated where a few may be enough."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._keys import checked_key, order_keys


def random_order(key: jax.Array | None, length: int) -> np.ndarray:
    """Returns the indices of a data set's images in the key's random order."""
    # Images are sorted by 64 random bits each, drawn from the key and the image's
    # index. The order is the same in every process and version.
    key = jax.random.key(0) if key is None else checked_key(key)
    index = jnp.arange(length, dtype=jnp.uint32)
    bits = np.asarray(jax.random.key_data(order_keys(key, index)))
    # `lexsort` sorts by its last key first. Ties keep the lower index first.
    return np.lexsort((bits[:, 1], bits[:, 0]))
