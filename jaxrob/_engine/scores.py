"""Scores of a network's outputs by a function of the user's, a block at a time.

The function is called between compiled programs, at one level at a time. So it may be
any function, and the devices compute the outputs at the next level meanwhile.
"""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_integers
from jaxrob._arguments.messages import class_outputs, named
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import ROWS, OnHost, Score, inputs_of, on_host
from jaxrob._classifiers.samples import as_array
from jaxrob._classifiers.trace import current_trace
from jaxrob._dataset import are_classes, has_parts
from jaxrob._devices.blocks import padded
from jaxrob._domain import AnyAlteration
from jaxrob._identity.identity import Fingerprinted, traced
from jaxrob._identity.program import fingerprint_of
from jaxrob.alterations import Alteration, move_boxes, move_mask, unmoved_reason

# Boxes that end here lie in one pixel, or are fractions of the picture, up to rounding.
_ONE_PIXEL = 1.001
# Names of what may stand beside boxes, one for each, because it says nothing of places.
_OF_NO_PLACE = re.compile(
    "((is|gt|true|pred(icted)?|object|instance|image|class(es)?|label|category|categories|"
    "name|id|score|conf(idence)?|prob(abilit(y|ies))?|weight|trust|quality|crowd|"
    "difficult|truncated|occluded|ignored?|track|text|type|attribute)s?[_ -]?)+",
    re.IGNORECASE,
)
# The most parts of outputs or labels that a note lists.
_MOST_LISTED = 10
# Includes JAX's types, such as bfloat16, which NumPy counts as void.
_REAL = (np.floating, np.integer, np.bool_)

Array = TypeVar("Array", jax.Array, np.ndarray)


class Scored(NamedTuple, Generic[Array]):
    score: Array  # floating; float64 on the host


class ScoreRule(NamedTuple):
    """A score, and where it runs."""

    score: Score  # the score
    image_shape: tuple[int, ...]  # the shape of one image
    on_devices: bool  # whether JAX traces it, so that outputs stay on the devices
    one_column: bool  # whether that of class 1 is all that the network returns


class Unscored(NamedTuple):
    """A block at one level, not yet scored."""

    outputs: Any  # the network's outputs, or the images for a network on the host
    labels: np.ndarray  # `[n]` labels of the unaltered images
    alteration: Any  # the alteration
    level: np.ndarray  # the level


def rule_of(
    score: Score, classifier: Classifier, image_shape: tuple[int, ...], labels: Any
) -> ScoreRule:
    rule = ScoreRule(score, image_shape, False, False)
    if on_host(classifier.apply_fn):
        return rule
    outputs = current_trace(classifier, image_shape).outputs
    if classifier.outputs == "any":
        outputs = outputs["any"]
    else:
        *shape, number = outputs.shape
        if number == 2:
            own = jax.eval_shape(classifier.returned, *inputs_of(image_shape))
            number = class_outputs("the classifier", own, ROWS).shape[-1]
            rule = rule._replace(one_column=number == 1)
        shape = shape[1:] if shape[0] == 1 else shape
        outputs = jax.ShapeDtypeStruct((*shape, number), outputs.dtype)
    if labels.dtype == object or score.labels == "boxes":
        return rule
    dtype = jax.dtypes.canonicalize_dtype(labels.dtype)
    given = jax.ShapeDtypeStruct((ROWS, *labels.shape[1:]), dtype)
    try:
        program, returned = traced(score.function, outputs, given)
    except Exception:  # A function of NumPy, or one that fails: then on the host too.
        return rule
    _check_returned(score, returned, ROWS)
    found = fingerprint_of(program)
    own = Fingerprinted(found.digest, score.function, found.on_host)
    now = dataclasses.replace(score, function=own)
    return rule._replace(score=now, on_devices=not found.on_host)


def check_labels_move(
    score: Score,
    alterations: Sequence[AnyAlteration],
    labels: Any,
    image_shape: tuple[int, ...],
) -> None:
    """Rejects labels of which it is not known how an alteration moves them."""
    kind = score.labels or ("fixed" if are_classes(labels) else None)
    if kind == "masks":
        _check_sizes(labels, image_shape)
    alone = [one for one in alterations if isinstance(one, Alteration)]
    if kind in ("masks", "boxes") and len(alone) < len(alterations):
        raise ValueError(
            f"{kind} follow one alteration, not a jaxrob.Domain of several; assess its "
            'alterations one by one, or say labels="fixed" of labels without a place'
        )
    if kind == "boxes":
        moving = [one for one in alone if one.moves_pixels and not unmoved_reason(one)]
        _check_boxes(labels, (moving or alone)[0], image_shape)
    for one in alterations:
        if kind == "fixed" or not one.moves_pixels:
            continue
        if kind is None:
            raise ValueError(
                f"{one.name} moves pixels, and the labels may lie in the picture. Say "
                'what they are: score=jaxrob.Score(function, labels="masks"), "boxes", '
                'or "fixed" if they say nothing about places'
            )
        reason = unmoved_reason(one) if isinstance(one, Alteration) else None
        if len(image_shape) > 3:
            reason = f"only pictures [H, W, C] are moved; got the shape {image_shape}"
        if reason:
            raise ValueError(f'labels="{kind}" of the score must move along: {reason}')


def _check_sizes(masks: Any, image_shape: tuple[int, ...]) -> None:
    size = image_shape[:2]
    if others := [one for one in map(np.shape, masks) if one[:2] != size]:
        raise ValueError(
            f"labels must be masks of the images' size {size}, by the score's "
            f'labels="masks", [H, W] or [H, W, C]; got one of the shape {others[0]}'
        )


def score_block(
    rule: ScoreRule, network: OnHost | None, classifier: Classifier, given: Unscored
) -> Scored:
    """Runs a network on the host, if it is one, and the score."""
    outputs, size = given.outputs, len(jax.tree.leaves(given.outputs)[0])
    number = len(given.labels)
    if network is not None:
        images = np.asarray(outputs)[:number]
        function = network.function
        outputs = function.returned(images) if function.is_any else function(images)
    elif classifier.outputs != "any":
        size = outputs.shape[1]
        outputs = outputs[0] if len(outputs) == 1 else outputs
        outputs = outputs[..., 1:] if rule.one_column else outputs
    if rule.on_devices:
        # Nothing waits here: moved masks stay on the devices too.
        labels = _moved(rule, given._replace(labels=padded(given.labels, size)))
        return Scored(_on_devices(outputs, labels, function=rule.score.function))
    if network is None:
        is_any = classifier.outputs == "any"  # Else there may be samples before.
        rows = slice(number) if is_any else (..., slice(number), slice(None))
        outputs = jax.tree.map(lambda part: np.array(part)[rows], outputs)
    # The score may write into what it gets, and the data set keeps its labels.
    labels = jax.tree.map(_copied, _moved(rule, given))
    try:
        values = rule.score.function(outputs, labels)
    except Exception as error:  # The user's code may raise anything.
        with contextlib.suppress(Exception):
            error.add_note(
                f"raised by the score {rule.score.name!r} on {number} images, whose "
                f"arrays are NumPy's. Outputs: {_listed(outputs)}. Labels: "
                f"{_listed(labels)}"
            )
        raise
    # A tensor or a list of numbers will do too.
    values = values if isinstance(values, tuple) else as_array(values)
    values = np.asarray(values) if isinstance(values, list) else values
    _check_returned(rule.score, values, number)
    values = np.asarray(values)
    return Scored(padded(values.astype(np.float64), size)[None])


def _check_returned(score: Score, found: Any, number: int) -> None:
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", "O")
    if shape is None or not any(jnp.issubdtype(dtype, kind) for kind in _REAL):
        raise TypeError(
            f"score {score.name!r} must return an array of numbers [B], one for each "
            f"image; got {named(found)}"
        )
    if shape != (number,):
        raise ValueError(
            f"score {score.name!r} must return one number for each of {number} "
            f"images, [B]; got the shape {shape}"
        )


def _copied(part: Any) -> Any:
    return np.array(part) if isinstance(part, np.ndarray | jax.Array) else part


def _check_boxes(
    labels: Any, alteration: Alteration, image_shape: tuple[int, ...]
) -> None:
    """Rejects labels that are no boxes in pixels; the message names the image."""
    size = image_shape[:2]
    if all(getattr(label, "shape", ())[:2] == size for label in labels):
        raise ValueError(
            f"labels look like masks: all have the images' size {size}, and the score "
            'says labels="boxes", which are [M, 4 + k]: say labels="masks"'
        )
    known = []
    for index, label in enumerate(labels):
        try:
            _moved_boxes(alteration, label, alteration.identity, image_shape)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                f'labels[{index}], by the score\'s labels="boxes", must be an array '
                "[M, 4 + k] of boxes x1, y1, x2, y2 in pixels, or a dict with such "
                f'"boxes": {error}'
            ) from error
        if np.size(_boxes(label)):
            known.append(np.asarray(_boxes(label)))
    if {one.shape[1] for one in known} == {8}:
        rows = np.concatenate(known)
        sides = np.diff(rows[rows.any(1)].reshape(-1, 4, 2), axis=1)
        off = np.abs(sides[:, 0] + sides[:, 2]).sum(1)
        # Of four corners the third side goes back along the first.
        if (off < np.abs(sides[:, 0]).sum(1) / 2).sum() > 0.9 * len(off):
            raise ValueError(
                'labels must be boxes x1, y1, x2, y2, by the score\'s labels="boxes"; '
                f"got polygons of four corners, such as {rows[0]}: give the smallest "
                "box around each"
            )
    _check_in_pixels(labels, size, is_first=True)


def _check_in_pixels(labels: Any, size: tuple[int, ...], is_first: bool) -> None:
    parts = (np.asarray(one)[:, :4] for one in map(_boxes, labels) if np.size(one))
    found = np.concatenate([np.zeros((0, 4)), *parts])
    is_tiny = (found[:, 2:] <= _ONE_PIXEL).all(axis=1) & (max(size) > 1)
    wrong = ((found[:, :2] >= size[::-1]) | (found[:, 2:] <= 0)).any(axis=1)
    # Among boxes in pixels, too, one within the first pixel is a fraction.
    wrong |= is_tiny & (found % 1 != 0).any(axis=1)
    wrong &= (found[:, 2:] > found[:, :2]).all(axis=1)  # Empty ones pad.
    wrong |= is_first & is_tiny.all()
    if wrong.any():
        raise ValueError(
            "labels must be boxes x1, y1, x2, y2 in pixels, by the score's "
            f'labels="boxes"; got {found[wrong][0]} in images of the size {size}. Of '
            "fractions of the picture multiply x by the width and y by the height; a "
            'box outside leave out. (If they are masks, say labels="masks".)'
        )


def _boxes(label: Any) -> Any:
    if not isinstance(label, Mapping):
        return label
    if "boxes" not in label:
        keys = ", ".join(map(repr, label))
        raise ValueError(f'a dict must have "boxes"; got one with the keys {keys}')
    return label["boxes"]


def _moved(rule: ScoreRule, given: Unscored) -> Any:
    """Returns the labels at the level: an array, or a list of what a list held."""
    # Boxes are arrays in any case, so that a score gets the same from all alterations.
    labels, alteration = given.labels, given.alteration
    kind, is_list = rule.score.labels, labels.dtype == object
    if rule.on_devices:
        check_integers("labels", labels)
    if kind == "boxes":
        # Pictures that are recorded have levels of their own, at which nothing moves.
        level = float(given.level) if alteration.moves_pixels else alteration.identity
        shape = rule.image_shape
        boxes = [_moved_boxes(alteration, label, level, shape) for label in labels]
        _check_in_pixels(labels, shape[:2], is_first=False)
        return boxes
    if kind != "masks" or not alteration.moves_pixels:
        return [*labels] if is_list else labels
    if is_list:
        masks = [np.asarray(one) for one in labels]
        _check_sizes(masks, rule.image_shape)
        if len({(one.dtype, one.shape) for one in masks}) > 1:
            # Together they would be of one type, floats that are interpolated.
            alone = [labels[at : at + 1] for at in range(len(labels))]
            return [_moved(rule, given._replace(labels=one))[0] for one in alone]
        labels = np.stack(masks)
    check_integers("labels", labels)
    found = _moved_masks(labels, given.level, alteration=alteration)
    return [*np.asarray(found)] if is_list else found


def _moved_boxes(
    alteration: Alteration, label: Any, level: float, image_shape: tuple[int, ...]
) -> Any:
    is_dict = isinstance(label, Mapping)
    given = np.asarray(_boxes(label))
    # An image without objects may have an empty list.
    given = given if given.size else np.zeros((0, 4))
    boxes, kept = move_boxes(alteration, given, level, image_shape[:2])
    if not is_dict:
        return boxes

    def beside(name: Any, value: Any) -> Any:
        if name == "boxes" or not has_parts(value):
            return value
        is_of_boxes = len(value) == len(given) and not isinstance(value, Mapping)
        if is_of_boxes and not any(map(has_parts, value)):
            if not len(value) or _OF_NO_PLACE.fullmatch(str(name)):
                return np.asarray(value)[kept]
        if not alteration.moves_pixels:
            return value
        raise ValueError(
            f"{name!r} beside the boxes does not move along: a number or a text may "
            f"stand there, or classes, ids or scores, one for each of the {len(given)} "
            "boxes. Leave it out, or add it to the boxes as columns if it says nothing "
            "about places"
        )

    found = {name: beside(name, value) for name, value in label.items()}
    return found | {"boxes": boxes}


@functools.partial(jax.jit, static_argnames="function")
def _on_devices(
    outputs: Any, labels: Any, *, function: Callable[[Any, Any], Any]
) -> jax.Array:
    return function(outputs, labels)[None]


@functools.partial(jax.jit, static_argnames="alteration")
def _moved_masks(masks: Any, level: Any, *, alteration: Alteration) -> jax.Array:
    return jax.vmap(lambda mask: move_mask(alteration, mask, level))(masks)


def _listed(given: Any) -> str:
    if isinstance(given, list):
        return f"a list of {len(given)}, the first is {_listed(given[0])}"
    parts = [
        f"{jax.tree_util.keystr(path)} {named(one)}".strip()
        for path, one in jax.tree_util.tree_flatten_with_path(given)[0]
    ]
    return "; ".join(parts[:_MOST_LISTED])
