"""What `evaluate` does with a block of images."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type
from jaxrob._classifier import Classifier, trace_info, unnamed
from jaxrob._devices.call import shapes_of, shapes_whole
from jaxrob._devices.mesh import sharded
from jaxrob._engine.checks import check_shape_is_kept
from jaxrob._engine.sizes import (
    images_in_block,
    levels_are_sequential,
    levels_in_step,
    rows_for,
    rows_of_a_level,
)
from jaxrob._engine.step import answering, preparing
from jaxrob.alterations import Alteration
from jaxrob.alterations._fingerprint import fingerprinted_alteration
from jaxrob.steps._step import (
    Step,
    a_key,
    checked_classifier,
    checked_shape,
    checked_size,
    checked_type,
)

# Many levels, of which a step takes as many as it does.
_MANY_LEVELS = 1024


class Evaluation(NamedTuple):
    """The two steps of `jaxrob.evaluate`, and of `jaxrob.assess`.

    Attributes:
      preparation: the part of the alteration that does not depend on the level, once
        for a block of images.
      step: the block altered at a few levels, and classified.
    """

    preparation: Step
    step: Step


def evaluation(
    classifier: Classifier,
    image_shape: tuple[int, ...],
    alteration: Alteration,
    *,
    num_images: int | None = None,
    num_levels: int | None = None,
    dtype: Any = "uint8",
    mesh: Mesh | None = None,
) -> Evaluation:
    """The steps of `jaxrob.evaluate` for a classifier and an alteration.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        found = jaxrob.steps.evaluation(classifier, (28, 28, 1), blur)
        compiled = found.step.lower().compile()
        print(compiled.cost_analysis()["flops"])

    Args:
      classifier: the classifier. Its variables may be shapes.
      image_shape: the shape of one image, `(H, W, C)`.
      alteration: the alteration.
      num_images: images in a block (`batch_size` of `evaluate`), rounded up to a
        multiple of the devices; by default as many as `evaluate` takes of many.
      num_levels: levels in a step; by default as many as `evaluate` takes of many.
      dtype: "uint8" or "float32", the type of the data set's images.
      mesh: devices, along all of whose axes the images are split; by default all of
        this process. They need not be there. Then their memory is taken as 4 GiB. For
        sharded variables, or shapes with such shardings, see `jaxrob.evaluate`.

    Returns:
      An `Evaluation`. The step of `jaxrob.assess` is the same.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a number is below 1, the classifier runs on the host, or the
        alteration or the classifier refuses the images' shape.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    image_shape, dtype = checked_shape(image_shape), checked_type(dtype)
    num_images = checked_size("num_images", num_images)
    num_levels = checked_size("num_levels", num_levels)
    alteration = fingerprinted_alteration(alteration, image_shape)
    check_shape_is_kept(alteration, image_shape)
    classifier, over = checked_classifier(classifier, image_shape, mesh)
    info = trace_info(classifier, image_shape)
    rows = rows_for(classifier, image_shape, over)
    most = rows_of_a_level(rows, image_shape, [num_levels or _MANY_LEVELS], over)
    number = images_in_block(classifier, most, None, num_images, over)
    if num_levels is None:
        about = info, image_shape, rows, number
        num_levels = levels_in_step(*about, _MANY_LEVELS, over)

    split = sharded(over)
    images = jax.ShapeDtypeStruct((number, *image_shape), dtype, sharding=split)
    index = jax.ShapeDtypeStruct((number,), np.uint32, sharding=split)
    placed, key = shapes_whole((unnamed(classifier), a_key()), over)
    before = preparing(images, index, key, alteration, over)
    prepared = shapes_of(before.lower().out_info, split)
    levels = np.linspace(alteration.lower, alteration.upper, num_levels)
    labels = jax.ShapeDtypeStruct((number,), np.int32, sharding=split)
    block = placed, prepared, index, labels, key
    at_levels = answering(*block, levels, num_levels, alteration, over)
    in_turn = levels_are_sequential(image_shape, over)
    at_once = number if in_turn else number * num_levels
    passes = number * num_levels * info.num_samples
    return Evaluation(
        Step(0, 0, over.mesh, before), Step(passes, at_once, over.mesh, at_levels)
    )
