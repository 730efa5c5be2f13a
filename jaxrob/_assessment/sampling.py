"""What is known of a robustness of which only a part of the images was looked at."""

from typing import Any, NamedTuple

import numpy as np

from jaxrob._runtime.checks import check_type, checked_integer, checked_number
from jaxrob._runtime.strict_json import short
from jaxrob.metrics import Interval
from jaxrob.strategies._few.sides import least_count

# Of shares of the range.
_ROUNDING = 1e-9

#: How a sampled assessment may end.
STATUSES = ("precise", "certain", "budget", "resolution")


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

    precision: float | None
    budget: int | None
    curtail: bool
    error: float
    status: str
    num_images: int
    evaluations: int
    seen: np.ndarray
    sides: np.ndarray
    robustness: float
    dataset_interval: Interval
    population_interval: Interval
    required: float | None = None


def sampling_document(sampling: Sampling | None) -> dict[str, Any] | None:
    """Plain JSON values."""
    if sampling is None:
        return None
    return sampling._asdict() | {
        "seen": sampling.seen.tolist(),
        "sides": sampling.sides.tolist(),
        "dataset_interval": list(sampling.dataset_interval),
        "population_interval": list(sampling.population_interval),
    }


class Beside(NamedTuple):
    """What an assessment's document holds beside the sampling.

    Attributes:
      levels: float64 `[L]`.
      confusion: int64 `[L, K, K + 1]`, the counts of the images seen.
      settings: the fields of `Assessment` that are plain values, by name.
      alpha: the confidence level of "unknown" answers, or None.
      points: how many levels were evaluated.
    """

    levels: np.ndarray
    confusion: np.ndarray
    settings: dict[str, Any]
    alpha: float | None
    points: int


def sampling_of(found: Any, beside: Beside) -> Sampling | None:
    """The sampling that a document holds.

    Args:
      found: what it holds.
      beside: what it holds beside it.

    Raises:
      ValueError: if a part is missing or unknown, outside its range, or does not go
        with the others.
      TypeError: if one has another type.
    """
    if found is None:
        return None
    check_type("sampling", found, dict, "an object, or null")
    if set(found) != set(Sampling._fields):
        raise ValueError(f"sampling must have the parts {Sampling._fields}, no more")
    _check_asked(found)
    if found["status"] not in STATUSES:
        raise ValueError(
            f"sampling: status must be one of {STATUSES}; got {found['status']!r}"
        )
    totals = beside.confusion.sum(axis=(1, 2))
    arrays = {name: _integers(name, found[name], totals) for name in ("seen", "sides")}
    number = checked_integer("sampling: num_images", found["num_images"], at_least=1)
    if (arrays["seen"] != totals).any() or (totals > number).any():
        raise ValueError(
            "sampling: seen must be the numbers of images that the counts hold, and at "
            "most num_images"
        )
    if not np.isin(arrays["sides"], (-1, 0, 1)).all():
        raise ValueError("sampling: sides must be -1, 0 or 1")
    checked_integer("sampling: evaluations", found["evaluations"])
    intervals = {
        name: _interval(name, found[name])
        for name in ("dataset_interval", "population_interval")
    }
    guess = checked_number("sampling: robustness", found["robustness"])
    for name, (low, high) in intervals.items():
        if not low <= guess <= high:
            raise ValueError(f"sampling: {name} must hold the robustness, {guess:g}")
    # 0 is 0.0, and written so again.
    names = ("precision", "error", "required", "robustness")
    numbers = {name: float(found[name]) for name in names if found[name] is not None}
    made = Sampling(**(found | arrays | intervals | numbers))
    _check_error(made, beside.settings["confidence_level"])
    _check_cost(made, beside.points)
    _check_end(made)
    _check_sides(made, beside)
    return made


def _check_asked(found: dict[str, Any]) -> None:
    """Refuses what cannot be asked for."""
    asked = [found[name] for name in ("precision", "budget", "required")]
    if found["precision"] is not None:
        checked_number("sampling: precision", asked[0], at_least=0, below=0.5)
    if found["budget"] is not None:
        checked_integer("sampling: budget", asked[1], at_least=1)
    if found["required"] is not None:
        checked_number("sampling: required", asked[2], at_least=0, at_most=1)
    if asked == [None] * 3:
        raise ValueError(
            "sampling: precision, budget and required are all null; what was asked for "
            "is one of them, with curtail a precision of 0"
        )
    check_type("sampling: curtail", found["curtail"], bool, "true or false")
    error = checked_number("sampling: error", found["error"], at_least=0, at_most=1)
    if found["curtail"] != (error == 0):
        raise ValueError(
            f"sampling: error must be 0 with curtail, only then; got {error:g}"
        )


def _check_error(made: Sampling, confidence_level: float) -> None:
    """Refuses a larger error than the confidence level leaves."""
    if made.error > 1 - confidence_level + _ROUNDING:
        raise ValueError(
            f"sampling: error must be at most {1 - confidence_level:g}, by the "
            f"confidence_level; got {made.error:g}"
        )


def _check_cost(made: Sampling, points: int) -> None:
    """Refuses other numbers of levels and images than were seen."""
    levels = len(made.seen)
    checked_integer("diagnostics: points", points, at_least=1, at_most=levels)
    # Of levels of the same effect, one was evaluated.
    total = int(made.seen.sum())
    least = total if points == levels else int(made.seen.max())
    most = total if made.budget is None else min(total, made.budget)
    if not least <= made.evaluations <= most:
        raise ValueError(
            f"sampling: evaluations must lie in [{least}, {most}], by the images seen "
            f"and the budget; got {made.evaluations}"
        )


def _check_end(made: Sampling) -> None:
    """Refuses intervals that the status contradicts, or each other."""
    low, high = made.dataset_interval
    start, end = made.population_interval
    if not start <= low <= high <= end:
        raise ValueError("sampling: population_interval must hold dataset_interval")
    if made.status == "certain" and made.required is None:
        raise ValueError("sampling: status is 'certain', but nothing was required")
    if made.required is not None:
        apart = max(low - made.required, made.required - high)
        # An end on what is required reaches it.
        is_certain = low >= made.required or high < made.required
        if abs(apart) > _ROUNDING and is_certain != (made.status == "certain"):
            raise ValueError(
                f"sampling: status is {made.status!r}, but whether {made.required:g} "
                f"is reached is {'' if is_certain else 'not '}certain by "
                f"dataset_interval, {low:g} to {high:g}"
            )
    if made.precision and made.status != "certain":
        off = (high - low) / 2 - made.precision
        if abs(off) > _ROUNDING and (off < 0) != (made.status == "precise"):
            raise ValueError(
                f"sampling: status is {made.status!r}, but dataset_interval, {low:g} "
                f"to {high:g}, does {'' if off < 0 else 'not '}have the precision "
                f"{made.precision:g}"
            )


def _check_sides(made: Sampling, beside: Beside) -> None:
    """Refuses sides that the counts contradict, and an interval that they do.

    Both are known where levels are decided one by one, for certain or as they are
    given. In other searches they depend on which images were right at which levels,
    which the counts do not tell.
    """
    sides, settings = made.sides, beside.settings
    right = _right(beside)
    if made.curtail and right is not None:
        least = least_count(settings["threshold"], made.num_images)
        left = made.num_images - made.seen
        certain = np.where(right + left < least, -1, 0)
        certain = np.where(right >= least, 1, certain)
        if (sides != certain).any():
            raise ValueError(
                f"sampling: sides must be {certain.tolist()}, by the counts and the "
                "threshold"
            )
    if settings["strategy"] == f"Uniform(n={len(sides)})":
        # 2020 paper, Definition 5.
        least, most = float((sides == 1).mean()), float((sides != -1).mean())
        exact = True
    elif made.curtail:
        # What lies between accepted levels is accepted or open.
        width = np.diff(beside.levels) / (settings["upper"] - settings["lower"])
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
            "sampling: dataset_interval does not go with sides: "
            f"{low:g} to {high:g}, where these are {short(sides.tolist())}"
        )


def _right(beside: Beside) -> np.ndarray | None:
    """How many images count as right at each level, where the measure is their share.

    None where images weigh differently.
    """
    confusion, measure = beside.confusion, beside.settings["measure"]
    total, unknown = confusion.sum(axis=(1, 2)), confusion[..., -1].sum(1)
    if measure == "decided_ratio":
        return total - unknown
    weighs = measure == "recall" and confusion.shape[1] > 2
    if beside.alpha is not None or weighs:
        return None
    return np.trace(confusion, axis1=1, axis2=2)


def _integers(name: str, values: Any, totals: np.ndarray) -> np.ndarray:
    if not isinstance(values, list) or not set(map(type, values)) <= {int}:
        raise ValueError(f"sampling: {name} must be a list of whole numbers")
    if len(values) != len(totals):
        raise ValueError(f"sampling: {name} must have a number for each level")
    return np.array(values, np.int64)


def _interval(name: str, values: Any) -> Interval:
    if not isinstance(values, list) or len(values) != 2:
        raise ValueError(f"sampling: {name} must be two numbers; got {values!r}")
    low, high = (checked_number(f"sampling: {name}", value) for value in values)
    if not 0 <= low <= high <= 1:
        raise ValueError(f"sampling: {name} must ascend and lie in [0, 1]")
    return Interval(low, high)
