"""The batches of an epoch of training."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

# The loss of each image, `[B]`, from images and labels.
Losses = Callable[[jax.Array, jax.Array], jax.Array]


class Batches(NamedTuple):
    """The batches of an epoch: the images that each step reads, and how it uses them.

    Attributes:
      size: images in an epoch.
      draw: `draw(rng)` is called on the host once for each epoch, in order, with a
        NumPy generator seeded by the training's key. It returns arrays `[T, ...]` by
        name, with a row for each of the T = size // batch_size steps. One of them is
        "index" `[T, R]`, the rows of the data set that the step reads.
      make: `make(images, labels, drawn, key, losses)` is traced into the step. It takes
        the R images read (float32), their labels and the step's rows of the other
        arrays, and returns the `batch_size` images and labels to train on.
        `losses(images, labels)` returns each image's loss under the current parameters,
        in evaluation mode.
      description: a text that is the same for the same settings. A checkpoint is only
        resumed by a training with the same description.
    """

    size: int
    draw: Callable[[np.random.Generator], dict[str, np.ndarray]]
    make: Callable[..., tuple[jax.Array, jax.Array]]
    description: str


def every_image(num_images: int) -> Callable[[int], Batches]:
    """Returns a function from a batch size to batches of each image once, shuffled."""

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
