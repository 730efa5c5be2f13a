"""An assessment as a metric of MAITE's."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrob._adapters.samples import as_array
from jaxrob._arguments.checks import check_type, checked_share
from jaxrob._arguments.naming import named
from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.diagnostics import Diagnostics, diagnose
from jaxrob._assessment.explore import Exploration
from jaxrob._assessment.mistakes import look_at_curve
from jaxrob._assessment.scoring import Scoring
from jaxrob._curve import Curve
from jaxrob.alterations import Alteration
from jaxrob.maite._dataset import class_of
from jaxrob.maite._metadata import ALTERATION, LEVEL
from jaxrob.metrics import (
    ConfidenceInterval,
    confidence_interval,
    heaviside_robustness,
)
from jaxrob.metrics._checks import checked_confidence_level
from jaxrob.metrics._quality import measure_named
from jaxrob.strategies import History, Task

_RULE = "linear"


@dataclasses.dataclass(eq=False)
class Robustness:
    """An assessment as a `maite.protocols.image_classification.Metric`.

    It is computed from a model's answers on images that `Augmentation` altered: every
    image at the same levels, both ends of the range among them. See `Augmentation` for
    an example.

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
    _answers: dict[float, dict[Any, "_Answer"]] = dataclasses.field(
        init=False, repr=False
    )
    _num_classes: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_type("alteration", self.alteration, Alteration, "a jaxrob.Alteration")
        checked_share("threshold", self.threshold)
        measure_named(self.measure)
        checked_confidence_level(self.confidence_level)
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
        """Computes the assessment.

        It warns of a curve as `jaxrob.assess` does.

        Returns:
          "robustness", a float in [0, 1]: the share of the range in which the measure
          is at least the threshold, by straight lines between levels;
          "confidence_interval", see `jaxrob.Assessment`; "levels" and "values", the
          measure at each of them, float64 `[L]`; "diagnostics", the
          `jaxrob.Diagnostics` of the levels; and "curve", the `jaxrob.Curve` of the
          answers.

        Raises:
          ValueError: if there are no answers, an end of the range is missing, or an
            image was not seen at every level with the same label.
        """
        curve = self._curve()
        measure, counts = measure_named(self.measure), curve.counts_for(self.measure)
        levels, values = curve.levels, measure(counts)
        robustness = heaviside_robustness(levels, values, self.threshold, _RULE)
        robustness = float(robustness)
        about = self.measure, self.threshold, self.confidence_level
        low, high = confidence_interval(levels, counts, *about)
        return {
            "robustness": robustness,
            "confidence_interval": ConfidenceInterval(
                min(float(low), robustness), max(float(high), robustness)
            ),
            "levels": levels,
            "values": values,
            "diagnostics": self._diagnosed(curve, values, measure.num_inputs(counts)),
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

    def _answer(self, outputs: Any, target: Any, about: Mapping) -> "_Answer":
        label, num_classes = class_of(target, f"the label of image {about['id']!r}")
        found = np.asarray(as_array(outputs), np.float32)
        self._num_classes = self._num_classes or num_classes
        if found.shape != (self._num_classes,) or num_classes != self._num_classes:
            raise ValueError(
                f"outputs and labels must have {self._num_classes} classes; got "
                f"{found.shape} and {num_classes} of image {about['id']!r}"
            )
        if np.isnan(found).any():
            raise ValueError(f"outputs must not be NaN, as of image {about['id']!r}")
        before = (found > found[label]) | (
            (found == found[label]) & (np.arange(num_classes) < label)
        )
        return int(found.argmax()), label, int(before.sum())

    def _curve(self) -> Curve:
        """Returns the answers as a curve.

        Raises:
          ValueError: see `compute`.
        """
        levels = np.array(sorted(self._answers))
        ends = self.alteration.lower, self.alteration.upper
        if not len(levels) or (levels[0], levels[-1]) != ends:
            raise ValueError(
                f"levels must include both ends of the range, {ends[0]:g} and "
                f"{ends[1]:g}; got {', '.join(f'{one:g}' for one in levels) or 'none'}"
            )
        ids = [*self._answers[levels[0]]]
        for level in levels.tolist():
            if {*self._answers[level]} != {*ids}:
                raise ValueError(
                    f"every image must be seen at every level; got {len(ids)} at level "
                    f"{levels[0]:g} and {len(self._answers[level])}, others among "
                    f"them, at level {level:g}"
                )
        rows = [[self._answers[level][one] for one in ids] for level in levels.tolist()]
        predicted, labels, ranks = np.moveaxis(np.array(rows), -1, 0)
        if (labels != labels[0]).any():
            raise ValueError("an image must have the same label at every level")
        kind = np.int16 if self._num_classes < 2**15 else np.int32
        return Curve(
            levels,
            predicted.astype(kind),
            None,
            None,
            labels[0].astype(np.int32),
            self._num_classes,
            rank=ranks.astype(kind),
        )

    def _diagnosed(
        self, curve: Curve, values: np.ndarray, inputs: np.ndarray
    ) -> Diagnostics:
        """Returns the curve's diagnostics, and warns as `jaxrob.assess` does."""
        one = self.alteration
        effects = np.unique(one.canonical(curve.levels), return_inverse=True)[1]
        history = History(curve.levels, values, inputs, effects, rounds=1)
        task = Task(one.lower, one.upper, self.threshold, one.identity)
        found = diagnose(task, history, len(history.distinct))
        scoring = Scoring(None, None, None)
        criterion = Criterion(self.threshold, self.measure, None, scoring)
        explored = Exploration(curve, history, None, found, None, 0.0)
        look_at_curve(one, explored, criterion)
        return found


# The predicted class, the label, and how many classes come before the label.
_Answer = tuple[int, int, int]
