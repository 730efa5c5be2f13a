"""The preflight: arguments that do not go together, before anything is computed."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.messages import TO_RENUMBER, looks_channels_first
from jaxrob._arguments.texts import collected, counted, warn
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.trace import trace_info
from jaxrob._dataset import BatchedDataset, Dataset, value_doubt
from jaxrob._devices.mesh import checked_mesh
from jaxrob._domain import AnyAlteration, members
from jaxrob._engine.blocks import must_be_read
from jaxrob._identity.identity import Fingerprinted, is_identifiable
from jaxrob._numbers import as_floats
from jaxrob.alterations import Alteration
from jaxrob.alterations._alteration import doubts
from jaxrob.alterations._recorded import Recorded, paired

# Pixels outside [0, 1] by at most this much are rounding.
_ROUNDING = 1e-4


def preflight(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alterations: Sequence[AnyAlteration],
    image: np.ndarray,
    key: jax.Array | None,
) -> list[list[str]]:
    """Rejects what does not go together; returns the warnings of each alteration."""
    if key is None:
        what = [one.name for one in alterations if one.stochastic]
        what += ["the classifier"] * classifier.stochastic
        if what:
            raise ValueError(
                f"{what[0]} is stochastic and needs a key, such as "
                "key=jax.random.key(0); got key=None"
            )
    _check_images(dataset, image.shape)
    each = []
    for alteration in alterations:
        with collected() as messages:
            is_recorded = isinstance(paired(alteration, dataset), Recorded)
            for one in () if is_recorded else members(alteration):
                for doubt in doubts(one, image.shape):
                    warn(doubt)
                check_shape_is_kept(one, image.shape)
                _check_values(one, image)
        each.append(messages)
    num_classes = trace_info(classifier, image.shape).num_classes
    if classifier.outputs != "any":
        check_class_names(classifier, dataset, num_classes)
    return each


def check_class_names(
    classifier: Classifier, dataset: Dataset | BatchedDataset, num_classes: int
) -> None:
    """Rejects class names of another number than the classes, or that contradict."""
    own, names = classifier.class_names, dataset.class_names
    for what, found in (("it", own), (dataset.name, names)):
        if found is not None and len(found) != num_classes:
            # Surplus names usually mean a surplus class folder.
            more = ", ".join(map(repr, found[num_classes : num_classes + 10]))
            raise ValueError(
                f"the classifier returns {num_classes} classes, but {what} has "
                f"{counted(len(found), 'class name')}: {', '.join(found[:10])}"
                f"{more and f', so that it has no output for {more}'}. Say "
                "class_names=..., all of the network's classes in order, or take away "
                "the folders of others; or, if they are not its classes, labels=None"
            )
    if own is None or names is None or own == names:
        return
    index = next(i for i, pair in enumerate(zip(own, names)) if pair[0] != pair[1])
    how = "Their order differs" if sorted(own) == sorted(names) else "They differ"
    raise ValueError(
        f"class_names of the classifier and of {dataset.name} must be the same, in one "
        f"order; class {index} is {own[index]!r} and {names[index]!r}. {how}: number "
        "the labels as the network does, pictures in folders by jaxrob.data."
        f"image_folder(path, class_names=classifier.class_names). {TO_RENUMBER}"
    )


@functools.lru_cache(maxsize=256)
def check_shape_is_kept(alteration: Alteration, image_shape: tuple[int, ...]) -> None:
    """Rejects a fingerprinted alteration that changes the shape of an image."""
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    level = jax.ShapeDtypeStruct((), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    # On the mesh that the step is made for, forms for other platforms are not traced.
    with jax.set_mesh(checked_mesh(None).mesh):
        altered = jax.eval_shape(alteration, image, level, key)
    if getattr(altered, "shape", None) != image_shape:
        raise ValueError(
            f"{alteration.name} must return an array of the image's shape "
            f"{image_shape}; got {altered}"
        )


def _check_images(
    dataset: Dataset | BatchedDataset, image_shape: tuple[int, ...]
) -> None:
    """Warns of doubtful pixel values, or channels that come first."""
    # Of images that must be read, the run looks when it has.
    if not must_be_read(dataset) and (doubt := value_doubt(dataset)):
        warn(doubt)
    if looks_channels_first(image_shape):
        warn(
            f"images of the shape {image_shape} look like [C, H, W]. They are taken as "
            f"[H, W, C], so that all alterations act on wrong axes. If channels come "
            "first, pass np.moveaxis(images, 1, -1)."
        )


class _Extremes(NamedTuple):
    """Extreme values of one altered image, at the identity and at L levels."""

    change: jax.Array  # the largest change of a value at the identity
    lowest: jax.Array  # `[L]`, the lowest value at each level; NaN if any value is
    highest: jax.Array  # `[L]`, the highest value; NaN if any value is


def _check_values(alteration: Alteration, image: np.ndarray) -> None:
    """Rejects a change at the identity; warns of NaN, or pixels outside [0, 1]."""
    # The library's own alterations are tested: to look at one compiled it again, a
    # third of a first call's compilation.
    if not isinstance(alteration.fn, Fingerprinted) and is_identifiable(alteration):
        return
    middle = (alteration.lower + alteration.upper) / 2
    levels = np.array([alteration.lower, middle, alteration.upper])
    asked = np.float32(np.append(alteration.identity, levels))
    made = jax.device_get(_extremes(image, asked, alteration=alteration))
    if made.change != 0:
        raise ValueError(
            f"{alteration.name} must return the image unchanged at its identity, level "
            f"{alteration.identity:g}; there, values change by up to {made.change:g}"
        )
    is_nan = np.isnan(made.lowest)
    if is_nan.any():
        warn(
            f"{alteration.name} makes NaN of the first image at level "
            f"{levels[is_nan][0]:g}: what a classifier answers there means nothing."
        )
        return
    outside = (made.lowest < -_ROUNDING) | (made.highest > 1 + _ROUNDING)
    if outside.any() and image.ndim == 3 and not alteration.about.leaves_range:
        warn(
            f"{alteration.name} leaves [0, 1], the range of pixels: the first image "
            f"has values from {made.lowest.min():g} to {made.highest.max():g}, first "
            f"at level {levels[outside][0]:g}. If that is not meant, end it with "
            "jnp.clip(image, 0, 1)."
        )


@functools.partial(jax.jit, static_argnames="alteration")
def _extremes(
    image: jax.Array, levels: jax.Array, *, alteration: Alteration
) -> _Extremes:
    """Computes the extremes; the first of the levels is the identity."""
    image = as_floats(image)

    def at(level: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        altered = alteration(image, level, jax.random.key(0))
        return jnp.abs(altered - image).max(), altered.min(), altered.max()

    # A loop, so that the alteration is compiled once.
    change, lowest, highest = jax.lax.map(at, levels)
    return _Extremes(change[0], lowest[1:], highest[1:])
