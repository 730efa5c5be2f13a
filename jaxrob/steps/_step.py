"""A compiled step that is looked at, and checks of what all steps take."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._adapters.on_host import on_host
from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_integer,
    checked_integers,
)
from jaxrob._arguments.wrapping import classifier_wanted
from jaxrob._classifier import Classifier
from jaxrob._devices.call import Call
from jaxrob._devices.mesh import ImageMesh, mesh_for
from jaxrob._engine.split_network import check_split_network
from jaxrob._fingerprint import fingerprinted_classifier

_TYPES = ("uint8", "float32")


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """A step of the library, as `jax.jit` compiles it, with the shapes that it takes.

    Attributes:
      passes: images that the network classifies in it, each counted once for each of
        S samples; 0 if there is no network in it. Of a training step, images that it
        trains on.
      rows: images that are classified at once, by all devices together. On a CPU and
        most TPUs a step takes its levels one after the other, so it is less than
        `passes`.
      mesh: the devices that it is for.
    """

    passes: int
    rows: int
    mesh: Mesh
    _call: Call = dataclasses.field(repr=False)

    @property
    def args(self) -> tuple[Any, ...]:
        """What it takes: pytrees of `jax.ShapeDtypeStruct`.

        What the host hands over with each step, such as levels, are NumPy arrays with
        their values.
        """
        return self._call.args

    def lower(self) -> jax.stages.Lowered:
        """The program for the devices of the mesh, which need not be there.

        `lower().compile()` is what the library runs. It has a `cost_analysis()` and a
        `memory_analysis()`, and on devices that are there it can be called.
        """
        return self._call.lower()


def checked_classifier(
    classifier: Any, image_shape: tuple[int, ...], mesh: Any
) -> tuple[Classifier, ImageMesh]:
    """The classifier, fingerprinted, and the mesh, whose devices need not be there.

    Raises:
      TypeError: if they are none.
      ValueError: if the classifier runs on the host or does not take images of this
        shape, or its variables are sharded over another mesh.
    """
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    if on_host(classifier.apply_fn) is not None:
        raise ValueError(
            "classifier must run on the devices, because a network on the host "
            "(from_torch, from_onnx, from_keras, from_host) is no part of a step"
        )
    over = mesh_for(mesh, classifier.variables)
    classifier = fingerprinted_classifier(classifier, image_shape)
    check_split_network(classifier, image_shape, over)
    return classifier, over


def checked_shape(image_shape: Any) -> tuple[int, ...]:
    """The shape of one image.

    Raises:
      TypeError: if it is no sequence of integers.
      ValueError: if one is below 1.
    """
    return checked_integers("image_shape", image_shape, at_least=1)


def checked_type(dtype: Any) -> np.dtype:
    """The type of images, by its name or as NumPy has it.

    Raises:
      ValueError: if it is neither uint8 nor float32.
    """
    name = np.dtype(dtype).name if isinstance(dtype, type | np.dtype) else dtype
    check_choice("dtype", name, _TYPES)
    return np.dtype(name)


def checked_size(name: str, number: Any) -> int | None:
    """A number of images or levels, at least 1, or None for what the library takes.

    Raises:
      TypeError: if it is no integer.
      ValueError: if it is below 1.
    """
    return None if number is None else checked_integer(name, number, at_least=1)


def a_key() -> Any:
    """The shape of a random key."""
    return jax.eval_shape(jax.random.key, 0)
