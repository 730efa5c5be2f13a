"""What is known of a robustness of which only a part of the images was looked at."""

from typing import Annotated, NamedTuple

import numpy as np

from jaxrob._codec import Array, Integer, Number, Row, Text
from jaxrob._curve import Curve, ReducedCurve
from jaxrob._runtime.strict_json import short
from jaxrob._sequential.decide import least_count
from jaxrob.metrics import Interval
from jaxrob.strategies import Question

# Of shares of the range.
_ROUNDING = 1e-9

#: How a sampled assessment may end.
STATUSES = ("precise", "certain", "budget", "resolution")
_UNIT = Number(at_least=0, at_most=1)
_Interval = Annotated[Interval, Row(_UNIT, ascends=True)]


class Sampling(NamedTuple):
    """How few images an assessment looked at, and what they leave open.

    Attributes:
      precision: the half width of `dataset_interval` that was asked for; None if only a
        budget was.
      budget: the most altered images that were to be classified, or None.
      curtail: whether levels were decided only when the images left could not change
        them.
      error: the probability that `dataset_interval` misses, in all; 0 with `curtail`.
      status: "precise" if the precision is reached, "certain" if `required` is met or
        missed for certain, "budget" if that ended it, "resolution" if all images at
        the strategy's levels leave more open.
      num_images: how many images of the data set count.
      evaluations: how many altered images were classified.
      seen: integers `[L]`, how many images were looked at, at each level.
      sides: integers `[L]`: 1 accepted, -1 not accepted, 0 open, by all images.
      robustness: the best guess.
      dataset_interval: where the robustness on all images of this data set is.
      population_interval: where it is on all images of the kind tested.
      required: the robustness that was required, so that it ended once that was
        certain, or None.
    """

    precision: Annotated[float | None, Number(at_least=0, below=0.5)]
    budget: Annotated[int | None, Integer(at_least=1)]
    curtail: bool
    error: Annotated[float, _UNIT]
    status: Annotated[str, Text(allowed=STATUSES)]
    num_images: Annotated[int, Integer(at_least=1)]
    evaluations: int
    seen: Annotated[np.ndarray, Array("L", "int64", at_least=0)]
    sides: Annotated[np.ndarray, Array("L", "int64", at_least=-1, at_most=1)]
    robustness: float
    dataset_interval: _Interval
    population_interval: _Interval
    required: Annotated[float | None, _UNIT] = None

    def _check_together(self) -> None:
        """Refuses parts that contradict each other."""
        if self.precision is self.budget is self.required is None:
            raise ValueError(
                "precision, budget and required are all null; what was asked for is "
                "one of them, with curtail a precision of 0"
            )
        if self.curtail != (self.error == 0):
            raise ValueError(
                f"error must be 0 with curtail, only then; got {self.error:g}"
            )
        low, high = self.dataset_interval
        start, end = self.population_interval
        if not low <= self.robustness <= high:
            raise ValueError(
                f"dataset_interval must hold the robustness, {self.robustness:g}"
            )
        if not start <= low <= high <= end:
            raise ValueError("population_interval must hold dataset_interval")
        self._check_certain(low, high)
        self._check_precise(low, high)

    def _check_certain(self, low: float, high: float) -> None:
        required = self.required
        if self.status == "certain" and required is None:
            raise ValueError("status is 'certain', but nothing was required")
        if required is None:
            return
        # An end on what is required reaches it.
        is_certain = low >= required or high < required
        is_clear = abs(max(low - required, required - high)) > _ROUNDING
        if is_clear and is_certain != (self.status == "certain"):
            raise ValueError(
                f"status is {self.status!r}, but whether {required:g} is reached is "
                f"{'' if is_certain else 'not '}certain by dataset_interval, "
                f"{low:g} to {high:g}"
            )

    def _check_precise(self, low: float, high: float) -> None:
        if not self.precision or self.status == "certain":
            return
        off = (high - low) / 2 - self.precision
        if abs(off) > _ROUNDING and (off < 0) != (self.status == "precise"):
            raise ValueError(
                f"status is {self.status!r}, but dataset_interval, {low:g} to "
                f"{high:g}, does {'' if off < 0 else 'not '}have the precision "
                f"{self.precision:g}"
            )


class Beside(NamedTuple):
    """What an assessment holds beside the sampling.

    Attributes:
      question: the range and the threshold.
      curve: the counts of the images seen.
      measure: the measure's name.
      strategy: the strategy, as text.
      points: how many levels were evaluated.
      confidence_level: of the intervals.
    """

    question: Question
    curve: Curve | ReducedCurve
    measure: str
    strategy: str
    points: int
    confidence_level: float


def check_beside(made: Sampling, beside: Beside) -> None:
    """Refuses a sampling that does not go with the rest of the assessment.

    Raises:
      ValueError: if it does not.
    """
    totals = beside.curve.confusion.sum(axis=(1, 2))
    if (made.seen != totals).any() or (totals > made.num_images).any():
        raise ValueError(
            "sampling.seen must be the numbers of images that the counts hold, and at "
            "most num_images"
        )
    if made.error > 1 - beside.confidence_level + _ROUNDING:
        raise ValueError(
            f"sampling.error must be at most {1 - beside.confidence_level:g}, by the "
            f"confidence_level; got {made.error:g}"
        )
    _check_cost(made, beside.points)
    if made.curtail:
        _check_certain_sides(made, beside)
    _check_sides(made, beside)


def _check_cost(made: Sampling, points: int) -> None:
    """Refuses other numbers of levels and images than were seen."""
    levels = len(made.seen)
    if points > levels:
        raise ValueError(f"diagnostics.points must be at most {levels}; got {points}")
    # Of levels of the same effect, one was evaluated.
    total = int(made.seen.sum())
    least = total if points == levels else int(made.seen.max())
    most = total if made.budget is None else min(total, made.budget)
    if not least <= made.evaluations <= most:
        raise ValueError(
            f"sampling.evaluations must lie in [{least}, {most}], by the images seen "
            f"and the budget; got {made.evaluations}"
        )


def _check_certain_sides(made: Sampling, beside: Beside) -> None:
    """Refuses sides that the counts contradict, where levels are decided for certain.

    In other searches they depend on which images were right at which levels, which the
    counts do not tell.
    """
    right = _right(beside)
    if right is None:
        return
    least = least_count(beside.question.threshold, made.num_images)
    left = made.num_images - made.seen
    certain = np.where(right + left < least, -1, 0)
    certain = np.where(right >= least, 1, certain)
    if (made.sides != certain).any():
        raise ValueError(
            f"sampling.sides must be {certain.tolist()}, by the counts and the "
            "threshold"
        )


def _check_sides(made: Sampling, beside: Beside) -> None:
    """Refuses an interval that the sides contradict, where they alone decide it."""
    sides, question = made.sides, beside.question
    if beside.strategy == f"Uniform(n={len(sides)})":
        # 2020 paper, Definition 5.
        least, most = float((sides == 1).mean()), float((sides != -1).mean())
        exact = True
    elif made.curtail:
        # What lies between accepted levels is accepted or open.
        width = np.diff(beside.curve.levels) / (question.upper - question.lower)
        first, last = sides[:-1], sides[1:]
        least = 1 - float(width[(first == -1) | (last == -1)].sum())
        most = float(width[(first == 1) & (last == 1)].sum())
        exact = False
    else:
        return
    low, high = made.dataset_interval
    off = (low - least, most - high)
    if max(map(abs, off) if exact else off) > _ROUNDING:
        raise ValueError(
            "sampling.dataset_interval does not go with sides: "
            f"{low:g} to {high:g}, where these are {short(sides.tolist())}"
        )


def _right(beside: Beside) -> np.ndarray | None:
    """How many images count as right at each level, where the measure is their share.

    None where images weigh differently.
    """
    confusion, measure = beside.curve.confusion, beside.measure
    total, unknown = confusion.sum(axis=(1, 2)), confusion[..., -1].sum(1)
    if measure == "decided_ratio":
        return total - unknown
    weighs = measure == "recall" and confusion.shape[1] > 2
    if beside.curve.alpha is not None or weighs:
        return None
    return np.trace(confusion, axis1=1, axis2=2)
