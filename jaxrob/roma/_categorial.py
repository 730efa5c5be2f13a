"""Categorial robustness: categories side by side (Levy and Katz 2022, experiment 3)."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_array, checked_integer, checked_names
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.metrics._testing import holm
from jaxrob.metrics._testing import mean_interval as betting_interval
from jaxrob.roma._bounded_mean import mean_interval

# As if inputs without end were left: an interval of the population that they are from.
_POPULATION = 2**40


class InputsMean(NamedTuple):
    """A mean over inputs; NaN where a value looked at is not known."""

    mean: float  # over those looked at
    low: float  # what that over all inputs is at least
    high: float  # what it is at most


def inputs_mean(values: np.ndarray, total: int, error: float) -> InputsMean:
    # Betting without replacement (Waudby-Smith and Ramdas 2020), however one stops.
    if not len(values):
        return InputsMean(np.nan, 0.0, 1.0)
    mean = float(values.mean())
    if np.isnan(mean) or len(values) == total:
        return InputsMean(mean, mean, mean)
    low, high = betting_interval(values, total, error, (0.0, 1.0))
    return InputsMean(mean, float(low), float(high))


def in_order(chosen: np.ndarray, place: np.ndarray) -> np.ndarray:
    mine = np.flatnonzero(chosen & (place >= 0))
    return mine[np.argsort(place[mine])]


def means_by_category(
    values: np.ndarray, place: np.ndarray, categories: np.ndarray, error: float
) -> list[InputsMean]:
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
    # Between the categories' bounds, and by inputs seen before any was left out.
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
    return error / (num_categories + 1) if num_categories > 1 else error


class LocalAnswers(NamedTuple):
    """Probabilities of a distinct misclassification near N inputs; arrays `[N]`."""

    probability: np.ndarray  # an estimate; NaN where nothing is known
    low: np.ndarray  # what it is at least
    high: np.ndarray  # what it is at most
    answered: np.ndarray  # whether there is an answer
    variance: np.ndarray  # of the estimate, by the draws; NaN where it is not known
    groups: np.ndarray | None = None  # equal where inputs belong together


def plr_of_all(
    plr: np.ndarray, hits: np.ndarray | None, num_samples: int
) -> np.ndarray:
    """Each input's plr; without an answer, its share of draws that are no hit."""
    if hits is None:
        return plr
    counted = np.where(hits < 0, np.nan, 1 - hits / num_samples)
    return np.where(np.isnan(plr), counted, plr)


Group = TypeVar("Group")
# With fewer inputs Welch's test alone finds differences between equal populations.
_FEW = 30


class Categorial(NamedTuple):
    """How robust each of C categories is, and which differ.

    Attributes:
      names: the categories' names.
      inputs: int `[C]`, inputs in each.
      seen: int `[C]`, those that were looked at, which all that follows is of.
      answered: int `[C]`, those with an answer.
      plr: `[C]` mean plr of the answered.
      interval: `[C, 2]` its interval over the population that the inputs are a random
        sample from, as `GlobalRobustness.population_interval`. Of a run with a half
        width it is by betting, and holds whenever that ended; of inputs in groups it
        then is [0, 1]. NaN without an answer.
      std: `[C]` standard deviation of plr over the answered.
      adversarial: `[C]` the mean probability of a distinct misclassification.
      plr_all: `[C]` mean plr of all inputs, those without an answer by the share of
        their plain draws that are no hit; NaN if nothing was counted for them.
      inputs_interval: `[C, 2]` where `plr_all` of all the category's inputs lies, seen
        or not, by betting without replacement (Waudby-Smith and Ramdas 2020).
      welch: `[C, C]` p-values of Welch's t-test for equal means; never 0, and Student's
        where greater, or of fewer than 30 inputs Mann and Whitney's.
      binomial: `[C, C]` p-values of the binomial test that an input with a distinctly
        misclassified draw is as likely in either category; NaN where nothing was
        counted.
      confidence_level: the coverage of the intervals: of each `interval` alone, and of
        all `inputs_interval` together.

    The p-values are Holm's (1979), corrected for all pairs of categories; their
    diagonals are 1. They are NaN where a category has fewer than two answers, and of
    inputs in groups, which such tests take for independent.
    """

    names: tuple[str, ...]
    inputs: np.ndarray
    seen: np.ndarray
    answered: np.ndarray
    plr: np.ndarray
    interval: np.ndarray
    std: np.ndarray
    adversarial: np.ndarray
    plr_all: np.ndarray
    inputs_interval: np.ndarray
    welch: np.ndarray
    binomial: np.ndarray
    confidence_level: float = 0.95


def compare_categories(
    plr: np.ndarray,
    hits: np.ndarray | None,
    num_samples: int,
    categories: np.ndarray,
    class_names: tuple[str, ...] | None = None,
    place: np.ndarray | None = None,
    confidence_level: float = 0.95,
    groups: np.ndarray | None = None,
) -> Categorial:
    """Tells which categories of inputs are more robust than others.

    `RomaResult.categorial` calls it with its own arrays.

    Args:
      plr: `[N]`, NaN where there is no answer.
      hits: `[N]` distinct misclassifications among `num_samples` plain draws, or None.
      num_samples: plain draws.
      categories: int `[N]`.
      class_names: names of the categories 0, 1, ...; by default their numbers.
      place: int `[N]`, the place of each input among those that were looked at in
        random order, -1 for the others; None if all were, in any order.
      confidence_level: the coverage of the intervals, in (0, 1).
      groups: int `[N]`, equal where inputs belong together, or None.

    Returns:
      One entry for each category that occurs, in their order.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a category has no name, the arrays' lengths differ, or a number
        lies outside its range.
    """
    plr, hits, categories, place = _checked(plr, hits, num_samples, categories, place)
    confidence_level = checked_confidence_level(confidence_level)
    if groups is not None:
        groups = checked_array("groups", groups, "N", "integers", axes={"N": len(plr)})
    error = 1 - confidence_level
    stops = place is not None
    place = np.arange(len(plr)) if place is None else place
    present = np.unique(categories)
    if class_names is not None:
        class_names = checked_names("class_names", class_names)
    names = names_of(present, class_names)
    seen = [in_order(categories == number, place) for number in present]
    known = [some[~np.isnan(plr[some])] for some in seen]
    answered = [plr[some] for some in known]
    mean = np.array([some.mean() if len(some) else np.nan for some in answered])
    std = [some.std(ddof=1) if len(some) > 1 else np.nan for some in answered]
    over_inputs = means_by_category(
        plr_of_all(plr, hits, num_samples), place, categories, error
    )
    intervals = [
        _interval(plr[some], error, stops, groups if groups is None else groups[some])
        for some in known
    ]
    hit = [None if hits is None else hits[some] > 0 for some in seen]
    welch, binomial = _of_pairs(answered, _welch), _of_pairs(hit, _binomial)
    if groups is not None:
        welch = binomial = np.where(np.eye(len(present)), 1.0, np.nan)
    return Categorial(
        names=tuple(names[number] for number in present.tolist()),
        inputs=np.array([(categories == number).sum() for number in present]),
        seen=np.array([len(some) for some in seen]),
        answered=np.array([len(values) for values in answered]),
        plr=mean,
        interval=np.array(intervals),
        std=np.array(std),
        adversarial=1 - mean,
        plr_all=np.array([one.mean for one in over_inputs]),
        inputs_interval=np.array([(one.low, one.high) for one in over_inputs]),
        welch=welch,
        binomial=binomial,
        confidence_level=confidence_level,
    )


def names_of(present: np.ndarray, class_names: Sequence[str] | None) -> dict[int, str]:
    if class_names is None:
        return {number: str(number) for number in present.tolist()}
    if present.max() >= len(class_names):
        raise ValueError(
            f"class_names must name all categories up to {present.max()}; got "
            f"{len(class_names)} names"
        )
    return dict(enumerate(class_names))


def _checked(
    plr: np.ndarray,
    hits: np.ndarray | None,
    num_samples: int,
    categories: np.ndarray,
    place: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray | None]:
    axes: dict[str, int] = {}
    plr = checked_array(
        "plr", plr, "N", at_least=0, at_most=1, may_be_nan=True, axes=axes
    )
    num_samples = checked_integer("num_samples", num_samples, at_least=1)
    if place is not None:
        place = checked_array("place", place, "N", "integers", at_least=-1, axes=axes)
        seen = np.sort(place[place >= 0])
        if place.min() < -1 or not np.array_equal(seen, np.arange(len(seen))):
            raise ValueError(
                "place must be 0, 1, ... once each, or -1 for inputs not looked at"
            )
    if hits is not None:
        least = 0 if place is None else -1
        hits = checked_array(
            "hits",
            hits,
            "N",
            "integers",
            at_least=least,
            at_most=num_samples,
            axes=axes,
        )
    categories = checked_array(
        "categories", categories, "N", "integers", at_least=0, axes=axes
    )
    return plr, hits, categories, place


def _interval(
    values: np.ndarray, error: float, stops: bool, groups: np.ndarray | None
) -> tuple[float, float]:
    if not len(values):
        return np.nan, np.nan
    if stops:  # What holds whenever one stops is known of single inputs alone.
        if groups is not None:
            return 0.0, 1.0
        return inputs_mean(values, _POPULATION, error)[1:]
    return mean_interval(values, values, error / 2, groups=groups)


def _welch(first: np.ndarray, second: np.ndarray) -> float:
    """Returns Welch's p-value, or others' where few inputs are alike by chance."""
    # No test of equal populations goes below the share of the most extreme divisions.
    number, fewer = len(first) + len(second), min(len(first), len(second))
    if fewer < 2:
        return np.nan
    if np.ptp(np.concatenate([first, second])) == 0:
        return 1.0
    with warnings.catch_warnings():
        # SciPy warns of values that are equal except for rounding.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = [
            scipy.stats.ttest_ind(first, second, equal_var=alike).pvalue
            for alike in (False, True)
        ]
    if fewer < _FEW:
        found.append(scipy.stats.mannwhitneyu(first, second).pvalue)
    return max(*found, 2 / scipy.special.comb(number, fewer), np.finfo(float).tiny)


def _binomial(first: np.ndarray | None, second: np.ndarray | None) -> float:
    if first is None or second is None:
        return np.nan
    hit, all_hit = first.sum(), first.sum() + second.sum()
    if all_hit == 0:
        return 1.0
    expected = len(first) / (len(first) + len(second))
    return scipy.stats.binomtest(int(hit), int(all_hit), expected).pvalue


def _of_pairs(
    groups: Sequence[Group], test: Callable[[Group, Group], float]
) -> np.ndarray:
    """Corrected p-values of all pairs of groups, `[C, C]`."""
    number = len(groups)
    values = np.ones((number, number))
    pairs = np.triu_indices(number, 1)
    if number > 1:
        found = [test(*two) for two in itertools.combinations(groups, 2)]
        values[pairs] = values.T[pairs] = holm(np.array(found))
    return values
