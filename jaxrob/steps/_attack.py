"""What L-BFGS does with a block of images."""

import math

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._classifier import Classifier, gradient_obstacle, trace_info
from jaxrob._devices.call import shapes_of, shapes_whole
from jaxrob._devices.mesh import sharded
from jaxrob.adversarial._blocks import rows_in_block
from jaxrob.adversarial._lbfgs import LIVE_IMAGES, evaluating
from jaxrob.steps._step import (
    Step,
    a_key,
    checked_classifier,
    checked_shape,
    checked_size,
)


def attack(
    classifier: Classifier,
    image_shape: tuple[int, ...],
    *,
    num_images: int | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
) -> Step:
    """The step of `jaxrob.adversarial.lbfgs`: an evaluation of each image's search.

    An evaluation is the classifier's gradient and what follows from it: the search's
    next trial. A search takes a few hundred.

    Args:
      classifier: a differentiable classifier. Its variables may be shapes.
      image_shape: the shape of one image, `(H, W, C)`.
      num_images: the images in all; by default one full block.
      batch_size: images attacked at a time, see `lbfgs`.
      mesh: see `evaluation`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if `image_shape` has not three axes, a number is below 1, or the
        classifier runs on the host, is not differentiable or refuses the images' shape.
    """
    image_shape = checked_shape(image_shape)
    if len(image_shape) != 3:
        raise ValueError(
            "image_shape must be (H, W, C), because an attack needs the range [0, 1]; "
            f"got {image_shape}"
        )
    num_images = checked_size("num_images", num_images)
    batch_size = checked_size("batch_size", batch_size)
    classifier, over = checked_classifier(classifier, image_shape, mesh)
    if (obstacle := gradient_obstacle(classifier, image_shape)) is not None:
        raise ValueError(
            "classifier must be differentiable in its images, because an attack "
            f"follows gradients: {obstacle}"
        )
    info = trace_info(classifier, image_shape)
    sizes = info.largest_array, math.prod(image_shape), LIVE_IMAGES
    rows = rows_in_block(num_images, batch_size, *sizes, over)
    split = sharded(over)
    images = jax.ShapeDtypeStruct((rows, *image_shape), np.float32, sharding=split)
    targets = jax.ShapeDtypeStruct((rows,), np.int32, sharding=split)
    keys = None
    if classifier.stochastic:
        keys = jax.eval_shape(lambda key: jax.random.split(key, rows), a_key())
        keys = shapes_of(keys, split)
    shared = shapes_whole(classifier, over), np.float32(0.51)
    call = evaluating(shared, (images, targets, keys), over)
    return Step(rows * info.num_samples, rows, over.mesh, call)
