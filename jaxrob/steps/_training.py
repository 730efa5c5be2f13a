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
from jaxrob._devices.mesh import along_images, replicated
from jaxrob._keys import host_generator
from jaxrob._pixels import as_floats
from jaxrob.alterations import Alteration
from jaxrob.retraining._mixture import mixture
from jaxrob.retraining._parts import on_half, originals
from jaxrob.steps._step import Step, checked_devices, checked_shape, checked_type
from jaxrob.training._batches import every_image
from jaxrob.training._checks import check_training
from jaxrob.training._network import network_of
from jaxrob.training._schedule import make_schedule, remaining_steps, usual_optimizer
from jaxrob.training._step import (
    TrainingState,
    compiled_step,
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
    # One pixel and one label, over and over.
    images = np.broadcast_to(np.zeros((), dtype), (num_images, *image_shape))
    dataset = Dataset(images, np.zeros(num_images, np.int32))
    key = jax.random.key(0)
    settings = {"batch_size": batch_size, "optimizer": optimizer, "outputs": outputs}
    check_training(module, dataset, key, **settings)
    mesh = along_images(checked_devices(mesh))
    num_outputs(module, image_shape, outputs, key)
    batches = every_image(num_images)
    if alterations:
        batches = mixture(originals(dataset) + on_half(dataset, alterations, key))
    shown = batches(batch_size)
    schedule = make_schedule(shown.size, batch_size, None, None)
    optimizer = optimizer or usual_optimizer(schedule)
    network = network_of(module)

    def begun(key: jax.Array) -> TrainingState:
        params, others = network.start(key, as_floats(images[:1]))
        return TrainingState(params, others, optimizer.init(params))

    state = shapes_of(jax.eval_shape(begun, key), replicated(mesh))
    _, order_key, dropout_key = jax.random.split(key, 3)
    how = shown.make, order_key, dropout_key, mesh
    step = compiled_step(network, outputs, optimizer, *how)
    planned = next(remaining_steps(shown, schedule, host_generator(order_key), 0))
    given = step_shapes(dataset, planned, mesh)
    return Step(batch_size, batch_size, mesh, Call(step, (state, *given)))
