"""Whether a classifier, data, an alteration and a key go together."""

import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._classifier import Classifier, trace_info
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.answers import INVALID
from jaxrob._runtime.checks import (
    check_type,
    checked_flag,
    checked_integer,
    checked_path,
)
from jaxrob._runtime.keys import check_key
from jaxrob._runtime.pixels import as_floats
from jaxrob.alterations import Alteration


def check_types(classifier: Any, dataset: Any, alteration: Any) -> None:
    """Refuses what is no classifier, no data set or no alteration.

    Raises:
      TypeError: if one of them has another type.
    """
    check_type("classifier", classifier, Classifier, "a jaxrob.Classifier")
    wanted = "a jaxrob.Dataset"
    if isinstance(dataset, np.ndarray | jax.Array):
        wanted += ": say jaxrob.Dataset(images, labels)"
    check_type("dataset", dataset, Dataset | BatchedDataset, wanted)
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")


def check_execution(
    key: Any, batch_size: Any, reduced: Any, journal: Any, progress: Any
) -> pathlib.Path | None:
    """Refuses what does not say how levels are evaluated; returns the journal's path.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if the key is not a single one, the batch size below 1 or the path
        empty.
    """
    if key is not None:
        check_key("key", key)
    if batch_size is not None:
        checked_integer("batch_size", batch_size, at_least=1)
    checked_flag("reduced", reduced)
    checked_flag("progress", progress)
    return None if journal is None else checked_path("journal", journal)


def first_look(dataset: Dataset | BatchedDataset) -> tuple[np.ndarray, int | None]:
    """The first image, and the number of images where it is known."""
    if isinstance(dataset, Dataset):
        return np.asarray(dataset.images[0]), len(dataset)
    return np.asarray(next(dataset.batches()).images[0]), None


def check_together(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration,
    image: np.ndarray,
    key: jax.Array | None,
) -> None:
    """Refuses a classifier, data, an alteration and a key that do not go together.

    Args:
      classifier: the classifier.
      dataset: the data; only its name and its class names are looked at.
      alteration: the alteration.
      image: the first image of the data.
      key: the random key, or None.

    Raises:
      ValueError: if a key is missing, the alteration or the classifier refuses the
        image's shape, the alteration changes the image at its identity, or the data
        have another number of classes than the classifier.
    """
    if key is None and (alteration.stochastic or classifier.stochastic):
        what = alteration.name if alteration.stochastic else "the classifier"
        raise ValueError(
            f"{what} is stochastic and needs a key, such as key=jax.random.key(0); got "
            "key=None"
        )
    _check_shape_is_kept(alteration, image.shape)
    _check_identity(alteration, image)
    num_classes = trace_info(classifier, image.shape).num_classes
    names = dataset.class_names
    if names is not None and len(names) != num_classes:
        raise ValueError(
            f"the classifier returns {num_classes} classes, but {dataset.name} has "
            f"{len(names)}: {', '.join(names[:10])}"
        )


def check_valid(
    predicted: np.ndarray,
    levels: np.ndarray,
    classifier: Classifier,
    alteration: Alteration,
) -> None:
    """Refuses answers for images at which the classifier returned no distribution.

    Args:
      predicted: integers `[l, n]`, the predicted classes of a block of images.
      levels: `[l]`.
      classifier: the classifier that predicted them.
      alteration: the alteration of the images.

    Raises:
      ValueError: if one is `INVALID`; the message names the first such level.
    """
    if predicted.min() != INVALID:
        return
    invalid = predicted == INVALID
    level = levels[invalid.any(axis=1)][0]
    what = {
        "probabilities": "NaN, or rows that are no probabilities with a sum of 1,",
        "sigmoid": "NaN, or activations outside [0, 1],",
    }.get(classifier.outputs, "NaN")
    raise ValueError(
        f"the classifier returned {what} for {invalid.any(axis=0).sum()} of "
        f"{predicted.shape[1]} images in a block, first at level {level:g} of "
        f"{alteration.name} (which may have made them NaN)"
    )


@functools.lru_cache(maxsize=256)
def _check_shape_is_kept(alteration: Alteration, image_shape: tuple[int, ...]) -> None:
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    level = jax.ShapeDtypeStruct((), jnp.float32)
    altered = jax.eval_shape(alteration, image, level, jax.random.key(0))
    if getattr(altered, "shape", None) != image_shape:
        raise ValueError(
            f"{alteration.name} must return an array of the image's shape "
            f"{image_shape}; got {altered}"
        )


def _check_identity(alteration: Alteration, image: np.ndarray) -> None:
    """Refuses an alteration that changes the image at its own identity."""
    level = np.float32(alteration.identity)
    change = float(_largest_change(image, level, alteration=alteration))
    if change != 0:
        raise ValueError(
            f"{alteration.name} must return the image unchanged at its identity, level "
            f"{alteration.identity:g}; there, values change by up to {change:g}"
        )


@functools.partial(jax.jit, static_argnames="alteration")
def _largest_change(
    image: jax.Array, level: jax.Array, *, alteration: Alteration
) -> jax.Array:
    image = as_floats(image)
    return jnp.abs(alteration(image, level, jax.random.key(0)) - image).max()
