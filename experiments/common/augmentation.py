"""The usual augmentation of photographs for training: mirrored and shifted."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob import training


def mirrored_and_shifted(
    num_images: int, pixels: int = 4
) -> Callable[[int], training.Batches]:
    """Batches of `jaxrob.training.fit`: images once an epoch, altered at random."""

    def batches(batch_size: int) -> training.Batches:
        steps = num_images // batch_size

        def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
            index = rng.permutation(num_images)[: steps * batch_size]
            return {"index": index.reshape(steps, batch_size)}

        def make(
            images: jax.Array,
            labels: jax.Array,
            drawn: dict[str, jax.Array],
            key: jax.Array,
            losses: training.Losses,
        ) -> tuple[jax.Array, jax.Array]:
            del drawn, losses
            mirror_key, shift_key = jax.random.split(key)
            mirrored = jax.random.bernoulli(mirror_key, shape=(len(images), 1, 1, 1))
            images = jnp.where(mirrored, images[:, :, ::-1], images)
            shifts = jax.random.randint(shift_key, (len(images), 2), 0, 2 * pixels + 1)
            return _shifted(images, shifts, pixels), labels

        description = f"images mirrored, and shifted by up to {pixels} pixels"
        return training.Batches(num_images, draw, make, description)

    return batches


def _shifted(images: jax.Array, shifts: jax.Array, pixels: int) -> jax.Array:
    """Crops each image at its `shifts`, `[B, 2]`, into the padded image."""
    border = (pixels, pixels)
    padded = jnp.pad(images, ((0, 0), border, border, (0, 0)), mode="edge")

    def window(image: jax.Array, shift: jax.Array) -> Any:
        start = (shift[0], shift[1], 0)
        return jax.lax.dynamic_slice(image, start, images.shape[1:])

    return jax.vmap(window)(padded, shifts)
