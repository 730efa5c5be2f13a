"""Random keys that depend on an image's index alone, and draws on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32

from jaxrob._arguments.messages import named, wrong_type

# No image has these indices: the classifier's keys and the random order come from here.
_CLASSIFIER = 2**32 - 1
_ORDER = 2**32 - 2
_WANTED = "a random key, as jax.random.key(0) makes it"


def is_key(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def check_key(key: Any) -> None:
    legacy = not is_key(key) and getattr(key, "dtype", None) == jnp.uint32
    if not (legacy and key.ndim) and not is_key(key):
        raise wrong_type("key", _WANTED, key)
    if key.shape[:-1] if legacy else key.shape:
        raise ValueError(f"key must be a single random key; got {named(key)}")


def checked_key(key: jax.Array) -> jax.Array:
    """A threefry key, from a key of either style and any implementation."""
    # Other implementations draw other numbers under `vmap` than one by one, so that
    # answers would depend on the batch size.
    check_key(key)
    if not is_key(key):
        try:
            key = jax.random.wrap_key_data(key)
        except (TypeError, ValueError):  # Data of another length.
            raise wrong_type("key", _WANTED, key) from None
    if str(jax.random.key_impl(key)) != "threefry2x32":
        seed = jax.random.bits(key, dtype=jnp.uint32)
        key = jax.random.key(seed, impl="threefry2x32")
    return key


def random_words(key: jax.Array, number: int) -> jax.Array:
    # `jax.random.bits` joins the two words that threefry computes at once into one, so
    # that a CPU takes twice to three times as long.
    data = jax.random.key_data(key) if is_key(key) else key
    if data.shape != (2,):  # Not threefry's.
        return jax.random.bits(key, (number,), jnp.uint32)
    return threefry_2x32(data, jnp.arange(number, dtype=jnp.uint32))


def alteration_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    """`[B]` keys for the alteration of the images with the indices `[B]`."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, index)


def classifier_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    """`[B]` keys for a stochastic classifier, other than those of the alteration."""
    return alteration_keys(jax.random.fold_in(key, _CLASSIFIER), index)


def order_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    """`[N]` keys that put the images with the indices `[N]` in a random order."""
    return alteration_keys(jax.random.fold_in(key, _ORDER), index)


def host_generator(key: jax.Array) -> np.random.Generator:
    return np.random.default_rng(np.asarray(jax.random.bits(key, (4,), jnp.uint32)))
