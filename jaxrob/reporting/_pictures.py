"""Pictures of an alteration, for reports."""

import functools
import io
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob._arguments.texts import install
from jaxrob._assessment.assessment import Assessment
from jaxrob._curve import Curve, ScoreCurve
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.provenance import alteration_fingerprint
from jaxrob._identity.digest import host_array
from jaxrob._keys import alteration_keys, checked_key
from jaxrob._pixels import as_floats
from jaxrob.alterations import Alteration
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.reporting._results import (
    CHANNELS,
    MOST_PICTURES,
    Picture,
    picture_digest,
    sizes,
)
from jaxrob.reporting._words import is_at_once


def png(image: np.ndarray, side: int | None = None) -> bytes:
    """Encodes an image as PNG, reduced to `side` pixels a side if it is larger."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"pictures need Pillow: {install('command')}") from error
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    if side is not None and max(picture.size) > side:
        picture.thumbnail((side, side), Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


# An image's index, and what it is shown as, which gives the level.
_Shown = tuple[int, str]


def pictures(
    assessment: Assessment,
    alteration: Alteration,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None = None,
    most: int = MOST_PICTURES,
) -> tuple[Picture, ...]:
    """Returns some altered images, as the network saw them.

    About half show images of different classes, unaltered and at the ends of the range:
    is it plausible? The others show the images that fail first, unaltered and at the
    level nearest to the identity at which they fail; images misclassified unaltered (if
    that was not looked at: at the level nearest to it) are left out. Where single
    answers are not kept (reduced), only the first half is shown.
    Of a score, the first half are the first images, and the others those with the
    lowest score at any level looked at, unaltered and at that level; images whose score
    is lowest unaltered are left out.

    Args:
      assessment: the assessment.
      alteration: its alteration.
      dataset: its images, `[N, H, W, C]` with 1, 3 or 4 channels.
      key: its random key, needed if the alteration is stochastic.
      most: the most pictures, 3 to 16.

    Returns:
      The pictures, those of one image beside each other.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if the assessment is of another alteration, key or number of images,
        the images are no pictures, a key is missing, or `most` is out of range.
    """
    _check(assessment, alteration, dataset)
    most = checked_integer("most", most, at_least=3, at_most=MOST_PICTURES)
    key = _checked_key(assessment, alteration, key)
    shown = _shown(assessment, most)
    return _drawn(assessment, alteration, dataset, key, shown)


def failing_pictures(
    assessment: Assessment,
    alteration: Alteration,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None,
    most: int,
) -> list[tuple[Picture, Picture]]:
    """The images that fail first, unaltered and at the level where they fail."""
    _check(assessment, alteration, dataset)
    key = _checked_key(assessment, alteration, key)
    numbers = first_to_fail(assessment)[:most]
    # Without a failure another picture is drawn, which checks the arguments.
    views = ("unaltered", "first failure") if numbers else ("unaltered",)
    shown = [(number, view) for number in numbers or [0] for view in views]
    drawn = _drawn(assessment, alteration, dataset, key, shown)
    return list(zip(drawn[::2], drawn[1::2]))


def _check(assessment: Any, alteration: Any, dataset: Any) -> None:
    check_type("assessment", assessment, Assessment, "a jaxrob.Assessment")
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    check_type("dataset", dataset, Dataset | BatchedDataset, "a jaxrob.Dataset")


def _drawn(
    assessment: Assessment,
    alteration: Alteration,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None,
    shown: Sequence[_Shown],
) -> tuple[Picture, ...]:
    levels = [_level(assessment, *one) for one in shown]
    numbers = [number for number, _ in shown]
    images = _images(assessment, dataset, numbers)
    alteration = _checked_alteration(assessment, alteration, images.shape[1:])
    altered = _altered(
        jnp.asarray(images),
        jnp.asarray(alteration.canonical(np.array(levels)), jnp.float32),
        jnp.asarray(numbers, jnp.uint32),
        jax.random.key(0) if key is None else key,
        alteration=alteration,
    )
    return tuple(
        _picture(assessment, dataset, np.asarray(image), level, *one)
        for image, level, one in zip(altered, levels, shown)
    )


@functools.partial(jax.jit, static_argnames="alteration")
def _altered(
    images: jax.Array,
    levels: jax.Array,
    index: jax.Array,
    key: jax.Array,
    *,
    alteration: Alteration,
) -> jax.Array:
    """Alters each image at its level, with its own noise; uint8 `[n, H, W, C]`."""

    def one(image: jax.Array, level: jax.Array, key: jax.Array) -> jax.Array:
        prepared = alteration.prepared(image, key if alteration.stochastic else None)
        return alteration.at_level(prepared, level)

    altered = jax.vmap(one)(as_floats(images), levels, alteration_keys(key, index))
    return jnp.round(255 * jnp.clip(altered, 0, 1)).astype(jnp.uint8)


def _shown(assessment: Assessment, most: int) -> list[_Shown]:
    ends = {"lower end": assessment.lower, "upper end": assessment.upper}
    beyond = [name for name, level in ends.items() if level != assessment.identity]
    views = ["unaltered", *beyond]
    is_score = isinstance(assessment.curve, ScoreCurve)
    bad = "lowest score" if is_score else "first failure"
    failing = _lowest(assessment) if is_score else []
    # None where single answers are not kept.
    if isinstance(assessment.curve, Curve):
        failing = first_to_fail(assessment)
    few = max(1, most // 2 // len(views)) * len(views)
    failing = failing[: (most - few) // 2]
    typical = _typical(assessment, (most - 2 * len(failing)) // len(views))
    shown = [(number, view) for number in typical for view in views]
    for number in failing:
        # A typical image is shown unaltered already.
        if (number, "unaltered") not in shown:
            shown.append((number, "unaltered"))
        shown.append((number, bad))
    return shown


def first_to_fail(assessment: Assessment) -> list[int]:
    """Returns the images that fail, the earliest failure first; none at once."""
    first = assessment.first_failing_level
    numbers = np.flatnonzero(~np.isnan(first) & ~is_at_once(assessment, first))
    distance = np.abs(first[numbers] - assessment.identity)
    return numbers[np.argsort(distance, kind="stable")].tolist()


def _lowest(assessment: Assessment) -> list[int]:
    assert isinstance(assessment.curve, ScoreCurve)
    scores, levels = assessment.curve.lowest(assessment.identity)
    numbers = np.flatnonzero(~np.isnan(scores) & ~is_at_once(assessment, levels))
    return numbers[np.argsort(scores[numbers], kind="stable")].tolist()


def _typical(assessment: Assessment, count: int) -> list[int]:
    number = sizes(assessment)[1]
    first = np.array([], int)
    if isinstance(assessment.curve, Curve):
        _, first = np.unique(assessment.curve.labels, return_index=True)
    others = np.setdiff1d(np.arange(min(number, count + len(first))), first)
    return np.append(first, others)[:count].tolist()


def _level(assessment: Assessment, number: int, view: str) -> float:
    if view == "first failure":
        return float(assessment.first_failing_level[number])
    if isinstance(assessment.curve, ScoreCurve) and view == "lowest score":
        return float(assessment.curve.lowest(assessment.identity)[1][number])
    return {
        "unaltered": assessment.identity,
        "lower end": assessment.lower,
        "upper end": assessment.upper,
    }[view]


def _picture(
    assessment: Assessment,
    dataset: Dataset | BatchedDataset,
    image: np.ndarray,
    level: float,
    number: int,
    view: str,
) -> Picture:
    label = predicted = None
    curve = assessment.curve
    if isinstance(curve, Curve):
        label = int(curve.labels[number])
        # The strategy may have skipped this level.
        if len(at := np.flatnonzero(curve.levels == level)):
            unknown = curve.unknown[at[0], number]
            predicted = curve.num_classes if unknown else curve.predicted[at[0], number]
            predicted = int(predicted)
    # Labels of a score need not be classes.
    elif not isinstance(curve, ScoreCurve) and isinstance(dataset, Dataset):
        label = None if dataset.labels is None else int(dataset.labels[number])
    names = getattr(dataset, "_file_names", None)
    return Picture(
        image,
        picture_digest(image),
        float(level),
        number,
        label,
        predicted,
        view,
        None if names is None else str(names[number]),
    )


def _images(
    assessment: Assessment, dataset: Dataset | BatchedDataset, numbers: Sequence[int]
) -> np.ndarray:
    batches = [dataset] if isinstance(dataset, Dataset) else dataset.batches()
    found: dict[int, np.ndarray] = {}
    start = 0
    for batch in batches:
        for number in set(numbers):
            if start <= number < start + len(batch):
                found[number] = np.asarray(batch.images[number - start])
        start += len(batch)
    length = sizes(assessment)[1]
    # From few images only those that count are known: for a recall, one class's.
    if start < length or (start > length and assessment.sampling is None):
        raise ValueError(
            f"dataset must be the one assessed, of {length} images; got {start}"
        )
    images = np.stack([found[number] for number in numbers])
    if images.ndim != 4 or images.shape[3] not in CHANNELS:
        raise ValueError(
            "dataset must hold images [N, H, W, C] with 1, 3 or 4 channels to be "
            f"shown; got images of the shape {images.shape[1:]}"
        )
    return images


def _checked_key(
    assessment: Assessment, alteration: Alteration, key: jax.Array | None
) -> jax.Array | None:
    if not alteration.stochastic:
        return None
    if key is None:
        raise ValueError(
            f"{alteration.name} is stochastic: key must be that of the assessment; got "
            "key=None"
        )
    key = checked_key(key)
    known = assessment.provenance.get("key")
    if known is not None and known != host_array(key).tolist():
        raise ValueError(
            "key must be that of the assessment, or the noise would be another; its "
            f"data are {known}; got {host_array(key).tolist()}"
        )
    return key


def _checked_alteration(
    assessment: Assessment, alteration: Alteration, shape: tuple[int, ...]
) -> Alteration:
    alteration = fingerprinted_alteration(alteration, shape)
    known = assessment.provenance.get("alteration")
    found = alteration_fingerprint(alteration)
    same = all(
        getattr(alteration, part) == getattr(assessment, part)
        for part in ("lower", "upper", "identity")
    )
    same &= alteration.name == assessment.alteration
    if not same or (known and found and known != found):
        raise ValueError(
            f"alteration must be that of the assessment, {assessment.alteration!r} "
            f"over [{assessment.lower:g}, {assessment.upper:g}] and with the same "
            f"settings; got {alteration.name!r} over [{alteration.lower:g}, "
            f"{alteration.upper:g}]"
        )
    return alteration
