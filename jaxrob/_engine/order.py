"""The random order in which images are looked at where a few of them may be enough."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._keys import checked_key, order_keys


def random_order(key: jax.Array | None, length: int) -> np.ndarray:
    """The indices of a data set's images in the random order that a key gives.

    Each image has 64 random bits of its own, from the key and its index, and the images
    come in the order of these: the same in every process and by every version.

    Args:
      key: the random key; None stands for `jax.random.key(0)`.
      length: the number of images.

    Returns:
      `[length]` int64, each index once.
    """
    key = jax.random.key(0) if key is None else checked_key(key)
    index = jnp.arange(length, dtype=jnp.uint32)
    bits = np.asarray(jax.random.key_data(order_keys(key, index)))
    # The last is the first to sort by. Of equal bits the lower index comes first.
    return np.lexsort((bits[:, 1], bits[:, 0]))
