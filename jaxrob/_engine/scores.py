"""Scores of a network's outputs by a function of the user's, a block at a time.

The function is called between compiled programs, at one level at a time. So it may be
any function, and the devices compute the outputs at the next level meanwhile.
"""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple

import jax
import numpy as np

from jaxrob._adapters.on_host import OnHost, on_host
from jaxrob._classifier import Classifier, current_trace
from jaxrob._dataset import are_classes
from jaxrob._devices.rows import padded
from jaxrob._engine.answers import Array
from jaxrob._score import Score
from jaxrob.alterations import Alteration
from jaxrob.alterations._moving import (
    move_boxes,
    move_mask,
    moves_pixels,
    unmoved_reason,
)

# Scores outside [0, 1] by no more than this are rounding.
_ROUNDING = 1e-6
# Images in a trace.
_ROWS = 2


class Scored(NamedTuple, Generic[Array]):
    """Scores of one shape, in [0, 1].

    Attributes:
      score: floating; float64 on the host.
    """

    score: Array


class ScoreRule(NamedTuple):
    """A score, and where it runs.

    Attributes:
      score: the score.
      image_shape: the shape of one image.
      on_devices: whether JAX traces it, so that outputs stay on the devices.
    """

    score: Score
    image_shape: tuple[int, ...]
    on_devices: bool


class Unscored(NamedTuple):
    """A block at one level, not yet scored.

    Attributes:
      outputs: the network's outputs, or the images for a network on the host.
      labels: `[n]` labels of the unaltered images.
      alteration: the alteration.
      level: the level.
    """

    outputs: Any
    labels: np.ndarray
    alteration: Alteration
    level: np.ndarray


def rule_of(
    score: Score, classifier: Classifier, image_shape: tuple[int, ...], labels: Any
) -> ScoreRule:
    """Finds out where a score runs.

    Args:
      score: the score.
      classifier: the network.
      image_shape: the shape of one image.
      labels: some images' labels.

    Raises:
      ValueError: if it returns anything but one number for each image, as far as a
        trace shows.
    """
    is_listed = labels.dtype == object
    if on_host(classifier.apply_fn) or is_listed or score.labels == "boxes":
        return ScoreRule(score, image_shape, False)
    outputs = current_trace(classifier, image_shape)[0].outputs
    outputs = outputs["any"] if classifier.outputs == "any" else outputs
    if classifier.outputs != "any" and outputs.shape[0] == 1:
        outputs = jax.ShapeDtypeStruct(outputs.shape[1:], outputs.dtype)
    dtype = jax.dtypes.canonicalize_dtype(labels.dtype)
    given = jax.ShapeDtypeStruct((_ROWS, *labels.shape[1:]), dtype)
    try:
        found = jax.eval_shape(score.function, outputs, given)
    except Exception:  # A function of NumPy, or one that fails: then on the host too.
        return ScoreRule(score, image_shape, False)
    _check_shape(score, getattr(found, "shape", None), _ROWS)
    return ScoreRule(score, image_shape, True)


def check_labels_move(
    score: Score,
    alterations: Sequence[Alteration],
    labels: Any,
    image_shape: tuple[int, ...],
) -> None:
    """Rejects labels of which it is not known how an alteration moves them.

    Args:
      score: the score.
      alterations: the alterations.
      labels: some images' labels.
      image_shape: the shape of one image.

    Raises:
      ValueError: if an alteration moves pixels, and the score does not say what the
        labels are; if it moves pixels nobody knows where; or if masks have another size
        than the images.
    """
    kind = score.labels or ("fixed" if are_classes(labels) else None)
    if kind == "masks":
        sizes = {np.shape(one)[:2] for one in labels}
        if sizes != {image_shape[:2]}:
            raise ValueError(
                f"labels must be masks of the images' size {image_shape[:2]}, by the "
                f'score\'s labels="masks"; got {sorted(sizes)[:3]}'
            )
    for one in alterations:
        if kind == "fixed" or not moves_pixels(one):
            continue
        if kind is None:
            raise ValueError(
                f"{one.name} moves pixels, and the labels may lie in the picture. Say "
                'what they are: score=jaxrob.Score(function, labels="masks"), "boxes", '
                'or "fixed" if they say nothing about places'
            )
        if reason := unmoved_reason(one):
            raise ValueError(f'labels="{kind}" of the score must move along: {reason}')


def score_block(
    rule: ScoreRule, network: OnHost | None, classifier: Classifier, given: Unscored
) -> Scored:
    """Runs a network on the host, if it is one, and the score.

    Args:
      rule: the score.
      network: the network on the host, or None.
      classifier: the classifier.
      given: the block.

    Returns:
      Scores `[1, B]`; those of padding are meaningless.
    """
    outputs, size = given.outputs, len(jax.tree.leaves(given.outputs)[0])
    number = len(given.labels)
    if network is not None:
        images = np.asarray(outputs)[:number]
        function = network.function
        outputs = function.returned(images) if function.is_any else function(images)
    elif classifier.outputs != "any":
        size = outputs.shape[1]
        outputs = outputs[0] if len(outputs) == 1 else outputs
    labels = _moved(rule, given)
    if rule.on_devices:
        values = jax.jit(rule.score.function)(outputs, padded(labels, size))
        return Scored(values[None])
    if network is None:
        rows = (slice(number),)
        if classifier.outputs != "any" and np.ndim(outputs) == 3:
            rows = (slice(None), *rows)
        outputs = jax.tree.map(lambda part: np.array(part)[rows], outputs)
    with _noted(rule.score, number):
        values = rule.score.function(outputs, labels)
    values = np.asarray(values)
    _check_shape(rule.score, values.shape, number)
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"score {rule.score.name!r} must return numbers; got {values.dtype}"
        )
    return Scored(padded(values.astype(np.float64), size)[None])


def checked_scores(
    found: np.ndarray,
    indices: np.ndarray,
    level: float,
    rule: ScoreRule,
    alteration: Alteration,
) -> np.ndarray:
    """Returns scores `[..., n]` as float64.

    Args:
      found: the scores.
      indices: `[n]`, the images' indices in the data set.
      level: the level, for messages.
      rule: the score.
      alteration: the alteration.

    Raises:
      ValueError: if one is NaN or outside [0, 1]; the message names the image.
    """
    found = np.asarray(found, np.float64)
    wrong = ~((found >= -_ROUNDING) & (found <= 1 + _ROUNDING))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        raise ValueError(
            f"score {rule.score.name!r} must lie in [0, 1]; got {found[place]:g} for "
            f"image {indices[place[-1]]} at level {level:g} of {alteration.name}, and "
            f"{wrong.sum()} such of {wrong.size}"
        )
    return np.clip(found, 0, 1)


def _check_shape(score: Score, shape: tuple[int, ...] | None, number: int) -> None:
    if shape != (number,):
        raise ValueError(
            f"score {score.name!r} must return one number for each of {number} "
            f"images, [B]; got the shape {shape}"
        )


def _moved(rule: ScoreRule, given: Unscored) -> Any:
    """Returns the labels at the level: an array, or a list of what a list held."""
    labels, alteration, level = given.labels, given.alteration, given.level
    kind, is_list = rule.score.labels, labels.dtype == object
    if kind == "fixed" or kind is None or not moves_pixels(alteration):
        return [*labels] if is_list else labels
    if kind == "masks":
        masks = np.stack([*labels]) if is_list else labels
        found = np.asarray(_moved_masks(masks, level, alteration=alteration))
        return [*found] if is_list else found
    size = rule.image_shape[:2]
    return [_moved_boxes(alteration, label, level, size) for label in labels]


def _moved_boxes(
    alteration: Alteration, label: Any, level: np.ndarray, size: tuple[int, ...]
) -> Any:
    """Moves an image's boxes, with the entries beside them."""
    if not isinstance(label, Mapping):
        return move_boxes(alteration, label, level, size)[0]
    boxes, kept = move_boxes(alteration, label["boxes"], level, size)
    number = len(label["boxes"])

    def beside(value: Any) -> Any:
        is_array = np.ndim(value) > 0 and len(value) == number
        return np.asarray(value)[kept] if is_array else value

    return {name: beside(value) for name, value in label.items()} | {"boxes": boxes}


@functools.partial(jax.jit, static_argnames="alteration")
def _moved_masks(masks: Any, level: Any, *, alteration: Alteration) -> jax.Array:
    return jax.vmap(lambda mask: move_mask(alteration, mask, level))(masks)


@contextlib.contextmanager
def _noted(score: Score, number: int):
    try:
        yield
    except Exception as error:  # The user's code may raise anything.
        with contextlib.suppress(Exception):
            error.add_note(f"raised by the score {score.name!r} on {number} images")
        raise
