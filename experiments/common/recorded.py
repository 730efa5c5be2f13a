"""Recorded answers as a classifier, which makes assessments of them immediate.

Right answers were recorded at evenly spaced levels. An image of the stand-in
data set holds its number alone, an alteration writes the level into it, and the
classifier looks up whether that answer was right.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob


class Recorded(NamedTuple):
    """Arguments of `jaxrob.assess`, valid at the recorded levels alone."""

    classifier: jaxrob.Classifier  # looks answers up
    dataset: jaxrob.Dataset  # N images
    alteration: jaxrob.Alteration  # its range is [0, 1]


def recorded(name: str, right: np.ndarray, identity: float = 0.0) -> Recorded:
    """Returns recorded answers as arguments of `jaxrob.assess`."""
    num_images = right.shape[1]
    images = np.zeros((num_images, 1, 1, 2), np.float32)
    images[:, 0, 0, 0] = np.arange(num_images) / num_images
    images[:, 0, 0, 1] = identity
    dataset = jaxrob.Dataset(images, np.arange(num_images) % 2, name="recorded answers")
    classifier = jaxrob.Classifier(
        functools.partial(_answers, num_images=num_images),
        jnp.asarray(np.packbits(right, axis=1)),
    )
    return Recorded(
        classifier, dataset, jaxrob.Alteration(name, _with_level, 0.0, 1.0, identity)
    )


def _with_level(image: jax.Array, level: jax.Array) -> jax.Array:
    return image.at[0, 0, 1].set(level)


def _answers(table: jax.Array, images: jax.Array, *, num_images: int) -> jax.Array:
    index = jnp.round(images[:, 0, 0, 0] * num_images).astype(int)
    step = jnp.round(images[:, 0, 0, 1] * (len(table) - 1)).astype(int)
    right = (table[step, index // 8] >> (7 - index % 8).astype(jnp.uint8)) & 1
    label = index % 2
    answer = jnp.where(right == 1, label, 1 - label)
    return 8 * jax.nn.one_hot(answer, 2)
