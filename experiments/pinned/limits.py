"""Images with a known level up to which a network is right."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import strategies
from pinned import world

NUM_IMAGES = 900


@functools.cache
def dataset() -> jaxrob.Dataset:
    """One pixel each for the limit, the level, and the label."""
    order = np.random.default_rng(3).permutation(NUM_IMAGES)
    labels = np.random.default_rng(4).integers(0, 2, NUM_IMAGES)
    limits = (order + 0.5) / NUM_IMAGES * 4 / 3
    pixel = np.stack([limits / 2, np.zeros(NUM_IMAGES), labels], axis=-1)
    return jaxrob.Dataset(np.float32(pixel)[:, None, None], labels)


def _right_below(share: jax.Array, images: jax.Array) -> jax.Array:
    limit, level, label = (images[:, 0, 0, i] for i in range(3))
    limit = 2 * share * limit
    certain = 8 * jnp.clip(jnp.abs(limit - level), 0, 1)
    answer = jnp.where(limit > level, label, 1 - label).astype(int)
    return certain[:, None] * jax.nn.one_hot(answer, 2)


@functools.cache
def classifier(share: float = 1.0) -> jaxrob.Classifier:
    """Right at levels below this share of each image's limit."""
    return jaxrob.Classifier(_right_below, np.float32(share))


def _dimmed(image: jax.Array, level: jax.Array) -> jax.Array:
    return image.at[..., 1].set(level)


def _lifted(image: jax.Array, level: jax.Array) -> jax.Array:
    return image.at[..., 1].set(level / 3)


dim = jaxrob.Alteration("dim", _dimmed, 0.0, 1.0)
lift = jaxrob.Alteration("lift", _lifted, 0.0, 2.0)


def few(**asked: Any) -> strategies.FewImages:
    """The search of `assessed` by few images."""
    return strategies.FewImages(strategies.ASAP(256), **asked)


def assessed(alteration: Any = dim, data: Any = None, **settings: Any) -> Any:
    """The robustness to an alteration or several."""
    settings = {
        "classifier": classifier(),
        "threshold": 0.7,
        "key": world.KEY,
        "strategy": strategies.ASAP(256),
    } | settings
    return jaxrob.assess(dataset=data or dataset(), alteration=alteration, **settings)
