"""What a training does with a batch of images."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh

from jaxrob._arguments.checks import checked_integer, checked_sequence
from jaxrob._dataset import Dataset
from jaxrob._devices.call import Call, shapes_of
from jaxrob._devices.mesh import along_images, mesh_for, replicated
from jaxrob.alterations import Alteration
from jaxrob.retraining._mixture import mixture
from jaxrob.retraining._parts import on_half, originals
from jaxrob.retraining._sizes import input_sizes
from jaxrob.steps._step import Step, checked_shape, checked_type
from jaxrob.training._batches import every_image
from jaxrob.training._checks import check_training
from jaxrob.training._fit import prepared
from jaxrob.training._schedule import make_schedule, remaining_steps
from jaxrob.training._step import (
    num_outputs,
    step_shapes,
)


def training(
    module: Any,
    image_shape: tuple[int, ...],
    *,
    alterations: Sequence[Alteration] = (),
    num_images: int = 10_000,
    batch_size: int = 128,
    optimizer: optax.GradientTransformation | None = None,
    outputs: str = "logits",
    dtype: Any = "uint8",
    mesh: Mesh | None = None,
) -> Step:
    """The step of `jaxrob.training.fit`, or of data augmentation.

    Args:
      module: a Flax Linen or NNX module, see `jaxrob.training.fit`.
      image_shape: the shape of one image, `(H, W, C)`.
      alterations: those of `jaxrob.retraining.data_augmentation`; none is plain
        training.
      num_images: images in the training set. With alterations a step reads an image or
        two more or fewer as it is larger or smaller.
      batch_size: images that a step trains on.
      optimizer: see `jaxrob.training.fit`.
      outputs: what the module returns, see `jaxrob.Classifier`.
      dtype: "uint8" or "float32", the type of the data set's images.
      mesh: see `evaluation`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if `batch_size` is not in 1 ... num_images, or the module or an
        alteration refuses the images' shape.
    """
    image_shape, dtype = checked_shape(image_shape), checked_type(dtype)
    num_images = checked_integer("num_images", num_images, at_least=1)
    what = "alterations", alterations, Alteration, "jaxrob.Alteration"
    alterations = checked_sequence(*what, min_length=0)
    batch_size = checked_integer(
        "batch_size", batch_size, at_least=1, at_most=num_images
    )
    batch = Dataset(np.zeros((batch_size, 1), dtype), np.zeros(batch_size, np.int32))
    key = jax.random.key(0)
    settings = {"batch_size": batch_size, "optimizer": optimizer, "outputs": outputs}
    check_training(module, batch, key, **settings)
    over = along_images(mesh_for(mesh))
    num_outputs(module, image_shape, outputs, key)
    shape = _fewer(num_images, batch_size), *image_shape
    batches = every_image(shape[0])
    if alterations:
        batches = mixture(originals(shape) + on_half(shape, alterations, key))
    shown = batches(batch_size)
    size = input_sizes(num_images, alterations, ())["DA"]
    schedule = make_schedule(size, batch_size, None, None)
    given = module, outputs, shown, schedule, optimizer, key, over
    _, begin, step, rng = prepared(*given)
    state = jax.eval_shape(begin, jax.ShapeDtypeStruct((1, *image_shape), dtype))
    state = shapes_of(state, replicated(over))
    planned = next(remaining_steps(shown, schedule, rng, 0))
    inputs = step_shapes(shape, dtype, planned, over)
    return Step(batch_size, batch_size, over.mesh, Call(step, (state, *inputs)))


def _fewer(num_images: int, batch_size: int) -> int:
    """A number of images for whose batches a step reads as many of each part.

    Half of the images are copied two or four times. So originals and copies take turns
    in a fixed order, which changes only once, halfway, if the number is odd. As many
    images as eight batches hold show that order at all its places in a batch, and as
    many more move the middle and the end by whole batches.
    """
    period = 8 * batch_size
    return min(num_images, period + num_images % period)
