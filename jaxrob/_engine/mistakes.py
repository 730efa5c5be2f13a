"""Answers that show a mistake in how a classifier is given.

They are looked at once in each public call, as far as that costs next to nothing.
"""

import collections
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrob._classifier import Classifier
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.answers import Answers
from jaxrob._engine.blocks import PlacedBlock
from jaxrob._runtime.hosts import fetch, put
from jaxrob._runtime.keys import classifier_keys
from jaxrob._runtime.mesh import whole_on
from jaxrob._runtime.pixels import as_floats
from jaxrob._runtime.warnings import warn

# Images that are looked at more closely.
_FEW = 16
# Rows whose sum is this close to 1 are distributions, in bfloat16 too.
_SUM_TOLERANCE = 1e-2
# Confidences of the same image that differ by more are no rounding.
_LARGEST_DIFFERENCE = 1e-3
# A check that takes no more than this share of the answers costs next to nothing.
_LARGEST_SHARE = 0.01


def is_flat(confidence: np.ndarray, num_classes: int) -> bool:
    """Whether no answer is more certain than the softmax of values in [0, 1] can be.

    Args:
      confidence: of any shape, the answers' confidences.
      num_classes: K.
    """
    largest = math.e / (math.e + num_classes - 1)
    return bool(confidence.max() <= largest * (1 + 1e-5))


def check_logits(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    key: jax.Array,
    mesh: Mesh,
) -> None:
    """Warns of "logits" that are none: distributions, or the same for every image.

    To be asked where `is_flat` says so, because it runs the classifier on a few images.

    Args:
      classifier: the classifier, whose outputs are declared as logits.
      dataset: the data.
      key: a random key.
      mesh: the devices, which hold the classifier and the key whole.
    """
    first = dataset if isinstance(dataset, Dataset) else next(dataset.batches())
    images = np.asarray(first.images[:_FEW])
    rows = np.asarray(_raw_outputs(classifier, put(images, whole_on(mesh)), key))
    sums = rows.sum(axis=-1)
    of = f"on the first {len(images)} images the classifier"
    if (rows >= -1e-6).all() and (np.abs(sums - 1) <= _SUM_TOLERANCE).all():
        if (rows.max(axis=-1) >= 1 - 1e-6).all():
            warn(
                f'outputs="logits", but {of} returns a 1 for one class and 0 for the '
                "others. Their softmax is no confidence: pass "
                'outputs="scores", of which only the largest counts.'
            )
        else:
            warn(
                f'outputs="logits", but {of} returns distributions, whose values are '
                "at least 0 and add up to 1. A second softmax makes them nearly equal: "
                'pass outputs="probabilities", or return what is before the softmax.'
            )
        return
    spread = np.ptp(rows, axis=1).max()
    if spread <= 1e-6 * np.abs(rows).max() and np.ptp(images, axis=0).max() > 0:
        warn(
            f"{of} returns the same for every image. It has learnt nothing, or the "
            "images are not scaled as it expects them."
        )


def worth_asking_again(
    classifier: Classifier, one_more: int, number: int, mesh: Mesh
) -> bool:
    """Whether `check_in_company` is worth its time.

    It is the first time that a classifier of this structure is seen, and as long as it
    fails the check; then only where the check costs next to nothing.

    Args:
      classifier: the classifier.
      one_more: answers in the step that the check takes.
      number: answers in all; 0 if it is not known.
      mesh: the devices. Those of other processes cannot be asked.
    """
    if mesh.is_multi_process:
        return False
    found_alike = list(_found_alike(jax.tree.structure(classifier)))
    return found_alike != [True] or one_more <= _LARGEST_SHARE * number


def check_in_company(
    classifier: Classifier,
    placed: PlacedBlock,
    answers: Answers,
    answer_again: Callable[[jax.Array], Answers],
    stochastic: bool,
) -> None:
    """Warns of a classifier whose answer on an image depends on the images beside it.

    So do batch statistics and dropout that were left on after training. The first
    images are classified again, among copies of one of them.

    Args:
      classifier: the classifier.
      placed: a block of images.
      answers: `[l, B]`, those on the block, of which the first row counts.
      answer_again: gives the answers at the same levels on other images in the same
        block, by the same program.
      stochastic: whether noise is drawn for each image, so that copies of one image
        have answers of their own.
    """
    images = np.asarray(placed.images)
    # Of each device's images at least half must be others.
    on_each = len(images) // placed.images.sharding.num_devices
    kept = min(_FEW, len(placed.block.labels), on_each // 2)
    if not kept:
        return
    chosen = np.arange(len(images))
    chosen[kept:] = 0
    again = answer_again(jax.device_put(images[chosen], placed.images.sharding))
    before, after = (_first_row(one) for one in (answers, again))
    differs = _differs(
        Answers(*(part[:kept] for part in before)),
        Answers(*(part[:kept] for part in after)),
    )
    what = f"{differs.sum()} of the first {kept} images"
    if not differs.any() and not (stochastic or classifier.stochastic):
        one = Answers(*(part[:1] for part in after))
        differs = _differs(one, Answers(*(part[kept:] for part in after)))
        what = f"{differs.sum()} of {len(differs)} copies of one image"
    _found_alike(jax.tree.structure(classifier)).append(not differs.any().item())
    if differs.any():
        warn(
            f"the classifier answers {what} differently, depending on the images "
            "beside them. It seems to be left in training mode, where batch statistics "
            "or dropout are on. Switch that off: train=False, "
            "use_running_average=True, deterministic=True or model.eval()."
        )


@functools.lru_cache(maxsize=256)
def _found_alike(structure: Any) -> collections.deque[bool]:
    """What the last check of a classifier of this structure found, if there was one."""
    del structure
    return collections.deque(maxlen=1)


def _first_row(answers: Answers) -> Answers[np.ndarray]:
    return Answers(*(np.asarray(part)[0] for part in fetch(answers)))


def _differs(one: Answers[np.ndarray], other: Answers[np.ndarray]) -> np.ndarray:
    """Where answers differ by more than rounding; by the class if that is all."""
    change = np.abs(one.confidence - other.confidence)
    return np.where(
        np.isnan(change), one.predicted != other.predicted, change > _LARGEST_DIFFERENCE
    )


@jax.jit
def _raw_outputs(
    classifier: Classifier, images: jax.Array, key: jax.Array
) -> jax.Array:
    """`[S, B, K]`."""
    keys = None
    if classifier.stochastic:
        keys = classifier_keys(key, jnp.arange(len(images), dtype=np.uint32))
    return classifier.raw_outputs(as_floats(images), keys)
