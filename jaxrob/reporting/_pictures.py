"""Pictures of an alteration, for reports."""

import functools
import io
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob._arguments.texts import required
from jaxrob._assessment.assessment import Assessment
from jaxrob._curve import Curve, ScoreCurve
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._domain import AnyAlteration, Domain
from jaxrob._engine.provenance import alteration_fingerprint, dataset_fingerprint
from jaxrob._engine.step import UNALTERED
from jaxrob._engine.tasks import alter
from jaxrob._identity.identity import host_array
from jaxrob._keys import alteration_keys, checked_key
from jaxrob._numbers import as_floats
from jaxrob.alterations import Alteration
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.alterations._recorded import Recorded, paired
from jaxrob.domains._results import Corners
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
    pil = required("PIL.Image", "a picture", "command")
    picture = pil.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    if side is not None and max(picture.size) > side:
        picture.thumbnail((side, side), pil.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def corners(domain: Domain, dataset: Dataset, key: jax.Array) -> Corners | None:
    images, number = dataset.images, len(domain.alterations)
    if images.ndim != 4 or images.shape[3] not in CHANNELS:
        return None
    # Of many corners some that are spread, the first and the last among them.
    most = min(2**number, MOST_PICTURES - 1)
    chosen = np.linspace(0, 2**number - 1, most).round().astype(np.int64)
    is_upper = chosen[:, None] >> np.arange(number)[::-1] & 1
    levels = np.where(is_upper, domain.upper, domain.lower)
    levels = levels[(levels != domain.identity).any(axis=1)]
    levels = np.vstack([domain.identity, levels])
    some = min(len(dataset), MOST_PICTURES // len(levels))
    index = np.repeat(np.arange(some, dtype=np.uint32), len(levels))
    levels = np.tile(levels, (some, 1))
    canonical = domain.canonical(levels).astype(np.float32)
    unaltered = np.asarray(images[:some])[index]
    found = _altered(unaltered, canonical, index, key, alteration=domain)
    scale = min(1, _SIDE / max(found.shape[1:3]))
    height, width = (max(1, round(one * scale)) for one in found.shape[1:3])
    shape = len(found), height, width, found.shape[3]
    return Corners(_as_bytes(jax.image.resize(found, shape, "linear")), levels)


def _as_bytes(images: np.ndarray | jax.Array) -> np.ndarray:
    return np.round(255 * np.clip(images, 0, 1)).astype(np.uint8)


_SIDE = 72  # Of pictures at corners, in pixels.
_View = tuple[int, str, float]  # An image's number, what it is shown as, the level.


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
      ValueError: if the assessment is of another alteration, key or data set, the
        images are no pictures, a key is missing, or `most` is out of range.
    """
    _check(assessment, alteration, dataset)
    most = checked_integer("most", most, at_least=3, at_most=MOST_PICTURES)
    return _drawn(assessment, alteration, dataset, key, _shown(assessment, most))


def failing_pictures(
    assessment: Assessment,
    alteration: Alteration,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None,
    most: int,
) -> list[tuple[Picture, Picture]]:
    """The images that fail first, unaltered and at the level where they fail."""
    _check(assessment, alteration, dataset)
    identity, first = assessment.identity, assessment.first_failing_level
    shown = [
        view
        for number in first_to_fail(assessment)[:most]
        for view in (
            (number, "unaltered", identity),
            (number, "first failure", float(first[number])),
        )
    ]
    # Without a failure another picture is drawn, which checks the arguments.
    shown = shown or [(0, "unaltered", identity)]
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
    shown: Sequence[_View],
) -> tuple[Picture, ...]:
    key = _checked_key(assessment, alteration, key)
    numbers, _, levels = zip(*shown)
    images = _images(assessment, dataset, numbers)
    alteration = paired(alteration, dataset)
    alteration = _checked_alteration(assessment, alteration, images.shape[1:])
    if isinstance(alteration, Recorded):
        read = [*map(as_floats, images)]
        for at, (number, level) in enumerate(zip(numbers, levels)):
            if (other := alteration.pictures.at[level]) is not None:
                read[at] = as_floats(np.asarray(other.images[number]))
        images, alteration, levels = np.stack(read), UNALTERED, np.zeros(len(read))
    canonical = alteration.canonical(np.array(levels)).astype(np.float32)
    found = altered(images, canonical, np.array(numbers, np.uint32), key, alteration)
    return tuple(
        _picture(assessment, dataset, image, *one)
        for image, one in zip(_as_bytes(found), shown)
    )


def altered(
    images: np.ndarray,
    levels: np.ndarray,
    index: np.ndarray,
    key: jax.Array,
    alteration: Alteration,
) -> np.ndarray:
    # By the program of a run, if there is one: equal, and there is none to compile.
    found = alter(images, levels, index, key, alteration)
    if found is None:
        found = np.asarray(_altered(images, levels, index, key, alteration=alteration))
    return found


@functools.partial(jax.jit, static_argnames="alteration")
def _altered(
    images: jax.Array,
    levels: jax.Array,
    index: jax.Array,
    key: jax.Array,
    *,
    alteration: AnyAlteration,
) -> jax.Array:
    """Alters each image at its level, with its own noise; `[n, H, W, C]`."""

    def one(image: jax.Array, level: jax.Array, key: jax.Array) -> jax.Array:
        prepared = alteration.prepared(image, key if alteration.stochastic else None)
        return alteration.at_level(prepared, level)

    return jax.vmap(one)(as_floats(images), levels, alteration_keys(key, index))


def _shown(assessment: Assessment, most: int) -> list[_View]:
    identity, curve = assessment.identity, assessment.curve
    ends = {"lower end": assessment.lower, "upper end": assessment.upper}
    views = [(name, level) for name, level in ends.items() if level != identity]
    views = [("unaltered", identity), *views]
    bad, failing, levels = "first failure", [], np.zeros(0)
    if isinstance(curve, ScoreCurve):
        bad, (scores, levels) = "lowest score", curve.lowest(identity)
        failing = _sorted(assessment, levels, scores)
    elif isinstance(curve, Curve):  # Others have no single answers.
        levels, failing = assessment.first_failing_level, first_to_fail(assessment)
    few = max(1, most // 2 // len(views)) * len(views)
    failing = failing[: (most - few) // 2]
    typical = _typical(assessment, (most - 2 * len(failing)) // len(views))
    shown = [(number, *view) for number in typical for view in views]
    for number in failing:
        unaltered = number, "unaltered", identity
        # A typical image is shown unaltered already.
        shown += [unaltered] * (unaltered not in shown)
        shown.append((number, bad, float(levels[number])))
    return shown


def first_to_fail(assessment: Assessment) -> list[int]:
    """Returns the images that fail, the earliest failure first; none at once."""
    first = assessment.first_failing_level
    return _sorted(assessment, first, np.abs(first - assessment.identity))


def _sorted(one: Assessment, levels: np.ndarray, order: np.ndarray) -> list[int]:
    numbers = np.flatnonzero(~np.isnan(order) & ~is_at_once(one, levels))
    return numbers[np.argsort(order[numbers], kind="stable")].tolist()


def _typical(assessment: Assessment, count: int) -> list[int]:
    number = sizes(assessment)[1]
    first = np.array([], int)
    if isinstance(assessment.curve, Curve):
        _, first = np.unique(assessment.curve.labels, return_index=True)
    others = np.setdiff1d(np.arange(min(number, count + len(first))), first)
    return np.append(first, others)[:count].tolist()


def _picture(
    assessment: Assessment,
    dataset: Dataset | BatchedDataset,
    image: np.ndarray,
    number: int,
    view: str,
    level: float,
) -> Picture:
    label = predicted = None
    curve = assessment.curve
    if isinstance(curve, Curve):
        label = int(curve.labels[number])
        # The strategy may have skipped this level.
        if len(at := np.flatnonzero(curve.levels == level)):
            predicted = int(curve.predicted[at[0], number])
            if curve.unknown[at[0], number]:
                predicted = curve.num_classes
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
    known = assessment.provenance.get("dataset", {}).get("fingerprint")
    same = assessment.is_stability or known in (None, dataset_fingerprint(dataset))
    if start < length or not same:
        raise ValueError(
            f"dataset must be the one assessed, of {length} images; got {start} others"
        )
    images = np.stack([found[number] for number in numbers])
    if images.ndim != 4 or images.shape[3] not in CHANNELS:
        raise ValueError(
            f"dataset must be [N, H, W, C] of 1, 3 or 4 channels; got {images.shape}"
        )
    return images


def _checked_key(
    assessment: Assessment, alteration: Alteration, key: jax.Array | None
) -> jax.Array:
    if not alteration.stochastic:
        return jax.random.key(0)
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
