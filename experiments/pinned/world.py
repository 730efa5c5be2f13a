"""The small networks, images and alterations of the cases, drawn by NumPy."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import alterations, strategies

KEY = jax.random.key(7)
NAMES = ("ape", "bee", "cat")
NUM_IMAGES = 60
# Without randomness, and with it.
BLUR = alterations.gaussian_blur(0.0, 3.0)
NOISE = alterations.gaussian_noise(0.0, 0.3)


def linear(variables: dict[str, Any], images: jax.Array) -> jax.Array:
    flat = images.reshape(len(images), -1)
    return flat @ variables["weights"] + variables["bias"]


def variables(seed: int = 3) -> dict[str, np.ndarray]:
    """Those of the linear network."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(64, 3))
    # The mean image is on the boundary, so that all classes occur.
    bias = -0.5 * weights.sum(axis=0) + rng.normal(size=3) / 10
    return {"weights": np.float32(weights), "bias": np.float32(bias)}


@functools.cache
def classifier(seed: int = 3) -> jaxrob.Classifier:
    return jaxrob.Classifier(linear, variables(seed), name=f"linear {seed}")


def on_host(images: np.ndarray) -> np.ndarray:
    """The linear network's logits, by NumPy."""
    parts = variables()
    return images.reshape(len(images), -1) @ parts["weights"] + parts["bias"]


def _labels() -> np.ndarray:
    """The linear network's answers, except for every eighth image."""
    parts = variables()
    flat = np.float64(GREY).reshape(NUM_IMAGES, -1)
    found = (flat @ np.float64(parts["weights"]) + parts["bias"]).argmax(axis=1)
    found[::8] = (found[::8] + 1) % 3
    return found.astype(np.int32)


# Float32 `[60, 8, 8, 1]`.
GREY = np.random.default_rng(1).random((NUM_IMAGES, 4, 4, 1), np.float32)
GREY = GREY.repeat(2, axis=1).repeat(2, axis=2)
LABELS = _labels()
DATASET = jaxrob.Dataset(GREY, LABELS, NAMES, "blocks")


class Batches:
    """The grey images in batches; fails after `last` of them, if it is set."""

    last: int | None = None

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Iterates from the first batch each time."""
        for number, first in enumerate(range(0, NUM_IMAGES, 13)):
            if number == self.last:
                raise OSError("the disk is gone")
            yield GREY[first : first + 13], LABELS[first : first + 13]


def in_batches(batches: Any = None) -> Any:
    return jaxrob.Dataset.from_batches(batches or Batches(), NAMES, "blocks")


def _spread(variables: Any, images: jax.Array, keys: jax.Array) -> jax.Array:
    """Logits of four noisy samples."""
    logits = linear(variables, images)
    noise = jax.vmap(lambda key: jax.random.normal(key, (4, 3)))(keys)
    return logits + jnp.moveaxis(noise, 1, 0)


STOCHASTIC = jaxrob.Classifier(_spread, variables(), stochastic=True)


@functools.cache
def coloured(size: int = 16) -> np.ndarray:
    """Bytes `[24, size, size, 3]`."""
    smooth = np.random.default_rng(2).integers(0, 256, (24, 4, 4, 3), np.uint8)
    return smooth.repeat(size // 4, axis=1).repeat(size // 4, axis=2)


def convolution(variables: dict[str, Any], images: jax.Array) -> jax.Array:
    layout = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(
        images - 0.5, variables["filters"], (2, 2), "SAME", dimension_numbers=layout
    )
    return jax.nn.relu(x).mean((1, 2)) @ variables["weights"]


@functools.cache
def small_cnn() -> jaxrob.Classifier:
    rng = np.random.default_rng(4)
    shapes = {"filters": (3, 3, 3, 6), "weights": (6, 4)}
    parts = {
        name: np.float32(3 * rng.normal(size=shape)) for name, shape in shapes.items()
    }
    return jaxrob.Classifier(convolution, parts)


@functools.cache
def pictures() -> jaxrob.Dataset:
    """The coloured images, with the convolution's answers but for every sixth."""
    images = coloured()
    answers = small_cnn().log_probabilities(jnp.float32(images) / 255)[0].argmax(-1)
    found = np.array(answers)
    found[::6] = (found[::6] + 1) % 4
    return jaxrob.Dataset(images, found.astype(np.int32))


def fade(image: jax.Array, level: jax.Array) -> jax.Array:
    """Moves an image towards a grey."""
    return image + level * (0.4 - image)


def sprinkle(image: jax.Array, level: jax.Array, key: jax.Array) -> jax.Array:
    """Moves an image towards noise."""
    return image + level * (jax.random.uniform(key, image.shape) - image)


def to_bytes(image: jax.Array) -> jax.Array:
    """Rounds an image as a file of bytes does."""
    return jnp.floor(image * 255) / 255


# A user's own.
FADING = jaxrob.Alteration("fading", fade, 0.0, 1.0, unit="share")
SPRINKLING = jaxrob.Alteration("sprinkling", sprinkle, 0.0, 1.0, stochastic=True)


def evaluated(one: jaxrob.Alteration, levels: Any = 4, **given: Any) -> Any:
    """The curve of the linear network and the grey images, unless others are given."""
    if isinstance(levels, int):
        levels = np.linspace(one.lower, one.upper, levels)
    given = {"classifier": classifier(), "dataset": DATASET} | given
    return jaxrob.evaluate(alteration=one, levels=levels, **given)


def assessed(alteration: Any = BLUR, **given: Any) -> Any:
    """Those' robustness to an alteration or several."""
    given = {
        "classifier": classifier(),
        "dataset": DATASET,
        "threshold": 0.7,
        "key": KEY,
        "strategy": strategies.Uniform(5),
    } | given
    return jaxrob.assess(alteration=alteration, **given)


# Images with a known level up to which a network is right: a pixel each for the limit,
# the level and the label.
NUM_LIMITED = 900


@functools.cache
def limited() -> jaxrob.Dataset:
    order = np.random.default_rng(3).permutation(NUM_LIMITED)
    labels = np.random.default_rng(4).integers(0, 2, NUM_LIMITED)
    limits = (order + 0.5) / NUM_LIMITED * 4 / 3
    pixel = np.stack([limits / 2, np.zeros(NUM_LIMITED), labels], axis=-1)
    return jaxrob.Dataset(np.float32(pixel)[:, None, None], labels)


def _right_below(share: jax.Array, images: jax.Array) -> jax.Array:
    limit, level, label = (images[:, 0, 0, i] for i in range(3))
    limit = 2 * share * limit
    certain = 8 * jnp.clip(jnp.abs(limit - level), 0, 1)
    answer = jnp.where(limit > level, label, 1 - label).astype(int)
    return certain[:, None] * jax.nn.one_hot(answer, 2)


@functools.cache
def right_below(share: float = 1.0) -> jaxrob.Classifier:
    """Right at levels below this share of each image's limit."""
    return jaxrob.Classifier(_right_below, np.float32(share))


def _dimmed(image: jax.Array, level: jax.Array) -> jax.Array:
    return image.at[..., 1].set(level)


def _lifted(image: jax.Array, level: jax.Array) -> jax.Array:
    return image.at[..., 1].set(level / 3)


DIM = jaxrob.Alteration("dim", _dimmed, 0.0, 1.0)
LIFT = jaxrob.Alteration("lift", _lifted, 0.0, 2.0)


def few(**asked: Any) -> strategies.FewImages:
    """The search of `searched`, by few images."""
    return strategies.FewImages(strategies.ASAP(256), **asked)


def searched(alteration: Any = DIM, **given: Any) -> Any:
    """The robustness of the images with a limit, to an alteration or several."""
    usual = {"classifier": right_below(), "dataset": limited()}
    usual |= {"strategy": strategies.ASAP(256)}
    return assessed(alteration, **usual | given)
