"""Random keys that depend on an image's index alone, and draws on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.messages import named, wrong_type

# No image has these indices: the classifier's keys and the random order come from here.
_CLASSIFIER = 2**32 - 1
_ORDER = 2**32 - 2
_WANTED = "a random key, as jax.random.key(0) makes it"
_ROTATIONS = np.array([(13, 15, 26, 6), (17, 29, 16, 24)], np.uint32)


def is_key(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def check_key(key: Any) -> None:
    legacy = not is_key(key) and getattr(key, "dtype", None) == jnp.uint32
    if not (legacy and key.ndim) and not is_key(key):
        raise wrong_type("key", _WANTED, key)
    if key.shape[:-1] if legacy else key.shape:
        raise ValueError(f"key must be a single random key; got {named(key)}")
    # Journals and comparisons would mix other numbers with those of JAX's default.
    if not jax.config.jax_threefry_partitionable:  # pyright: ignore
        raise ValueError("key needs `with jax.threefry_partitionable(True):` around it")


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
    counts = jnp.arange(number + number % 2, dtype=jnp.uint32)
    counts = jnp.where(counts < number, counts, 0)  # As `jax.random` pads them.
    return jnp.concatenate(_threefry(data, *jnp.split(counts, 2)))[:number]


@jax.jit
def alteration_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    """`[B]` keys for the alteration of the images with the indices `[B]`."""
    if not is_key(key) or jax.random.key_data(key).shape != (2,):  # Not threefry's.
        return jax.vmap(jax.random.fold_in, (None, 0))(key, index)
    data, index = jax.random.key_data(key), index.astype(jnp.uint32)
    found = jnp.stack(_threefry(data, jnp.zeros_like(index), index), axis=-1)
    return jax.random.wrap_key_data(found, impl="threefry2x32")


def _threefry(key: jax.Array, *words: Any) -> tuple[jax.Array, jax.Array]:
    """Applies threefry-2x32, as JAX does but for a loop in its program for CPUs."""
    # Without it noise takes a third of the time to compile, and to run.
    first, second = words
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    first, second = first + keys[0], second + keys[1]
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            first = first + second
            second = (second << by) | (second >> np.uint32(32 - by))
            second = second ^ first
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    # Both words are computed once.
    return jax.lax.optimization_barrier((first, second))


def classifier_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    """`[B]` keys for a stochastic classifier, other than those of the alteration."""
    return alteration_keys(jax.random.fold_in(key, _CLASSIFIER), index)


def order_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    """`[N]` keys that put the images with the indices `[N]` in a random order."""
    return alteration_keys(jax.random.fold_in(key, _ORDER), index)


def host_generator(key: jax.Array) -> np.random.Generator:
    return np.random.default_rng(np.asarray(_seed(key)))


@jax.jit
def _seed(key: jax.Array) -> jax.Array:
    return jax.random.bits(key, (4,), jnp.uint32)
