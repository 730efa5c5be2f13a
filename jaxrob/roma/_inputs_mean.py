"""The mean over all inputs, from those that were looked at in random order."""

from typing import NamedTuple

import numpy as np

from jaxrob.metrics._evidence import mean_interval

# As if inputs without end were left: an interval of the population that they are from.
_POPULATION = 2**40


class InputsMean(NamedTuple):
    """A mean over inputs; NaN where a value looked at is not known.

    Attributes:
      mean: over those looked at.
      low: what that over all inputs is at least.
      high: what it is at most.
    """

    mean: float
    low: float
    high: float


def inputs_mean(values: np.ndarray, total: int, error: float) -> InputsMean:
    """The mean of a value over all of so many inputs."""
    # The interval is by betting without replacement (Waudby-Smith and Ramdas 2020), and
    # holds however one decides when to stop.
    if not len(values):
        return InputsMean(np.nan, 0.0, 1.0)
    mean = float(values.mean())
    if np.isnan(mean) or len(values) == total:
        return InputsMean(mean, mean, mean)
    low, high = mean_interval(values, total, error, (0.0, 1.0))
    return InputsMean(mean, float(low), float(high))


def population_mean(values: np.ndarray, error: float) -> InputsMean:
    """The mean over the population that the inputs are a random sample from."""
    return inputs_mean(values, _POPULATION, error)


def check_places(place: np.ndarray) -> None:
    """Refuses places that are not 0, 1, ... once each, and -1."""
    given = np.sort(place[place >= 0])
    if place.min() < -1 or not np.array_equal(given, np.arange(len(given))):
        raise ValueError(
            "place must be 0, 1, ... once each, or -1 for inputs not looked at"
        )


def in_order(chosen: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The positions of inputs that are chosen and were looked at, in that order."""
    mine = np.flatnonzero(chosen & (place >= 0))
    return mine[np.argsort(place[mine])]


def means_by_category(
    values: np.ndarray, place: np.ndarray, categories: np.ndarray, error: float
) -> list[InputsMean]:
    """The mean over each category's inputs."""
    # All intervals hold together with that of `mean_of_all`.
    present, found = np.unique(categories), []
    for number in present:
        mine = categories == number
        seen = values[in_order(mine, place)]
        found.append(inputs_mean(seen, int(mine.sum()), _share(error, len(present))))
    return found


def mean_of_all(
    values: np.ndarray, place: np.ndarray, categories: np.ndarray, error: float
) -> InputsMean:
    """The mean over all inputs: each category's, by its share of the inputs."""
    # It is at least and at most what the categories' are together, and what those
    # inputs say that were looked at before any category was left out.
    order = in_order(np.ones(len(place), bool), place)
    if len(order) == len(place):
        return inputs_mean(values, len(place), error)
    present, counts = np.unique(categories, return_counts=True)
    means = np.array(means_by_category(values, place, categories, error))
    mean, low, high = (counts @ means / len(place)).tolist()
    # Up to here, inputs are a random sample of all.
    last = [place[categories == number] for number in present]
    together = min(int(one.max()) + 1 for one in last if one.min() < 0)
    sample = values[order[:together]]
    first = inputs_mean(sample, len(place), _share(error, len(present)))
    return InputsMean(mean, max(low, first.low), min(high, first.high))


def _share(error: float, num_categories: int) -> float:
    """Each interval's share of the error: one a category, and one of all inputs."""
    return error / (num_categories + 1) if num_categories > 1 else error
