"""The compiled steps of `jaxrob.evaluate`, of devices that need not be there."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_integer,
    checked_integers,
)
from jaxrob._arguments.messages import classifier_wanted
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import on_host
from jaxrob._classifiers.trace import fingerprinted_classifier, trace_info, unnamed
from jaxrob._devices.blocks import Call, shapes_of, shapes_whole
from jaxrob._devices.mesh import mesh_for, sharded
from jaxrob._engine.blocks import Block, PlacedBlock
from jaxrob._engine.execution import (
    check_split_network,
    images_in_block,
    levels_in_step,
    rows_for,
    rows_of_a_level,
)
from jaxrob._engine.preflight import check_shape_is_kept
from jaxrob._engine.step import Ask, Compiled, levels_are_sequential, preparing
from jaxrob.alterations import Alteration
from jaxrob.alterations._moves import fingerprinted_alteration

__all__ = ("Evaluation", "Step", "evaluation")


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """A step of the library, as `jax.jit` compiles it, with the shapes that it takes.

    Attributes:
      passes: images that the network classifies in it, each once for each of S samples.
      rows: those that all devices classify at once: on a CPU and most TPUs one level's.
      mesh: the devices that it is for.
    """

    passes: int
    rows: int
    mesh: Mesh
    _call: Call = dataclasses.field(repr=False)

    @property
    def args(self) -> tuple[Any, ...]:
        """Pytrees of `jax.ShapeDtypeStruct`; levels are NumPy arrays with values."""
        return self._call.args

    def lower(self) -> jax.stages.Lowered:
        """The program, which has a `cost_analysis()` once it is compiled."""
        return self._call.lower()


class Evaluation(NamedTuple):
    """The two steps of `jaxrob.evaluate`, and of `jaxrob.assess`.

    Attributes:
      preparation: what does not depend on the level, once for a block of images.
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

    They are those of long runs. In a run of seconds, or with a large network, a CPU
    alters images in a program apart, so that all alterations share the network's.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        found = jaxrob.steps.evaluation(classifier, (28, 28, 1), blur)
        print(found.step.lower().compile().cost_analysis()["flops"])

    Args:
      classifier: the classifier. Its variables may be shapes.
      image_shape: the shape of one image, `(H, W, C)`.
      alteration: the alteration.
      num_images: images in a block (`batch_size` of `evaluate`), rounded up to a
        multiple of the devices; by default as many as `evaluate` takes of many.
      num_levels: levels in a step; by default as many as `evaluate` takes of many.
      dtype: "uint8" or "float32", the type of the data set's images.
      mesh: see `jaxrob.evaluate`. The memory of devices that are not there is taken as
        4 GiB.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a number is below 1, the classifier runs on the host, or the
        alteration or the classifier refuses the images' shape.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    image_shape = checked_integers("image_shape", image_shape, at_least=1)
    for name, number in (("num_images", num_images), ("num_levels", num_levels)):
        if number is not None:
            checked_integer(name, number, at_least=1)
    dtype = np.dtype(dtype).name if isinstance(dtype, type | np.dtype) else dtype
    check_choice("dtype", dtype, ("uint8", "float32"))
    if on_host(classifier.apply_fn) is not None:
        raise ValueError(
            "classifier must run on the devices; got a network on the host"
        )
    alteration = fingerprinted_alteration(alteration, image_shape)
    check_shape_is_kept(alteration, image_shape)
    over = mesh_for(mesh, classifier.variables)
    classifier = fingerprinted_classifier(classifier, image_shape)
    check_split_network(classifier, image_shape, over)
    info = trace_info(classifier, image_shape)
    rows = rows_for(classifier, image_shape, over)
    most = rows_of_a_level(rows, info, image_shape, [num_levels or 1024], over)
    number = images_in_block(classifier, most, None, num_images, over)
    if num_levels is None:
        num_levels = levels_in_step(info, image_shape, rows, number, 1024, over)

    split = sharded(over)

    def rows_of(shape: tuple[int, ...], dtype: Any) -> Any:
        return jax.ShapeDtypeStruct((number, *shape), np.dtype(dtype), sharding=split)

    images, index = rows_of(image_shape, dtype), rows_of((), np.uint32)
    labels = rows_of((), np.int32)
    key = jax.eval_shape(jax.random.key, 0)
    placed, key = shapes_whole((unnamed(classifier), key), over)
    before = preparing(images, index, key, alteration, over)
    prepared = shapes_of(before.lower().out_info, split)
    levels = np.linspace(alteration.lower, alteration.upper, num_levels)
    block = PlacedBlock(Block(np.zeros(0), 0), images, index, labels)
    ask = Ask(block, prepared, alteration, levels, num_levels)
    step = Compiled(placed, key, over).call(ask)
    levels_at_once = 1 if levels_are_sequential(image_shape, over) else num_levels
    passes = number * num_levels * info.num_samples
    return Evaluation(
        Step(0, 0, over.mesh, before),
        Step(passes, number * levels_at_once, over.mesh, step),
    )
