"""The conclusions from few images: a robustness, its intervals and their cost."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._codec import Array, Integer, Number, Row, Text, refuse
from jaxrob._files.strict_json import short
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._quality import measure_named, top_k
from jaxrob.strategies._few.sides import certain_side, least_count
from jaxrob.strategies._strategy import STATUSES

# Rounding of shares of the range.
_ROUNDING = 1e-9
_UNIT = Number(at_least=0, at_most=1)
_Interval = Annotated[ConfidenceInterval, Row(_UNIT, ascends=True)]


class Sampling(NamedTuple):
    """The images that an assessment looked at, and what they leave open.

    Attributes:
      half_width: the half width of `dataset_interval` asked for, or None.
      budget: the largest number of altered images allowed, or None.
      curtail: whether levels were decided only when the unseen images could not change
        them.
      error: the probability that `dataset_interval` misses, in all; 0 with `curtail`.
        None for a user's own strategy, of which no few-image answer was asked.
      status: "precise" if the half width is reached, "certain" if `required` is
        certainly met or certainly missed, "compared" if `compare_sequentially` ended
        it, with its answer, "budget" if the budget did, "resolution" if all images at
        the strategy's levels leave more open.
      num_images: the number of images of the data set that count.
      evaluations: the number of altered images classified.
      seen: integers `[L]`, the number of images looked at, at each level.
      sides: integers `[L]`: 1 accepted, -1 not accepted, 0 open, by all images.
      robustness: the estimate.
      dataset_interval: the interval of the robustness on all images of this data set.
      population_interval: the interval of the robustness on all images of the kind
        tested.
      required: the required robustness, whose certain answer ends the search, or None.
    """

    half_width: Annotated[float | None, Number(at_least=0, below=0.5)]
    budget: Annotated[int | None, Integer(at_least=1)]
    curtail: bool
    error: Annotated[float | None, _UNIT]
    status: Annotated[str, Text(allowed=STATUSES)]
    num_images: Annotated[int, Integer(at_least=1)]
    evaluations: Annotated[int, Integer(0, 2**53)]
    seen: Annotated[np.ndarray, Array("L", "int64", at_least=0)]
    sides: Annotated[np.ndarray, Array("L", "int64", at_least=-1, at_most=1)]
    robustness: float
    dataset_interval: _Interval
    population_interval: _Interval
    required: Annotated[float | None, _UNIT] = None

    def _check_together(self) -> None:
        """Rejects parts that contradict each other."""
        refuse(
            self.curtail != (self.error == 0),
            f"error must be 0 with curtail, only then; got {self.error}",
        )
        is_asked = not self.half_width is self.budget is self.required is None
        refuse(
            is_asked == (self.error is None),
            "error must be null where half_width, budget and required are, only there",
        )
        low, high = self.dataset_interval
        start, end = self.population_interval
        refuse(
            not low <= self.robustness <= high,
            f"dataset_interval must hold the robustness, {self.robustness:g}",
        )
        refuse(
            not start <= low <= high <= end,
            "population_interval must hold dataset_interval",
        )
        self._check_status(low, high)

    def _check_status(self, low: float, high: float) -> None:
        """Rejects a status that the interval contradicts."""
        required, is_certain = self.required, self.status == "certain"
        but = f"status is {self.status!r}, but"
        refuse(is_certain and required is None, f"{but} nothing was required")
        if required is not None:
            # An interval that starts at the requirement reaches it.
            known = low >= required or high < required
            is_clear = abs(max(low - required, required - high)) > _ROUNDING
            refuse(
                is_clear and known != is_certain,
                f"{but} whether {required:g} is reached is {'' if known else 'not '}"
                f"certain by dataset_interval, {low:g} to {high:g}",
            )
        if self.half_width and not is_certain:
            off = (high - low) / 2 - self.half_width
            refuse(
                abs(off) > _ROUNDING and (off < 0) != (self.status == "precise"),
                f"{but} dataset_interval, {low:g} to {high:g}, does "
                f"{'' if off < 0 else 'not '}have the half width {self.half_width:g}",
            )


def check_sampling(made: Sampling, one: Any) -> None:
    """Rejects a sampling that contradicts its assessment.

    Raises:
      ValueError: if it contradicts the assessment.
    """
    totals = one.curve.counts.inputs.sum(-1)
    refuse(
        (made.seen != totals) | (totals > made.num_images),
        "sampling.seen must be the numbers of images that the counts hold, and at most "
        "num_images",
    )
    refuse(
        isinstance(one.curve, ScoreCurve) and one.curve.num_images != made.num_images,
        f"sampling.num_images must be that of the scores; got {made.num_images}",
    )
    left, error = 1 - one.confidence_level, made.error
    refuse(
        error is not None and error > left + _ROUNDING,
        f"sampling.error must be at most {left:g}, by the confidence_level; got "
        f"{error}",
    )
    levels, points = len(made.seen), one.diagnostics.points
    refuse(
        points > levels, f"diagnostics.points must be at most {levels}; got {points}"
    )
    # Levels of the same effect were evaluated once.
    total = int(made.seen.sum())
    least = total if points == levels else int(made.seen.max())
    most = total if made.budget is None else min(total, made.budget)
    refuse(
        not least <= made.evaluations <= most,
        f"sampling.evaluations must lie in [{least}, {most}], by the images seen and "
        f"the budget; got {made.evaluations}",
    )
    if made.curtail:
        _check_certain_sides(made, one)
    _check_interval(made, one)


def _check_certain_sides(made: Sampling, one: Any) -> None:
    """Rejects sides that the counts contradict, where levels are decided for certain.

    In other searches the sides depend on which images were right at which levels, which
    the counts do not show.
    """
    if isinstance(one.curve, ScoreCurve):
        about = one.threshold, made.num_images, (0.0, 1.0)
        rows = (row[~np.isnan(row)] for row in one.curve.scores)
        certain = np.array([certain_side(row, *about) for row in rows])
        refuse(
            made.sides != certain,
            f"sampling.sides must be {certain.tolist()}, by the scores and the "
            "threshold",
        )
        return
    right = _right(one)
    if right is None:
        return
    least = least_count(one.threshold, made.num_images)
    left = made.num_images - made.seen
    certain = np.where(right + left < least, -1, 0)
    certain = np.where(right >= least, 1, certain)
    refuse(
        made.sides != certain,
        f"sampling.sides must be {certain.tolist()}, by the counts and the threshold",
    )


def _check_interval(made: Sampling, one: Any) -> None:
    """Rejects an interval that the sides contradict, where they alone decide it."""
    sides, (low, high) = made.sides, made.dataset_interval
    if one.strategy == f"Uniform(n={len(sides)})":
        # 2020 paper, Definition 5.
        least, most = float((sides == 1).mean()), float((sides != -1).mean())
        off = max(abs(low - least), abs(most - high))
    elif made.curtail:
        # Intervals between accepted levels are accepted or open.
        width = np.diff(one.levels) / (one.upper - one.lower)
        first, last = sides[:-1], sides[1:]
        least = 1 - float(width[(first == -1) | (last == -1)].sum())
        most = float(width[(first == 1) & (last == 1)].sum())
        off = max(low - least, most - high)
    else:
        return
    refuse(
        off > _ROUNDING,
        f"sampling.dataset_interval does not go with sides: {low:g} to {high:g}, where "
        f"these are {short(sides.tolist())}",
    )


def _right(one: Any) -> np.ndarray | None:
    """Returns the number of right images at each level, if the measure is their share.

    Returns None where images weigh differently.
    """
    counts = one.counts
    if one.measure == "decided_ratio":
        return counts.decided.sum(-1)
    weighs = one.measure == "recall" and counts.num_classes > 2
    if one.curve.alpha is not None or weighs:
        return None
    if top_k(one.measure) is not None:
        return measure_named(one.measure).ratio(counts.summed()).numerator
    return counts.correct.sum(-1)
