"""What an epoch of training shows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

# The loss of each image, `[B]`, from images and labels.
Losses = Callable[[jax.Array, jax.Array], jax.Array]


class Batches(NamedTuple):
    """The batches of an epoch: which images each step reads, and what it makes of them.

    Attributes:
      size: images in an epoch.
      draw: `draw(rng)` is called on the host once for each epoch in turn, with a NumPy
        generator that the training's key started. It returns arrays `[T, ...]` by name,
        what each of T = size // batch_size steps needs. One of them is "index"
        `[T, R]`, the rows of the data set that the step reads.
      make: `make(images, labels, drawn, key, losses)` is traced into the step. It takes
        the R images read (float32), their labels and the step's rows of the other
        arrays, and returns the `batch_size` images and labels that are trained on.
        `losses(images, labels)` gives each image's loss under the parameters so far, in
        evaluation mode.
      description: what the batches are, as text that the same settings repeat. A
        checkpoint is only resumed by a training of the same description.
    """

    size: int
    draw: Callable[[np.random.Generator], dict[str, np.ndarray]]
    make: Callable[..., tuple[jax.Array, jax.Array]]
    description: str


def every_image(num_images: int) -> Callable[[int], Batches]:
    """From the batch size to batches of every image once, in random order, as it is."""

    def batches(batch_size: int) -> Batches:
        steps = num_images // batch_size

        def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
            index = rng.permutation(num_images)[: steps * batch_size]
            return {"index": index.reshape(steps, batch_size)}

        return Batches(num_images, draw, _as_read, "images as they are")

    return batches


def _as_read(
    images: jax.Array, labels: jax.Array, *_: Any
) -> tuple[jax.Array, jax.Array]:
    return images, labels
