"""How vulnerable a classifier is to adversarial examples, by how similar they are."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_type, checked_array, checked_sequence
from jaxrob._arguments.messages import classifier_wanted
from jaxrob._classifiers.classifier import Classifier
from jaxrob._dataset import given_images, images_and_labels
from jaxrob._numbers import as_floats
from jaxrob.adversarial._attack import Attack, most_adversarial, structural_similarity
from jaxrob.adversarial._lbfgs import lbfgs


class Adversariability(NamedTuple):
    """How vulnerable a classifier is, and from what that was computed.

    Attributes:
      value: the adversariability, in [0, 1); NaN if no image is classified correctly.
      per_class: float64 `[K]`, that of the images of each class alone; NaN for a class
        without any that is classified correctly.
      num_inputs: the images classified correctly, which are those that count.
      num_inputs_per_class: int64 `[K]`, those of each class.
      success_rate: the share of them with an adversarial example, in [0, 1]; NaN
        likewise. Similarities of 1 would make the value as large.
      num_vanished: those of them without a gradient to follow, where an attack that
        found nothing says nothing (see `Attack.vanished`). Each makes the value too
        small by up to 1 / num_inputs.
      attack: the most adversarial example of each of all N images.
    """

    value: float
    per_class: np.ndarray
    num_inputs: int
    num_inputs_per_class: np.ndarray
    success_rate: float
    num_vanished: int
    attack: Attack


def adversariability(
    classifier: Classifier,
    images: Any,
    labels: Any = None,
    *,
    attack: Callable[..., Attack] | Sequence[Callable[..., Attack]] = lbfgs,
    similarity: Callable[..., np.ndarray] = structural_similarity,
) -> Adversariability:
    """Measures how vulnerable a classifier is to adversarial examples, in [0, 1).

    It is the share of images with an adversarial example, each weighted by its
    similarity to the image. 0 is best.

    Example::

        test = jaxrob.data.load("digits")[:32]
        found = jaxrob.adversarial.adversariability(classifier, test)
        print(found.value, found.success_rate)

    The value is::

        adv(C, P) = sum over p in CE of S(p, p_ae) / |CE|

    with CE the images p of P that are classified correctly, and p_ae the most similar
    adversarial example of p (Definition 7). S is replaced by 0 where there is none.

    The definitions are of binary classifiers; here any wrong class counts. An image
    whose adversarial examples all have a negative similarity, which the definitions
    rule out, counts as 0. Only what an attack returns is considered, not all that it
    evaluates.

    Args:
      classifier: the classifier.
      images: `[N, H, W, C]`, uint8 or floating in [0, 1]; or a `jaxrob.Dataset` with
        labels.
      labels: `[N]` integers, the right classes. Not beside a data set.
      attack: how adversarial examples are found: a function of (classifier, images,
        labels) that returns an `Attack`, or several of them; then the most similar
        example of each image counts. Give further arguments by `functools.partial`:
        `partial(pgd, epsilon=0.1)` or `partial(lbfgs, key=key, mesh=mesh)`.
      similarity: a function of two arrays `[N, H, W, C]` in [0, 1] that returns `[N]`:
        `structural_similarity` (Definition 6) or `windowed_similarity`.

    Returns:
      An `Adversariability`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if no attack is given; an attack returns images of another shape,
        outside [0, 1] or NaN, other labels, or success where there was nothing to
        attack; a similarity is not one number in [-1, 1] for each image; or as the
        attacks.

    Source: Definition 8 of the 2020 paper.
    """
    if callable(attack):
        attacks = (attack,)
    else:
        wanted = "functions of (classifier, images, labels)"
        attacks = checked_sequence("attack", attack, Callable, wanted)
    check_type("similarity", similarity, Callable, "a function of two arrays of images")
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    images, labels = images_and_labels(images, labels)
    given = given_images(images, labels)
    found = [one(classifier, images, labels) for one in attacks]
    unaltered = np.asarray(as_floats(given.images))
    for one in found:
        _check_attack(one, unaltered, given.labels)
    found = [
        one._replace(similarity=_similarities(similarity, unaltered, one))
        for one in found
    ]
    best = most_adversarial(found)
    weights = np.maximum(best.similarity, 0)
    correct = best.correct
    # A table with a row for each image and a column for each class.
    num_classes = classifier.num_classes(unaltered.shape[1:])
    of_class = best.labels[:, None] == np.arange(num_classes)
    counts = (of_class & correct[:, None]).sum(axis=0)
    sums = (of_class * weights[:, None]).sum(axis=0)
    return Adversariability(
        value=_mean(weights.sum(), correct.sum()),
        per_class=np.array([_mean(*pair) for pair in zip(sums, counts)]),
        num_inputs=int(correct.sum()),
        num_inputs_per_class=counts,
        success_rate=_mean(best.success.sum(), correct.sum()),
        num_vanished=int(best.vanished.sum()),
        attack=best,
    )


def _check_attack(found: Any, images: np.ndarray, labels: np.ndarray) -> None:
    check_type("attack(...)", found, Attack, "jaxrob.adversarial.Attack")
    axes = dict(zip("NHWC", images.shape))
    pixels = {"at_least": 0, "at_most": 1, "axes": axes}
    checked_array("attack(...).images", found.images, "N, H, W, C", **pixels)
    for field in ("success", "correct", "vanished"):
        given, name = getattr(found, field), f"attack(...).{field}"
        checked_array(name, given, "N", "booleans", axes=axes)
    if not np.array_equal(found.labels, labels):
        raise ValueError("attack(...).labels must be the labels that it was given")
    if (np.asarray(found.success) & ~np.asarray(found.correct)).any():
        raise ValueError(
            "attack(...).success must be false where correct is: what is classified "
            "wrongly as it is needs no attack (Definition 7)"
        )


def _similarities(
    similarity: Callable[..., np.ndarray], images: np.ndarray, found: Attack
) -> np.ndarray:
    """`[N]`, 0 where there is no adversarial example."""
    values = similarity(images, found.images)
    where = {"may_be_nan": True, "axes": {"N": len(images)}}
    values = checked_array("similarity(...)", values, "N", **where)
    # Rounding may carry it a little beyond.
    off = found.success & ~(np.abs(values) <= 1 + 1e-5)
    if off.any():
        raise ValueError(
            "similarity(...) must lie in [-1, 1], 1 for the same image; got "
            f"{values[off][0]} for image {np.flatnonzero(off)[0]}"
        )
    return np.where(found.success, values, 0.0)


def _mean(total: float, count: int) -> float:
    return float(total / count) if count else float("nan")
