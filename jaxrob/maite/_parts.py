"""An alteration and an assessment as parts of MAITE's evaluations."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_array,
    checked_number,
    checked_share,
)
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._arguments.texts import warn
from jaxrob._classifiers.samples import as_array
from jaxrob._curve import Curve
from jaxrob._dataset import Dataset
from jaxrob._keys import checked_key
from jaxrob.alterations import Alteration
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.maite._sources import class_of
from jaxrob.metrics import ConfidenceInterval, confidence_interval, heaviside_robustness
from jaxrob.metrics._measures import measure_named

# What an augmentation adds to the metadata of an image.
ALTERATION, LEVEL = "jaxrob_alteration", "jaxrob_level"
# Larger indices have another meaning, see `_keys.py`.
_MOST_INDEX = 2**32 - 3

Batch = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
# The predicted class, the label, and how many classes come before the label.
_Answer = tuple[int, int, int]


# Not frozen: MAITE's protocols have metadata that can be written.
@dataclasses.dataclass(eq=False)
class Augmentation:
    """An alteration as a `maite.protocols.image_classification.Augmentation`.

    Every image comes back once for each level, with the same label; the metadata then
    hold "jaxrob_level" and "jaxrob_alteration", which `Robustness` reads.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        blurred = jaxrob.maite.Augmentation(blur, np.linspace(0.0, 2.0, 9))
        metric = jaxrob.maite.Robustness(blur)
        found, _, _ = maite.tasks.evaluate(
            model=model, dataset=dataset, augmentation=blurred, metric=metric
        )

    Images are `[C, H, W]`, uint8 or floating in [0, 1]. They are altered as floats, and
    come back in the type that they had: bytes are rounded.

    Attributes:
      alteration: the alteration.
      levels: `[L]` levels within its range, or one.
      key: a random key, needed if the alteration is stochastic. An image's noise
        depends on the key and its id alone; where ids are 0, 1, 2, ... it is that of
        `jaxrob.assess`.
      metadata: its "id" is the alteration with all its parameters, as text.

    Raises:
      TypeError: if an argument has a wrong type; in the call, if images are neither
        uint8 nor floating.
      ValueError: if a level is outside the range, or a key is missing; in the call, if
        an image is not `[C, H, W]` or outside [0, 1].
    """

    alteration: Alteration
    levels: Any
    key: jax.Array | None = None
    metadata: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        check_type("alteration", self.alteration, Alteration, "a jaxrob.Alteration")
        levels = checked_array("levels", self.levels, "...")
        levels = checked_array("levels", np.atleast_1d(levels), "L")
        self.alteration.canonical(levels)  # Checks their range.
        if self.key is None and self.alteration.stochastic:
            raise ValueError(
                f"{self.alteration.name} is stochastic and needs a key; got key=None"
            )
        self.key = checked_key(jax.random.key(0) if self.key is None else self.key)
        self.levels = levels.astype(np.float64)
        self.metadata = {"id": self.alteration.description}

    def __call__(self, batch: Batch, /) -> Batch:
        """Returns each image at every level, image by image, as MAITE's batches are."""
        _check_batch(batch)
        images, labels, metadata = [], [], []
        # The alteration as it is now, traced once for each shape.
        now = functools.cache(
            functools.partial(fingerprinted_alteration, self.alteration)
        )
        name = self.alteration.description
        for image, label, about in zip(*batch):
            try:
                images += self._altered(np.asarray(as_array(image)), about["id"], now)
            except (TypeError, ValueError) as error:
                raise type(error)(f"image {about['id']!r}: {error}") from error
            labels += [label] * len(self.levels)
            metadata += [
                {**about, ALTERATION: name, LEVEL: level}
                for level in self.levels.tolist()
            ]
        return images, labels, metadata

    def _altered(
        self, image: np.ndarray, identity: Any, now: Callable[..., Alteration]
    ) -> list[np.ndarray]:
        """Returns an image at each level."""
        floats, index = _pixels_of(image), _index_of(identity)
        levels = np.float32(self.alteration.canonical(self.levels))
        altered = _at_levels(now(floats.shape), floats, levels, self.key, index)
        altered = np.moveaxis(np.asarray(altered), -1, 1)
        if image.dtype == np.uint8:
            altered = np.rint(altered * 255)
        return [*altered.astype(image.dtype)]


@functools.partial(jax.jit, static_argnums=0)
def _at_levels(
    alteration: Alteration,
    image: jax.Array,
    levels: jax.Array,
    key: jax.Array,
    index: jax.Array,
) -> jax.Array:
    key = jax.random.fold_in(key, index)
    prepared = alteration.prepared(image, key)
    return jax.lax.map(lambda level: alteration.at_level(prepared, level), levels)


def _check_batch(batch: Any) -> None:
    wanted = "(images, labels, metadata)"
    check_type("batch", batch, tuple | list, wanted)
    if len(batch) != 3 or len({len(part) for part in batch}) > 1:
        lengths = ", ".join(str(len(part)) for part in batch)
        raise ValueError(f"batch must be {wanted}, one for each image; got {lengths}")
    for about in batch[2]:
        if not isinstance(about, Mapping) or "id" not in about:
            raise wrong_type("metadata", "a mapping with an id", about)


def _pixels_of(image: np.ndarray) -> np.ndarray:
    if image.ndim != 3:
        raise ValueError(f"it must have the shape [C, H, W]; got {named(image)}")
    (pixels,) = np.asarray(Dataset(np.moveaxis(image, 0, -1)[None]).images)
    if pixels.dtype == np.uint8:
        return pixels / np.float32(255)
    return pixels.astype(np.float32)


def _index_of(identity: Any) -> np.uint32:
    """Returns the index whose noise an image has: its id, or a digest of it."""
    if type(identity) is int and 0 <= identity <= _MOST_INDEX:
        return np.uint32(identity)
    digest = hashlib.blake2b(str(identity).encode(), digest_size=4).digest()
    return np.uint32(min(int.from_bytes(digest), _MOST_INDEX))


@dataclasses.dataclass(eq=False)
class Robustness:
    """An assessment as a `maite.protocols.image_classification.Metric`.

    It needs a model's answers on images that `Augmentation` altered, see there: every
    image at the same levels, both ends of the range among them.

    Attributes:
      alteration: the alteration, the augmentation's own or an equal one.
      threshold: the lowest accepted value of the measure, in [0, 1].
      measure: the quality measure, see `jaxrob.assess`.
      confidence_level: the coverage of the interval, in (0, 1).
      metadata: its "id" is "robustness to" the alteration.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range.
    """

    alteration: Alteration
    threshold: float = 0.8
    measure: str = "accuracy"
    confidence_level: float = 0.95
    metadata: Any = dataclasses.field(init=False)
    # By level and by the image's id: the outputs' order and the label.
    _answers: dict[float, dict[Any, _Answer]] = dataclasses.field(
        init=False, repr=False
    )
    _num_classes: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_type("alteration", self.alteration, Alteration, "a jaxrob.Alteration")
        self.threshold = checked_share("threshold", self.threshold)
        measure_named(self.measure)  # Checks the name.
        checked_number("confidence_level", self.confidence_level, above=0, below=1)
        self.metadata = {"id": f"robustness to {self.alteration.name}"}
        self.reset()

    def reset(self) -> None:
        """Forgets all answers."""
        self._answers, self._num_classes = {}, 0

    def update(
        self,
        pred_batch: Sequence[Any],
        target_batch: Sequence[Any],
        metadata_batch: Sequence[Any],
        /,
    ) -> None:
        """Takes the answers on a batch.

        Args:
          pred_batch: outputs `[K]`, of which the largest counts; and for a top-k
            accuracy their order.
          target_batch: one-hot labels `[K]`.
          metadata_batch: metadata, as `Augmentation` returns them.

        Raises:
          ValueError: if the numbers differ, the metadata have no level or another
            alteration, an image came twice at a level, an output is NaN or has another
            length, or a label is not one-hot.
        """
        lengths = [len(part) for part in (pred_batch, target_batch, metadata_batch)]
        if len({*lengths}) > 1:
            raise ValueError(
                "outputs, labels and metadata must be one for each image; got "
                f"{lengths[0]}, {lengths[1]} and {lengths[2]}"
            )
        for outputs, target, about in zip(pred_batch, target_batch, metadata_batch):
            at_level = self._answers.setdefault(self._level_of(about), {})
            if about["id"] in at_level:
                raise ValueError(
                    f"image {about['id']!r} came twice at level {about[LEVEL]:g}: each "
                    "needs an id of its own, and reset() comes before another run"
                )
            at_level[about["id"]] = self._answer(outputs, target, about)

    def compute(self) -> dict[str, Any]:
        """Computes the assessment; warns of a model that fails unaltered images.

        Returns:
          "robustness", a float in [0, 1]: the share of the range in which the measure
          is at least the threshold, by straight lines between levels;
          "confidence_interval", see `jaxrob.Assessment`; "levels" and "values", the
          measure at each of them, float64 `[L]`; and "curve", the `jaxrob.Curve` of
          the answers.

        Raises:
          ValueError: if there are no answers, an end of the range is missing, or an
            image was not seen at every level with the same label.
        """
        curve = self._curve()
        levels, counts = curve.levels, curve.counts_for(self.measure)
        values = measure_named(self.measure)(counts)
        for value in values[levels == self.alteration.identity]:
            if value < self.threshold:
                warn(
                    f"unaltered, the {self.measure} is {value:.4g}, already below the "
                    f"threshold {self.threshold:g}: look at the model, its pixels and "
                    "the labels"
                )
        robustness = heaviside_robustness(levels, values, self.threshold, "linear")
        low, high = confidence_interval(
            levels, counts, self.measure, self.threshold, self.confidence_level
        )
        return {
            "robustness": robustness,
            "confidence_interval": ConfidenceInterval(
                min(float(low), robustness), max(float(high), robustness)
            ),
            "levels": levels,
            "values": values,
            "curve": curve,
        }

    def _level_of(self, about: Any) -> float:
        if not isinstance(about, Mapping) or LEVEL not in about:
            raise ValueError(
                f"metadata must hold {LEVEL!r}, as jaxrob.maite.Augmentation adds it; "
                f"got {named(about)}: pass one as augmentation="
            )
        if about.get(ALTERATION) != self.alteration.description:
            raise ValueError(
                f"the images must be altered by {self.alteration.description}; got "
                f"{about.get(ALTERATION)}"
            )
        return float(about[LEVEL])

    def _answer(self, outputs: Any, target: Any, about: Mapping) -> _Answer:
        label, num_classes = class_of(target, f"the label of image {about['id']!r}")
        row = np.asarray(as_array(outputs), np.float32)
        self._num_classes = self._num_classes or num_classes
        if row.shape != (self._num_classes,) or num_classes != self._num_classes:
            raise ValueError(
                f"outputs and labels must have {self._num_classes} classes; got "
                f"{row.shape} and {num_classes} of image {about['id']!r}"
            )
        if np.isnan(row).any():
            raise ValueError(f"outputs must not be NaN, as of image {about['id']!r}")
        # Of equal outputs the first counts.
        rank = (row > row[label]).sum() + (row[:label] == row[label]).sum()
        return int(row.argmax()), label, int(rank)

    def _curve(self) -> Curve:
        """The answers as a curve, if every image was seen at every level."""
        levels = sorted(self._answers)
        ends = [self.alteration.lower, self.alteration.upper]
        if [*levels[:1], *levels[-1:]] != ends:
            raise ValueError(
                f"levels must include both ends of the range, {ends[0]:g} and "
                f"{ends[1]:g}; got {', '.join(f'{one:g}' for one in levels) or 'none'}"
            )
        first = self._answers[levels[0]]
        for level in levels:
            if self._answers[level].keys() != first.keys():
                raise ValueError(
                    f"every image must be seen at every level; got {len(first)} at "
                    f"level {levels[0]:g} and {len(self._answers[level])}, others "
                    f"among them, at level {level:g}"
                )
        rows = [[self._answers[level][image] for image in first] for level in levels]
        predicted, labels, ranks = np.moveaxis(np.array(rows), -1, 0)
        if (labels != labels[0]).any():
            raise ValueError("an image must have the same label at every level")
        kind = np.int16 if self._num_classes < 2**15 else np.int32
        return Curve(
            np.array(levels),
            predicted.astype(kind),
            None,
            None,
            labels[0].astype(np.int32),
            self._num_classes,
            rank=ranks.astype(kind),
        )
