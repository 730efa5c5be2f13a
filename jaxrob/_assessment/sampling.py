"""What is known of a robustness of which only a part of the images was looked at."""

from typing import Any, NamedTuple

import numpy as np

from jaxrob._runtime.checks import check_type, checked_integer, checked_number
from jaxrob.metrics import Interval

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
      status: "precise" if the precision is reached, "certain" if a requirement is met
        or missed for certain, "budget" if that ended it, "resolution" if all images at
        the strategy's levels leave more open.
      num_images: how many images of the data set count.
      evaluations: how many altered images were classified.
      seen: integers `[L]`, how many images were looked at, at each level.
      sides: integers `[L]`: 1 accepted, -1 not accepted, 0 open, by all images.
      robustness: the best guess.
      dataset_interval: where the robustness on all images of this data set is.
      population_interval: where it is on all images of the kind tested.
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


def sampling_of(found: Any, totals: np.ndarray) -> Sampling | None:
    """The sampling that a document holds.

    Args:
      found: what it holds.
      totals: integers `[L]`, how many images the counts hold at each level.

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
    if found["precision"] is not None:
        checked_number("sampling: precision", found["precision"], at_least=0)
    if found["budget"] is not None:
        checked_integer("sampling: budget", found["budget"], at_least=1)
    check_type("sampling: curtail", found["curtail"], bool, "true or false")
    checked_number("sampling: error", found["error"], at_least=0, at_most=1)
    if found["status"] not in STATUSES:
        raise ValueError(
            f"sampling: status must be one of {STATUSES}; got {found['status']!r}"
        )
    arrays = {name: _integers(name, found[name], totals) for name in ("seen", "sides")}
    number = checked_integer("sampling: num_images", found["num_images"], at_least=1)
    if (arrays["seen"] != totals).any() or (totals > number).any():
        raise ValueError(
            "sampling: seen must be the numbers of images that the counts hold, and at "
            "most num_images"
        )
    if not np.isin(arrays["sides"], (-1, 0, 1)).all():
        raise ValueError("sampling: sides must be -1, 0 or 1")
    least = int(arrays["seen"].max())
    checked_integer("sampling: evaluations", found["evaluations"], at_least=least)
    intervals = {
        name: _interval(name, found[name])
        for name in ("dataset_interval", "population_interval")
    }
    guess = checked_number("sampling: robustness", found["robustness"])
    for name, (low, high) in intervals.items():
        if not low <= guess <= high:
            raise ValueError(f"sampling: {name} must hold the robustness, {guess:g}")
    return Sampling(**(found | arrays | intervals))


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
