"""The small networks, images and alterations of the cases, drawn by NumPy."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import alterations

KEY = jax.random.key(7)
NAMES = ("ape", "bee", "cat")
NUM_IMAGES = 60


def linear(variables: dict[str, Any], images: jax.Array) -> jax.Array:
    """Returns logits of three classes."""
    flat = images.reshape(len(images), -1)
    return flat @ variables["weights"] + variables["bias"]


def convolution(variables: dict[str, Any], images: jax.Array) -> jax.Array:
    """Returns logits of a convolution, a mean over places, and a layer."""
    x = jax.lax.conv_general_dilated(
        images - 0.5,
        variables["filters"],
        (2, 2),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return jax.nn.relu(x).mean((1, 2)) @ variables["weights"]


@functools.cache
def grey() -> np.ndarray:
    """Returns float32 `[60, 8, 8, 1]`."""
    smooth = np.random.default_rng(1).random((NUM_IMAGES, 4, 4, 1), np.float32)
    return smooth.repeat(2, axis=1).repeat(2, axis=2)


@functools.cache
def coloured(size: int = 16) -> np.ndarray:
    """Returns bytes `[24, size, size, 3]`."""
    smooth = np.random.default_rng(2).integers(0, 256, (24, 4, 4, 3), np.uint8)
    return smooth.repeat(size // 4, axis=1).repeat(size // 4, axis=2)


def variables(seed: int = 3) -> dict[str, np.ndarray]:
    """Returns the variables of the linear network."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(64, 3))
    # The mean image is on the boundary, so that all classes occur.
    bias = -0.5 * weights.sum(axis=0) + rng.normal(size=3) / 10
    return {"weights": np.float32(weights), "bias": np.float32(bias)}


def on_host(images: np.ndarray) -> np.ndarray:
    """The linear network's logits, by NumPy."""
    parts = variables()
    return images.reshape(len(images), -1) @ parts["weights"] + parts["bias"]


@functools.cache
def classifier(seed: int = 3) -> jaxrob.Classifier:
    """The linear network."""
    return jaxrob.Classifier(linear, variables(seed), name=f"linear {seed}")


@functools.cache
def labels() -> np.ndarray:
    """Returns the linear network's answers, except for every eighth image."""
    parts = variables()
    flat = np.float64(grey()).reshape(NUM_IMAGES, -1)
    found = (flat @ np.float64(parts["weights"]) + parts["bias"]).argmax(axis=1)
    found[::8] = (found[::8] + 1) % 3
    return found.astype(np.int32)


@functools.cache
def dataset() -> jaxrob.Dataset:
    """The grey images."""
    return jaxrob.Dataset(grey(), labels(), NAMES, "blocks")


class Batches:
    """The grey images in batches; fails after `last` of them, if it is set."""

    last: int | None = None

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Iterates from the first batch each time."""
        for number, first in enumerate(range(0, NUM_IMAGES, 13)):
            if number == self.last:
                raise OSError("the disk is gone")
            part = slice(first, first + 13)
            yield grey()[part], labels()[part]


def batches() -> jaxrob.Dataset:
    """The grey images, read in batches."""
    found: Any = jaxrob.Dataset.from_batches(Batches(), NAMES, "blocks")
    return found


@functools.cache
def small_cnn() -> jaxrob.Classifier:
    """The convolution, with four classes."""
    rng = np.random.default_rng(4)
    shapes = {"filters": (3, 3, 3, 6), "weights": (6, 4)}
    parts = {
        name: np.float32(3 * rng.normal(size=shape)) for name, shape in shapes.items()
    }
    return jaxrob.Classifier(convolution, parts)


@functools.cache
def pictures() -> jaxrob.Dataset:
    """The coloured images with random labels, a few of them right."""
    images = coloured()
    answers = small_cnn().log_probabilities(jnp.float32(images) / 255)[0].argmax(-1)
    found = np.array(answers)
    found[::6] = (found[::6] + 1) % 4
    return jaxrob.Dataset(images, found.astype(np.int32))


def _spread(variables: Any, images: jax.Array, keys: jax.Array) -> jax.Array:
    """Returns logits of four noisy samples."""
    logits = linear(variables, images)
    noise = jax.vmap(lambda key: jax.random.normal(key, (4, 3)))(keys)
    return logits + jnp.moveaxis(noise, 1, 0)


@functools.cache
def stochastic() -> jaxrob.Classifier:
    """The linear network with noise, four samples."""
    return jaxrob.Classifier(_spread, variables(), stochastic=True)


@functools.cache
def brightness() -> jaxrob.Alteration:
    """An alteration without randomness."""
    return alterations.brightness(-0.5, 0.5)


@functools.cache
def noise() -> jaxrob.Alteration:
    """An alteration with randomness."""
    return alterations.gaussian_noise(0.0, 0.3)


@functools.cache
def blur() -> jaxrob.Alteration:
    """The alteration of most cases."""
    return alterations.gaussian_blur(0.0, 3.0)


def fade(image: jax.Array, level: jax.Array) -> jax.Array:
    """Moves an image towards a grey."""
    return image + level * (0.4 - image)


def sprinkle(image: jax.Array, level: jax.Array, key: jax.Array) -> jax.Array:
    """Moves an image towards noise."""
    return image + level * (jax.random.uniform(key, image.shape) - image)


@functools.cache
def fading() -> jaxrob.Alteration:
    """A user's own alteration."""
    return jaxrob.Alteration("fading", fade, 0.0, 1.0, unit="share")


@functools.cache
def sprinkling() -> jaxrob.Alteration:
    """A user's own alteration, with randomness."""
    return jaxrob.Alteration("sprinkling", sprinkle, 0.0, 1.0, stochastic=True)


def to_bytes(image: jax.Array) -> jax.Array:
    """Rounds an image as a file of bytes does."""
    return jnp.floor(image * 255) / 255
